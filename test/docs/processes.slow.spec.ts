import cluster from 'node:cluster';
import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import { LockProcess } from '../support/lock-process.js';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { load } from './blocks.js';

const MEMBER = join(__dirname, '../support/counting-member.mjs');
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

/** Returns what the members have counted, and deletes it. */
async function counted(): Promise<number> {
  const { counter } = memberOptions();
  const count = Number(await redis.get(counter));
  await redis.del(counter);
  return count;
}

describe('the page on production', () => {
  it('has a module for a function that freezes', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const { inAFunction } = load('docs/production.md', 'inAFunction');
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
      const other = running.start({ redis: testRedisUrl(), waitMs: 60_000 });
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

  it('has worker threads that exclude each other', async () => {
    const workers = Array.from({ length: MEMBERS }, () => new Worker(MEMBER, { workerData: memberOptions() }));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    await Promise.all(workers.map((worker) => worker.terminate()));
    expect(await counted()).toBe(MEMBERS * ROUNDS);
  });

  it("has workers of Node's cluster that exclude each other", async () => {
    cluster.setupPrimary({ exec: MEMBER, args: [JSON.stringify(memberOptions())] });
    const workers = Array.from({ length: MEMBERS }, () => cluster.fork());
    const exits = workers.map((worker) => once(worker, 'exit'));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    await Promise.all(exits);
    expect(await counted()).toBe(MEMBERS * ROUNDS);
  });
});
