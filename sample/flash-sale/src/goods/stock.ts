import type { OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';

export interface StockLevel {
  readonly id: number;
  readonly left: number;
  readonly sold: number;
}

/** The pieces left of each goods, and the pieces sold. Without a lock, the last write wins. */
export abstract class Stock {
  abstract find(id: number): Promise<StockLevel | undefined>;
  abstract findAll(): Promise<StockLevel[]>;
  abstract setLeft(id: number, left: number): Promise<void>;
  /** Counts atomically, so that overselling is visible. */
  abstract countSale(id: number): Promise<void>;
  abstract forget(id: number): Promise<void>;
}

const LEFT = 'flash-sale:left';
const SOLD = 'flash-sale:sold';
// The Redis may be the user's own: the keys of a sale expire.
const FORGOTTEN_AFTER_S = 3_600;

export class RedisStock extends Stock implements OnApplicationShutdown {
  private readonly redis: Redis;

  constructor(url: string) {
    super();
    this.redis = new Redis(url, { maxRetriesPerRequest: 1 });
    // RedisLockModule already warns if Redis is unavailable.
    this.redis.on('error', () => undefined);
  }

  async find(id: number): Promise<StockLevel | undefined> {
    // At one moment: a sale between two reads would look oversold.
    const replies = await this.redis.multi().hget(LEFT, String(id)).hget(SOLD, String(id)).exec();
    const [left = null, sold = null] = (replies ?? []).map(([error, value]) => {
      if (error !== null) throw error;
      return value as string | null;
    });
    return left === null ? undefined : { id, left: Number(left), sold: Number(sold) };
  }

  async findAll(): Promise<StockLevel[]> {
    const [left, sold] = await Promise.all([this.redis.hgetall(LEFT), this.redis.hgetall(SOLD)]);
    return Object.keys(left).map((id) => ({ id: Number(id), left: Number(left[id]), sold: Number(sold[id] ?? 0) }));
  }

  async setLeft(id: number, left: number): Promise<void> {
    await this.redis.hset(LEFT, String(id), left);
    await this.redis.expire(LEFT, FORGOTTEN_AFTER_S);
  }

  async countSale(id: number): Promise<void> {
    await this.redis.hincrby(SOLD, String(id), 1);
    await this.redis.expire(SOLD, FORGOTTEN_AFTER_S);
  }

  async forget(id: number): Promise<void> {
    await this.redis.multi().hdel(LEFT, String(id)).hdel(SOLD, String(id)).exec();
  }

  onApplicationShutdown(): void {
    this.redis.disconnect();
  }
}

/** Keeps the stock in this process, for a machine without Redis. */
export class MemoryStock extends Stock {
  private readonly levels = new Map<number, StockLevel>();

  find(id: number): Promise<StockLevel | undefined> {
    return Promise.resolve(this.levels.get(id));
  }

  findAll(): Promise<StockLevel[]> {
    return Promise.resolve([...this.levels.values()]);
  }

  setLeft(id: number, left: number): Promise<void> {
    this.levels.set(id, { id, sold: this.levels.get(id)?.sold ?? 0, left });
    return Promise.resolve();
  }

  countSale(id: number): Promise<void> {
    const level = this.levels.get(id) ?? { id, left: 0, sold: 0 };
    this.levels.set(id, { ...level, sold: level.sold + 1 });
    return Promise.resolve();
  }

  forget(id: number): Promise<void> {
    this.levels.delete(id);
    return Promise.resolve();
  }
}
