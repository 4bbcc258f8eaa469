import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import {
  HttpException,
  Injectable,
  NotFoundException,
  type OnModuleDestroy,
  ServiceUnavailableException,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { LockError, LockService } from 'nestjs-redis-lock';
import { GoodsService } from '../goods/goods.service.js';
import { Stock } from '../goods/stock.js';
import { settings } from '../settings.js';
import { type LiveSale, type Purchase, SaleLog, type Side } from './sale-log.js';

const STOCK = 100;
/** A sale that does not sell out ends then, for example because an instance was killed between two writes. */
const SALE_MS = 120_000;
/** Longer than the last buyers of a sale wait for the lock. */
const FORGET_AFTER_MS = 15_000;

export interface SideTotals {
  readonly left: number;
  readonly sold: number;
  /** Pieces that were sold without being taken out of the stock: others got the same ones. */
  readonly oversold: number;
}

export interface LiveState {
  readonly sale: LiveSale | null;
  readonly isOver: boolean;
  readonly sides: Readonly<Record<Side, SideTotals>> | null;
  /** What was recorded after the position in the request. */
  readonly purchases: readonly Purchase[];
  /** The position after these purchases. */
  readonly next: number;
  /** The port of the instance that replies. */
  readonly instance: number;
  readonly instances: readonly number[];
  readonly inMemory: boolean;
}

/** The sale that the page shows. */
@Injectable()
export class LiveSaleService implements OnModuleDestroy {
  private readonly stopping = new AbortController();

  constructor(
    private readonly goods: GoodsService,
    private readonly stock: Stock,
    private readonly log: SaleLog,
    private readonly locks: LockService,
    private readonly host: HttpAdapterHost,
  ) {
    // Each of the last sales listens, and Node warns of more than ten.
    setMaxListeners(0, this.stopping.signal);
  }

  /** The port of this instance, undefined before it listens. */
  get port(): number | undefined {
    const address = (this.host.httpAdapter.getHttpServer() as { address(): { port: number } | null }).address();
    return address?.port;
  }

  get instances(): readonly number[] {
    return settings.instances.length > 0 ? settings.instances : [this.port ?? settings.port];
  }

  onModuleDestroy(): void {
    this.stopping.abort();
  }

  /**
   * Starts a sale of new goods on both sides. With `after`, nothing happens if another viewer has started one since.
   *
   * @throws ServiceUnavailableException if Redis does not reply
   */
  async start(perSecond: number, after?: number): Promise<void> {
    const starting = this.locks.using('sale', async (lock) => {
      const before = await this.log.current();
      if (after !== undefined && after !== (before?.id ?? 0)) return;
      const id = Math.max(Date.now(), (before?.id ?? 0) + 1);
      const goods = await this.freeGoods();
      await Promise.all([this.goods.restock(goods, STOCK), this.goods.restock(goods + 1, STOCK)]);
      lock.assertHeld();
      await this.log.start({ id, goods, stock: STOCK, perSecond, startedAt: Date.now() });
      // What is not forgotten here expires.
      if (before !== undefined) this.forget(before).catch(() => undefined);
    });
    await orUnavailable(starting);
  }

  /**
   * Changes how many buyers come each second.
   *
   * @throws NotFoundException if there was no sale yet
   * @throws ServiceUnavailableException if Redis does not reply
   */
  async setRate(perSecond: number): Promise<void> {
    const isChanged = await orUnavailable(this.log.setRate(perSecond));
    if (!isChanged) throw new NotFoundException('There is no sale: start one first.');
  }

  /**
   * Returns the sale for which buyers come, or undefined if there is none.
   *
   * @throws ServiceUnavailableException if Redis does not reply
   */
  async running(): Promise<LiveSale | undefined> {
    const sale = await orUnavailable(this.log.current());
    if (sale === undefined) return undefined;
    return isOver(sale, await orUnavailable(this.totalsOf(sale))) ? undefined : sale;
  }

  /**
   * Returns the current state. `after` counts the purchases of sale `id` that the caller knows.
   *
   * @throws ServiceUnavailableException if Redis does not reply
   */
  state(id: number, after: number): Promise<LiveState> {
    return orUnavailable(this.read(id, after));
  }

  private async read(id: number, after: number): Promise<LiveState> {
    const sale = await this.log.current();
    const page = { instance: this.port ?? settings.port, instances: this.instances, inMemory: settings.inMemory };
    if (sale === undefined) return { sale: null, isOver: true, sides: null, purchases: [], next: 0, ...page };
    const from = sale.id === id ? after : 0;
    const [sides, purchases] = await Promise.all([this.totalsOf(sale), this.log.purchases(sale.id, from)]);
    return { sale, isOver: isOver(sale, sides), sides, purchases, next: from + purchases.length, ...page };
  }

  /**
   * Returns the first two goods that nobody sells: usually 1 and 2. Late buyers of the previous sale still order its
   * goods, so these become free only once they are removed.
   */
  private async freeGoods(): Promise<number> {
    const taken = new Set((await this.stock.findAll()).map(({ id }) => id));
    let id = 1;
    while (taken.has(id) || taken.has(id + 1)) id += 2;
    return id;
  }

  private async totalsOf(sale: LiveSale): Promise<Record<Side, SideTotals>> {
    const totals = async (side: Side): Promise<SideTotals> => {
      const { left, sold } = (await this.stock.find(goodsOf(sale, side))) ?? { left: sale.stock, sold: 0 };
      return { left, sold, oversold: Math.max(0, sold + left - sale.stock) };
    };
    const [locked, unlocked] = await Promise.all([totals('locked'), totals('unlocked')]);
    return { locked, unlocked };
  }

  /** Removes the goods of a sale after its last buyers have left. */
  private async forget(sale: LiveSale): Promise<void> {
    await pause(FORGET_AFTER_MS, undefined, { signal: this.stopping.signal, ref: false });
    await Promise.all([this.stock.forget(sale.goods), this.stock.forget(sale.goods + 1)]);
  }
}

/** Returns the id of the goods that a side of the sale sells. */
export function goodsOf({ goods }: LiveSale, side: Side): number {
  return side === 'locked' ? goods : goods + 1;
}

function isOver({ startedAt, stock }: LiveSale, { locked, unlocked }: Record<Side, SideTotals>): boolean {
  // The stock is written before the sale is counted.
  const isSoldOut = [locked, unlocked].every(({ left, sold }) => left === 0 && sold >= stock);
  return isSoldOut || Date.now() > startedAt + SALE_MS;
}

/** Pages repeat their requests. A log entry for each that Redis does not reply to would hide everything else. */
async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof HttpException || cause instanceof LockError) throw cause;
    throw new ServiceUnavailableException('Redis does not reply.', { cause });
  }
}
