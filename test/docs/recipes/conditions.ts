import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Locked, resource } from 'nestjs-redis-lock';

@Injectable()
export class Shelf implements OnApplicationShutdown {
  private readonly waiting: Redis;

  constructor(private readonly redis: Redis) {
    this.waiting = redis.duplicate(); // blocked while it waits
  }

  @Locked('goods:<id>')
  async put(id: number): Promise<void> {
    const goods = resource`goods:${id}`;
    await this.redis.incr(goods); // the state first, then the message
    await this.redis.multi().rpush(`${goods}|filled`, 1).ltrim(`${goods}|filled`, -1, -1).exec();
  }

  @Locked('goods:<id>')
  async tryTake(id: number): Promise<boolean> {
    const goods = resource`goods:${id}`;
    if (Number(await this.redis.get(goods)) < 1) return false;
    await this.redis.decr(goods);
    return true;
  }

  /** Waits outside of the lock, and looks at the state under it. */
  async take(id: number, signal: AbortSignal): Promise<void> {
    while (!(await this.tryTake(id))) {
      signal.throwIfAborted();
      await this.waiting.blpop(`${resource`goods:${id}`}|filled`, 1); // a lost message costs a second
    }
  }

  onApplicationShutdown(): void {
    this.waiting.disconnect();
  }
}
