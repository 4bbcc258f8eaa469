import cluster from 'node:cluster';
import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import { LockProcess } from '../support/lock-process.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';

const MEMBER = join(__dirname, '../support/hosting-member.mjs');
const MEMBERS = 3;
const ROUNDS = 50;

let running: RedisLocks;
let redis: Redis;

beforeEach(() => {
  running = new RedisLocks();
  redis = new Redis(testRedisUrl());
});
afterEach(async () => {
  await running.close();
  await redis.quit();
});

/** What each member gets. */
function memberOptions() {
  return { url: testRedisUrl(), prefix: running.prefix, counter: `${running.prefix}count`, rounds: ROUNDS };
}

async function expectNoneLost(): Promise<void> {
  const { counter } = memberOptions();
  expect(await redis.get(counter)).toBe(String(MEMBERS * ROUNDS));
  await redis.del(counter);
}

describe('the page on hosting', () => {
  it('has a module for a function', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const { inAFunction } = await import('./hosting/frozen.js');
    const module = await Test.createTestingModule({ imports: [inAFunction] }).compile();
    await module.init();
    const lock = await module.get(LockService).acquire(`${running.prefix}:1`);
    expect(lock.expiresInMs).toBeLessThanOrEqual(10_000);
    await lock.release();
    await module.close();
  });

  it('has a frozen process whose lock another one gets, and which finds it lost when it thaws', async () => {
    const options = { redis: testRedisUrl(), prefix: running.prefix, ttlMs: 2_000 };
    const frozen = await LockProcess.start(options);
    try {
      const token = await frozen.call('acquire', 'goods:300');
      frozen.pause();
      const other = running.start({ redis: testRedisUrl() });
      const lock = await other.acquire('goods:300');
      expect(lock.fencingToken).toBeGreaterThan(token);
      frozen.resume();
      expect(await frozen.call('untilLost', 'goods:300')).toMatch(/goods:300/);
      expect(await frozen.call('release', 'goods:300')).toBe(false);
      // The thawed process has left the lock of the other one as it is.
      await lock.extend();
      expect(await lock.release()).toBe(true);
    } finally {
      await frozen.kill();
    }
  });

  it('has a frozen process that waits, behind which the queue goes on', async () => {
    const options = { redis: testRedisUrl(), prefix: running.prefix, waitMs: 60_000 };
    const frozen = await LockProcess.start(options);
    const [locks, next] = [running.start(options), running.start(options)];
    try {
      const lock = await locks.acquire('goods:300');
      const waiting = frozen.call('acquire', 'goods:300');
      const queue = `${running.keyOf('goods', '300')}|queue`;
      await eventually('it waits', async () => (await redis.zcard(queue)) === 1);
      frozen.pause();
      const behind = next.acquire('goods:300');
      await eventually('another one waits behind it', async () => (await redis.zcard(queue)) === 2);
      await lock.release();
      await (await behind).release();
      frozen.resume();
      await waiting;
      expect(await frozen.call('release', 'goods:300')).toBe(true);
    } finally {
      await frozen.kill();
    }
  });

  it('has worker threads that exclude each other', async () => {
    const workers = Array.from({ length: MEMBERS }, () => new Worker(MEMBER, { workerData: memberOptions() }));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    await Promise.all(workers.map((worker) => worker.terminate()));
    await expectNoneLost();
  }, 120_000);

  it("has workers of Node's cluster that exclude each other", async () => {
    cluster.setupPrimary({ exec: MEMBER, args: [JSON.stringify(memberOptions())] });
    const workers = Array.from({ length: MEMBERS }, () => cluster.fork());
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    await Promise.all(workers.map((worker) => (worker.isDead() ? undefined : once(worker, 'exit'))));
    await expectNoneLost();
  }, 120_000);
});
