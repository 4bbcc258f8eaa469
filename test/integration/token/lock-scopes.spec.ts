import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockLostError, type LockService, runInLockScope } from 'nestjs-redis-lock';
import { eventually } from '../../support/async.js';
import { RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';

const CALLS = 12;

let redisLocks: RedisLocks;
let redis: Redis;

beforeEach(() => {
  redisLocks = new RedisLocks();
  redis = new Redis(testRedisUrl());
});

afterEach(async () => {
  await redisLocks.close();
  await redis.quit();
});

/** A stock whose sales are visible to others after their commit only. */
class Stock {
  sold = 0;

  /** Sells one under a lock that ends before the commit, as a locked method does that a transaction calls. */
  async sell(locks: LockService): Promise<void> {
    const sold = await locks.using('goods:300', { waitMs: 30_000 }, () => this.sold + 1);
    // Far longer than a handoff takes.
    await new Promise((resolve) => setTimeout(resolve, 20));
    this.sold = sold;
  }
}

describe('a commit after the lock has ended', () => {
  const start = (): LockService => redisLocks.start({ redis: testRedisUrl() });

  it('loses updates without a scope', async () => {
    const [locks, stock] = [start(), new Stock()];
    await Promise.all(Array.from({ length: CALLS }, () => stock.sell(locks)));
    expect(stock.sold).toBeLessThan(CALLS);
  });

  it('loses none in scopes, in two instances', async () => {
    const [services, stock] = [[start(), start()], new Stock()];
    const sales = Array.from({ length: CALLS }, (_, i) => runInLockScope(() => stock.sell(services[i % 2])));
    await Promise.all(sales);
    expect(stock.sold).toBe(CALLS);
    expect(await services[0].inspect('goods:300')).toBeNull();
  });

  it('is after the loss of the lock if the key is deleted meanwhile', async () => {
    const locks = redisLocks.start({ redis: testRedisUrl(), ttlMs: 1_500 });
    const key = redisLocks.keyOf('goods', '300');
    const sale = runInLockScope(async (scope) => {
      await locks.using('goods:300', () => undefined);
      // Renewed: it outlasts its lease.
      const until = performance.now() + 2_000;
      await eventually('the lease is over', () => performance.now() > until);
      expect(await redis.exists(key)).toBe(1);
      scope.assertHeld();
      await redis.del(key);
      await eventually('the scope is aborted', () => scope.signal.aborted);
      scope.assertHeld();
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await redis.exists(key)).toBe(0);
  });
});
