import { Body, Controller, Delete, Get, HttpCode, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';
import { type GoodsOnSale, GoodsService, type Receipt } from './goods.service.js';
import type { StockLevel } from './stock.js';

@Controller('goods/:id')
export class GoodsController {
  constructor(private readonly goods: GoodsService) {}

  @Get()
  look(@Param('id', ParseIntPipe) id: number): Promise<GoodsOnSale> {
    return this.goods.look(id);
  }

  /** Serves one buyer of these goods at a time, on all instances. Buyers of other goods do not wait. */
  @Post('buy')
  @Locked('goods:<id>')
  buy(@Param('id', ParseIntPipe) id: number): Promise<Receipt> {
    return this.goods.sellOne(id);
  }

  /** The same without the lock: it oversells. */
  @Post('buy-unlocked')
  buyUnlocked(@Param('id', ParseIntPipe) id: number): Promise<Receipt> {
    return this.goods.sellOne(id);
  }

  @Post('restock')
  restock(@Param('id', ParseIntPipe) id: number, @Body('amount', ParseIntPipe) amount: number): Promise<StockLevel> {
    return this.goods.restock(id, amount);
  }

  @Delete()
  @HttpCode(204)
  remove(@Param('id', ParseIntPipe) id: number): Promise<void> {
    return this.goods.remove(id);
  }
}
