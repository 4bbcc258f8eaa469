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
   * The lock serves one caller at a time. If it is lost, the fence decides: a late write is a 409, any other write did
   * no harm. The loss itself is therefore no error (`onLost`).
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
