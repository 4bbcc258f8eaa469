import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { StockService } from './fencing/redis.js';

describe('the page on fencing', () => {
  const locks = new RedisLocks();
  let redis: Redis;

  beforeAll(() => {
    redis = new Redis(testRedisUrl(), { keyPrefix: uniquePrefix() });
  });
  afterAll(async () => {
    await locks.close();
    redis.disconnect();
  });

  it('has an example for Redis that works and refuses a late holder', async () => {
    const service = locks.start({ redis: testRedisUrl() });
    const stock = new StockService(service, redis);
    await redis.hset('goods:300', 'left', 20);
    expect(await stock.sell(300, async () => undefined)).toBe(19);
    const later = new RedisFence(redis, 'goods:300');
    const overtaken = async () => later.open(Number.MAX_SAFE_INTEGER);
    await expect(stock.sell(300, overtaken)).rejects.toThrow(StaleFenceError);
    expect(await redis.hget('goods:300', 'left')).toBe('19');
    await redis.del('goods:300', '{goods:300}|opened');
  });
});
