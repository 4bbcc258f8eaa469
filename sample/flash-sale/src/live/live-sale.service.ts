import { Injectable, NotFoundException, ServiceUnavailableException } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { GoodsService } from '../goods/goods.service.js';
import { Stock } from '../goods/stock.js';
import { settings } from '../settings.js';
import { type LiveSale, type Purchase, SaleLog, type Side } from './sale-log.js';

const STOCK = 100;
/** A sale that does not sell out ends then, for example because nobody buys. */
const SALE_MS = 120_000;

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
  /** What was recorded after the position that was asked for. */
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
export class LiveSaleService {
  constructor(
    private readonly goods: GoodsService,
    private readonly stock: Stock,
    private readonly log: SaleLog,
    private readonly host: HttpAdapterHost,
  ) {}

  /** The port of this instance, undefined before it listens. */
  get port(): number | undefined {
    const address = (this.host.httpAdapter.getHttpServer() as { address(): { port: number } | null }).address();
    return address?.port;
  }

  get instances(): readonly number[] {
    return settings.instances.length > 0 ? settings.instances : [this.port ?? settings.port];
  }

  /** Starts a sale of new goods on both sides, and forgets those of the sale before. */
  async start(perSecond: number): Promise<void> {
    const before = await this.log.current();
    const id = Math.max(Date.now(), (before?.id ?? 0) + 2);
    await Promise.all([this.goods.restock(id, STOCK), this.goods.restock(goodsOf({ id }, 'unlocked'), STOCK)]);
    await this.log.start({ id, stock: STOCK, perSecond, startedAt: Date.now() });
    if (before === undefined) return;
    await Promise.all([this.stock.forget(before.id), this.stock.forget(goodsOf(before, 'unlocked'))]);
  }

  /** Changes how many buyers come each second. @throws NotFoundException if there was no sale yet. */
  async setRate(perSecond: number): Promise<void> {
    if (!(await this.log.setRate(perSecond))) throw new NotFoundException('There is no sale: start one first.');
  }

  /** Returns the sale for which buyers come, or undefined if there is none. */
  async running(): Promise<LiveSale | undefined> {
    const sale = await this.log.current();
    return sale === undefined || isOver(sale, await this.totalsOf(sale)) ? undefined : sale;
  }

  /**
   * Returns the present state. `after` counts the purchases of sale `id` that the caller knows.
   *
   * @throws ServiceUnavailableException if Redis does not reply
   */
  async state(id: number, after: number): Promise<LiveState> {
    try {
      return await this.read(id, after);
    } catch (cause) {
      // Pages repeat the request. A log entry for each would hide everything else.
      throw new ServiceUnavailableException('Redis does not reply.', { cause });
    }
  }

  private async read(id: number, after: number): Promise<LiveState> {
    const sale = await this.log.current();
    const page = { instance: this.port ?? settings.port, instances: this.instances, inMemory: settings.inMemory };
    if (sale === undefined) return { sale: null, isOver: true, sides: null, purchases: [], next: 0, ...page };
    const from = sale.id === id ? after : 0;
    const [sides, purchases] = await Promise.all([this.totalsOf(sale), this.log.purchases(sale.id, from)]);
    return { sale, isOver: isOver(sale, sides), sides, purchases, next: from + purchases.length, ...page };
  }

  private async totalsOf(sale: LiveSale): Promise<Record<Side, SideTotals>> {
    const totals = async (side: Side): Promise<SideTotals> => {
      const { left, sold } = (await this.stock.find(goodsOf(sale, side))) ?? { left: sale.stock, sold: 0 };
      return { left, sold, oversold: Math.max(0, sold + left - sale.stock) };
    };
    const [locked, unlocked] = await Promise.all([totals('locked'), totals('unlocked')]);
    return { locked, unlocked };
  }
}

/** Returns the id of the goods that a side of the sale sells. */
export function goodsOf({ id }: Pick<LiveSale, 'id'>, side: Side): number {
  return side === 'locked' ? id : id + 1;
}

function isOver({ startedAt }: LiveSale, { locked, unlocked }: Record<Side, SideTotals>): boolean {
  return (locked.left === 0 && unlocked.left === 0) || Date.now() > startedAt + SALE_MS;
}
