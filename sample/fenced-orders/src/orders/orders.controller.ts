import { Body, Controller, Get, Param, ParseIntPipe, Post } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';
import type { Line } from './orders.repository.js';
import { OrdersService } from './orders.service.js';

@Controller('orders/:id')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Get()
  find(@Param('id', ParseIntPipe) id: number): Promise<readonly Line[]> {
    return this.orders.find(id);
  }

  /**
   * The lock makes callers take turns. The fence decides about one who has lost it: who was late answers 409, who was not
   * has done no harm, so that the loss as such (`onLost`) is no error.
   */
  @Post('lines')
  @Locked('order:<id>', { onLost: 'ignore' })
  addLine(
    @Param('id', ParseIntPipe) id: number,
    @Body('article') article: string,
    @CurrentLock() lock: Lock,
  ): Promise<readonly Line[]> {
    return this.orders.addLine(id, article, lock.fencingToken);
  }

  @Post('lines-unfenced')
  @Locked('order:<id>', { onLost: 'ignore' })
  addLineUnfenced(@Param('id', ParseIntPipe) id: number, @Body('article') article: string): Promise<readonly Line[]> {
    return this.orders.addLineUnfenced(id, article);
  }
}
