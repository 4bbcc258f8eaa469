import { Module } from '@nestjs/common';
import { Database } from '../database.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';
import { Prices } from './prices.js';

@Module({
  controllers: [OrdersController],
  providers: [Database, OrdersRepository, OrdersService, Prices],
})
export class OrdersModule {}
