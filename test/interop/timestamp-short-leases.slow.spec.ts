import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { runClient } from './client-process.js';
import { say } from './on-java.js';
import { TimestampReferee } from './timestamp-referee.js';

const OLD_CLIENT = join(__dirname, 'timestamp-client.mjs');
const RUN_MS = 8_000;
/** The longest time that an old client takes from reading an expired value to replacing it. */
const SLOW_MS = 40;

let running: RedisLocks;

beforeEach(() => {
  running = new RedisLocks();
});
afterEach(() => running.close());

/** Acquires the lock again and again, and releases it a few milliseconds before its end. */
async function letRunOut(locks: LockService, ttlMs: number): Promise<void> {
  const endsAt = Date.now() + RUN_MS;
  while (Date.now() < endsAt) {
    const lock = await locks.acquire('account:1', { maxHoldMs: ttlMs });
    await sleep(ttlMs - 3 - Math.random() * 3);
    await lock.release();
  }
}

it.each([120, 200, 300])('no lock of an old client is deleted if every lock runs out after %i ms', async (lease) => {
  const key = `${uniquePrefix()}account:1_lock`;
  const referee = await TimestampReferee.watch(testRedisUrl(), key);
  const { hostname: host, port } = new URL(testRedisUrl());
  const options = { host, port: Number(port), key, lease, unit: 'ms', forMs: RUN_MS };
  const store = timestamp({ unit: 'ms', retryDelayMs: 8 });
  const start = () => running.start({ redis: testRedisUrl(), store, ttlMs: 2 * lease, waitMs: 60_000, key: () => key });
  const old = [SLOW_MS, 0, 0].map((slowMs) => runClient(process.execPath, OLD_CLIENT, { ...options, slowMs }));
  const ours = [1, 2, 3].map(() => letRunOut(start(), lease));
  await Promise.all([...old, ...ours]);
  const { grants, faults, overlapsMs } = referee.end();
  const longest = Math.max(0, ...overlapsMs).toFixed(1);
  say(`${lease} ms: ${grants.ours} of ours, ${grants.old} old, ${overlapsMs.length} overlaps (up to ${longest} ms)`);
  expect(faults).toEqual([]);
  expect(Math.min(grants.ours, grants.old)).toBeGreaterThan(0);
  const redis = new Redis(testRedisUrl());
  await redis.del(key);
  await redis.quit();
});
