import { Test } from '@nestjs/testing';
import { expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { testRedisUrl } from '../support/shared-redis.js';

it('the page on clients has an application that locks by node-redis', async () => {
  process.env['REDIS_URL'] = testRedisUrl();
  const { AppModule, redis } = await import('./node-redis.js');
  const app = await Test.createTestingModule({ imports: [AppModule] }).compile();
  await app.init();
  const locks = app.get(LockService);
  const lock = await locks.acquire('goods:300');
  expect(lock.signal.aborted).toBe(false);
  await lock.release();
  await app.close();
  expect(redis.isReady).toBe(true);
  await redis.close();
});
