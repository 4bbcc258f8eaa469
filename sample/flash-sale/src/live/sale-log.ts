import type { OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';

/** A sale of the page: the same stock twice, with the lock and without it. */
export interface LiveSale {
  /** Milliseconds since the epoch, so that it differs from sales that Redis has forgotten. */
  readonly id: number;
  /** The goods that are sold with the lock. Those without it have the next id. */
  readonly goods: number;
  readonly stock: number;
  /** How many buyers come each second, to all instances together. */
  readonly perSecond: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

export type Side = 'locked' | 'unlocked';

/** What a buyer got. `busy`: the lock was not free in time. `failed`: any other error. */
export type Outcome = 'sold' | 'sold-out' | 'busy' | 'failed';

/** One buyer of one side, as the instance replied. */
export interface Purchase {
  readonly side: Side;
  /** A name, which may contain anything. */
  readonly buyer: string;
  /** The port of the instance. */
  readonly instance: number;
  /** Milliseconds since the start of the sale. */
  readonly at: number;
  readonly outcome: Outcome;
  /** The number of the piece on the receipt. Undefined if nothing was sold. */
  readonly piece?: number | undefined;
}

/** Keeps the present sale and its buyers for all instances. */
export abstract class SaleLog {
  abstract current(): Promise<LiveSale | undefined>;
  abstract start(sale: LiveSale): Promise<void>;
  /** Returns whether there is a sale. */
  abstract setRate(perSecond: number): Promise<boolean>;
  abstract record(id: number, purchase: Purchase): Promise<void>;
  /** Returns what was recorded after the first `after` purchases of that sale. */
  abstract purchases(id: number, after: number): Promise<Purchase[]>;
}

const SALE = 'flash-sale:live';
const purchasesOf = (id: number): string => `flash-sale:purchases:${id}`;
/** A page that was closed for long gets the rest in several replies. */
const MOST_PURCHASES = 500;
const FORGOTTEN_AFTER_S = 3_600;

export class RedisSaleLog extends SaleLog implements OnApplicationShutdown {
  private readonly redis: Redis;

  constructor(url: string) {
    super();
    this.redis = new Redis(url, { maxRetriesPerRequest: 1 });
    // RedisLockModule already warns if Redis is unavailable.
    this.redis.on('error', () => undefined);
  }

  async current(): Promise<LiveSale | undefined> {
    const { id, goods, stock, perSecond, startedAt } = await this.redis.hgetall(SALE);
    if (id === undefined) return undefined;
    return {
      id: Number(id),
      goods: Number(goods),
      stock: Number(stock),
      perSecond: Number(perSecond),
      startedAt: Number(startedAt),
    };
  }

  async start(sale: LiveSale): Promise<void> {
    await this.redis.multi().hset(SALE, sale).expire(SALE, FORGOTTEN_AFTER_S).exec();
  }

  async setRate(perSecond: number): Promise<boolean> {
    if ((await this.redis.exists(SALE)) === 0) return false;
    await this.redis.hset(SALE, { perSecond });
    return true;
  }

  async record(id: number, purchase: Purchase): Promise<void> {
    const key = purchasesOf(id);
    await this.redis.multi().rpush(key, JSON.stringify(purchase)).expire(key, FORGOTTEN_AFTER_S).exec();
  }

  async purchases(id: number, after: number): Promise<Purchase[]> {
    const found = await this.redis.lrange(purchasesOf(id), after, after + MOST_PURCHASES - 1);
    return found.map((line) => JSON.parse(line) as Purchase);
  }

  onApplicationShutdown(): void {
    this.redis.disconnect();
  }
}

/** Keeps the sale in this process, for a machine without Redis. */
export class MemorySaleLog extends SaleLog {
  private sale: LiveSale | undefined;
  private recorded: Purchase[] = [];

  current(): Promise<LiveSale | undefined> {
    return Promise.resolve(this.sale);
  }

  start(sale: LiveSale): Promise<void> {
    this.sale = sale;
    this.recorded = [];
    return Promise.resolve();
  }

  setRate(perSecond: number): Promise<boolean> {
    if (this.sale === undefined) return Promise.resolve(false);
    this.sale = { ...this.sale, perSecond };
    return Promise.resolve(true);
  }

  record(id: number, purchase: Purchase): Promise<void> {
    if (id === this.sale?.id) this.recorded.push(purchase);
    return Promise.resolve();
  }

  purchases(id: number, after: number): Promise<Purchase[]> {
    return Promise.resolve(id === this.sale?.id ? this.recorded.slice(after, after + MOST_PURCHASES) : []);
  }
}
