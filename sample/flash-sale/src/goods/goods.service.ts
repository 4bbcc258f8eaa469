import { setTimeout as pause } from 'node:timers/promises';
import { BadRequestException, ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { type LockInfo, LockService, resource } from 'nestjs-redis-lock';
import { Stock, type StockLevel } from './stock.js';

export interface Receipt {
  readonly id: number;
  readonly left: number;
}

export interface GoodsOnSale extends StockLevel {
  /** Who is buying or restocking at this moment. */
  readonly lock: LockInfo | null;
}

/** A payment, a call to another service: whatever happens in real life between reading and writing. */
const PAYMENT_MS = 25;

@Injectable()
export class GoodsService {
  constructor(
    private readonly stock: Stock,
    private readonly locks: LockService,
  ) {}

  /** Looking takes no lock. */
  async look(id: number): Promise<GoodsOnSale> {
    const [level, lock] = await Promise.all([this.levelOf(id), this.locks.inspect(resource`goods:${id}`)]);
    return { ...level, lock };
  }

  /** Reads, pauses, writes: right for one caller at a time, wrong for two. Who calls it sees to the lock. */
  async sellOne(id: number): Promise<Receipt> {
    const { left } = await this.levelOf(id);
    if (left === 0) throw new ConflictException(`Goods ${id} are sold out.`);
    await pause(PAYMENT_MS);
    await this.stock.setLeft(id, left - 1);
    await this.stock.countSale(id);
    return { id, left: left - 1 };
  }

  /** Reads and writes what the buyers read and write, so it takes the same lock as they do. */
  async restock(id: number, amount: number): Promise<StockLevel> {
    if (amount < 1) throw new BadRequestException('amount is a number from 1 up');
    return this.locks.using(resource`goods:${id}`, async (lock) => {
      const { left, sold } = (await this.stock.find(id)) ?? { left: 0, sold: 0 };
      await pause(PAYMENT_MS);
      lock.assertHeld();
      await this.stock.setLeft(id, left + amount);
      return { id, left: left + amount, sold };
    });
  }

  private async levelOf(id: number): Promise<StockLevel> {
    const level = await this.stock.find(id);
    if (level === undefined) throw new NotFoundException(`There are no goods ${id}: restock them first.`);
    return level;
  }
}
