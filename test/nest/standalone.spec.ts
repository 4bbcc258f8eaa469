import { Injectable } from '@nestjs/common';
import { afterEach, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Locked, LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { createLocks, type Locks } from 'nestjs-redis-lock/standalone';
import { eventually } from '../support/async.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { silent } from '../support/silent-logger.js';
import { closeApps, startApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class Shop {
  constructor(
    readonly room: Room,
    readonly locks: LockService,
  ) {}

  @Locked('goods:<id>', { waitMs: 100_000 })
  buy(id: number): Promise<string | undefined> {
    return this.room.stay(`sold ${id}`);
  }

  /** Increments a counter by reading and writing, which loses updates without a lock. */
  @Locked('counter:<key>', { waitMs: 100_000 })
  increment(key: string, redis: Redis): Promise<void> {
    return increment(key, redis);
  }
}

async function increment(key: string, redis: Redis): Promise<void> {
  const read = Number(await redis.get(key));
  await redis.set(key, read + 1);
}

const open: { close(): unknown }[] = [];

/** Starts an application, and locks without Nest that have its prefix. */
async function startBoth(): Promise<{ shop: Shop; locks: Locks; prefix: string }> {
  const app = await startApp({ providers: [Shop] });
  const { prefix } = app;
  const locks = createLocks({ redis: testRedisUrl(), prefix, waitMs: 100_000, logger: silent });
  open.push(locks);
  return { shop: app.nest.get(Shop), locks, prefix };
}

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  await closeApps();
});

it('a script without Nest waits for a @Locked method with the same key, and the method for the script', async () => {
  const { shop, locks } = await startBoth();
  const queued = () => eventually('it waits', async () => (await locks.inspect('goods:300'))?.waiting.length === 1);
  const bought = shop.buy(300);
  const visit = await shop.room.next();
  await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
  const script = locks.acquire('goods:300');
  await queued();
  const held = await locks.inspect('goods:300');
  visit.leave();
  expect(await bought).toBe('sold 300');
  const lock = await script;
  expect(lock.fencingToken).toBeGreaterThan(held?.fencingToken as number);
  const again = shop.buy(300);
  await queued();
  await lock.release();
  (await shop.room.next()).leave();
  expect(await again).toBe('sold 300');
});

it('a wrapped function and a @Locked method lose no update of one counter', async () => {
  const { shop, locks, prefix } = await startBoth();
  const redis = new Redis(testRedisUrl());
  open.push({ close: () => redis.disconnect() });
  const key = `${prefix}count`;
  const wrapped = locks.wrap('counter:<key>', increment);
  const calls = Array.from({ length: 40 }, (_, nth) =>
    nth % 2 === 0 ? shop.increment(key, redis) : wrapped(key, redis),
  );
  await Promise.all(calls);
  expect(await redis.get(key)).toBe('40');
  await redis.del(key);
});

it('a Nest application wraps functions by its own lock service', async () => {
  const { shop, locks } = await startBoth();
  const check = shop.locks.wrap('goods:<id>', (id: number) => [id, shop.locks.current()?.resource]);
  expect(await check(300)).toEqual([300, 'goods:300']);
  const lock = await locks.acquire('goods:300');
  const busy = shop.locks.wrap('goods:<id>', { waitMs: 0, onBusy: 'skip' }, (id: number) => id);
  expect(await busy(300)).toBeUndefined();
  await lock.release();
});
