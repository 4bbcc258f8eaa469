import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { Receipt } from '../goods/goods.service.js';
import { goodsOf, LiveSaleService } from './live-sale.service.js';
import { type LiveSale, type Outcome, type Purchase, SaleLog, type Side } from './sale-log.js';

/** A new sale or another rate counts after this time at the latest. */
const LOOK_MS = 200;
/** Longer than a buyer waits for the lock. */
const TIMEOUT_MS = 15_000;
const OUTCOMES: Readonly<Record<number, Outcome>> = { 409: 'sold-out', 423: 'busy' };

/**
 * The customers of this instance. Each one orders a piece on both sides at the same moment, by HTTP. They come at
 * random times, as customers do, and the instances know nothing of each other's.
 */
@Injectable()
export class BuyersService implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly stopping = new AbortController();
  private coming = Promise.resolve();

  constructor(
    private readonly live: LiveSaleService,
    private readonly log: SaleLog,
  ) {}

  onApplicationBootstrap(): void {
    this.coming = this.come();
  }

  async onModuleDestroy(): Promise<void> {
    this.stopping.abort();
    await this.coming;
  }

  private async come(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      // Redis may be gone for a while. RedisLockModule logs that.
      const sale = await this.live.running().catch(() => undefined);
      const waitMs = sale === undefined ? Infinity : this.untilNext(sale);
      await pause(Math.min(waitMs, LOOK_MS), undefined, { signal }).catch(() => undefined);
      // The distribution has no memory: a buyer that has not come by now is drawn again.
      if (sale !== undefined && waitMs <= LOOK_MS && !signal.aborted) this.sendBuyer(sale);
    }
  }

  /** Returns after how many milliseconds the next buyer comes to this instance, exponentially distributed. */
  private untilNext({ perSecond }: LiveSale): number {
    const here = perSecond / this.live.instances.length;
    return (-Math.log(1 - Math.random()) / here) * 1_000;
  }

  private sendBuyer(sale: LiveSale): void {
    for (const side of ['locked', 'unlocked'] as const) {
      // A purchase that Redis cannot record is not shown.
      this.buy(sale, side).catch(() => undefined);
    }
  }

  private async buy(sale: LiveSale, side: Side): Promise<void> {
    const { port } = this.live;
    if (port === undefined) return;
    const path = side === 'locked' ? 'buy' : 'buy-unlocked';
    const result = await order(`http://127.0.0.1:${port}/goods/${goodsOf(sale, side)}/${path}`);
    await this.log.record(sale.id, { side, instance: port, at: Date.now() - sale.startedAt, ...result });
  }
}

async function order(url: string): Promise<Pick<Purchase, 'outcome' | 'piece'>> {
  try {
    const response = await fetch(url, { method: 'POST', signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = (await response.json()) as Partial<Receipt>;
    if (response.status !== 201) return { outcome: OUTCOMES[response.status] ?? 'failed' };
    // Pieces are sold from the highest number down to 1.
    return { outcome: 'sold', piece: Number(body.left) + 1 };
  } catch {
    return { outcome: 'failed' };
  }
}
