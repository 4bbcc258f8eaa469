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
const NAMES =
  'Ada Alan Barbara Ben Carla Chen Dara Edsger Ella Emil Femi Frida Grace Hana Hugo Ines Ivan Jun Kofi Lars Leila ' +
  'Lin Mara Maya Mila Nia Noah Nora Olga Omar Paul Pia Ravi Rosa Sami Sara Tariq Timo Uma Yuki';
const NAME_LIST = NAMES.split(' ');

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

  /** Sends one buyer to both sides. Waits until both have been recorded. Never rejects. */
  async send(sale: LiveSale, buyer: string): Promise<void> {
    const sides = ['locked', 'unlocked'] as const;
    // A purchase that Redis cannot record is not shown.
    await Promise.allSettled(sides.map((side) => this.buy(sale, side, buyer)));
  }

  private async come(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      // Redis may be gone for a while. RedisLockModule logs that.
      const sale = await this.live.running().catch(() => undefined);
      const waitMs = sale === undefined ? Infinity : this.untilNext(sale);
      await pause(Math.min(waitMs, LOOK_MS), undefined, { signal }).catch(() => undefined);
      // The distribution has no memory: a buyer that has not come by now is drawn again.
      if (sale !== undefined && waitMs <= LOOK_MS && !signal.aborted) void this.send(sale, anyName());
    }
  }

  /** Returns after how many milliseconds the next buyer comes to this instance, exponentially distributed. */
  private untilNext({ perSecond }: LiveSale): number {
    const here = perSecond / this.live.instances.length;
    return (-Math.log(1 - Math.random()) / here) * 1_000;
  }

  private async buy(sale: LiveSale, side: Side, buyer: string): Promise<void> {
    const { port } = this.live;
    if (port === undefined) return;
    const path = side === 'locked' ? 'buy' : 'buy-unlocked';
    const result = await order(`http://127.0.0.1:${port}/goods/${goodsOf(sale, side)}/${path}`);
    // At its end, this instance closes its connections. What the buyer got is not known then.
    if (result.outcome === 'failed' && this.stopping.signal.aborted) return;
    await this.log.record(sale.id, { side, buyer, instance: port, at: Date.now() - sale.startedAt, ...result });
  }
}

function anyName(): string {
  return NAME_LIST[Math.floor(Math.random() * NAME_LIST.length)] ?? '';
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
