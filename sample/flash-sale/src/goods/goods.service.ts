import { setTimeout as pause } from 'node:timers/promises';
import { BadRequestException, ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { type LockInfo, LockService, resource } from 'nestjs-redis-lock';
import { settings } from '../settings.js';
import { Stock, type StockLevel } from './stock.js';

export interface Receipt {
  readonly id: number;
  readonly left: number;
}

export interface GoodsOnSale extends StockLevel {
  /** The present holder, if the goods are being bought or restocked. */
  readonly lock: LockInfo | null;
}

const MOST_PIECES = 1_000_000;

@Injectable()
export class GoodsService {
  constructor(
    private readonly stock: Stock,
    private readonly locks: LockService,
  ) {}

  /** Reads without a lock. */
  async look(id: number): Promise<GoodsOnSale> {
    const [level, lock] = await Promise.all([this.levelOf(id), this.locks.inspect(resource`goods:${id}`)]);
    return { ...level, lock };
  }

  /** Reads, pauses, writes. The caller must hold the lock. */
  async sellOne(id: number): Promise<Receipt> {
    const { left } = await this.levelOf(id);
    if (left === 0) throw new ConflictException(`Goods ${id} are sold out.`);
    await pause(settings.paymentMs);
    await this.stock.setLeft(id, left - 1);
    await this.stock.countSale(id);
    return { id, left: left - 1 };
  }

  /** Acquires the same lock as buyers do, because it writes the same stock. */
  async restock(id: number, amount: number): Promise<StockLevel> {
    if (!Number.isSafeInteger(id) || id < 1) throw new BadRequestException('id is a whole number from 1 up.');
    if (amount < 1 || amount > MOST_PIECES) {
      throw new BadRequestException(`amount is a whole number from 1 to ${MOST_PIECES}.`);
    }
    return this.locks.using(resource`goods:${id}`, async (lock) => {
      const { left, sold } = (await this.stock.find(id)) ?? { left: 0, sold: 0 };
      await pause(settings.paymentMs);
      lock.assertHeld();
      await this.stock.setLeft(id, left + amount);
      return { id, left: left + amount, sold };
    });
  }

  /** Forgets what is left and what was sold. Acquires the same lock as buyers do. */
  async remove(id: number): Promise<void> {
    await this.locks.using(resource`goods:${id}`, () => this.stock.forget(id));
  }

  private async levelOf(id: number): Promise<StockLevel> {
    const level = await this.stock.find(id);
    if (level === undefined) throw new NotFoundException(`There are no goods ${id}: restock them first.`);
    return level;
  }
}
