import { Module } from '@nestjs/common';
import { GoodsController } from './goods.controller.js';
import { GoodsService } from './goods.service.js';
import { MemoryStock, RedisStock, Stock } from './stock.js';
import { settings } from '../settings.js';

@Module({
  controllers: [GoodsController],
  providers: [
    GoodsService,
    {
      provide: Stock,
      useFactory: (): Stock => (settings.inMemory ? new MemoryStock() : new RedisStock(settings.redisUrl)),
    },
  ],
  exports: [GoodsService, Stock],
})
export class GoodsModule {}
