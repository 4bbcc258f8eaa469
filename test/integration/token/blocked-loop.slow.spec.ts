import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockInfo } from 'nestjs-redis-lock';
import { HANDOFF_MS } from '../../../lib/core/lease/grant.js';
import { LockProcess } from '../../support/lock-process.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';

const BLOCK_MS = HANDOFF_MS + 1_000;
const BLOCKED = /was lost after \d+ ms: the event loop was blocked for \d+\.\d s, and its renewal could not be sent\.$/;

let running: RedisLocks;
let admin: Redis;
let processes: LockProcess[];

beforeEach(() => {
  running = new RedisLocks();
  admin = new Redis(testRedisUrl());
  processes = [];
});
afterEach(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await running.close();
  admin.disconnect();
});

const start = async (options: object = {}): Promise<LockProcess> => {
  const started = await LockProcess.start({ redis: testRedisUrl(), prefix: running.prefix, ...options });
  processes.push(started);
  return started;
};

/**
 * Hands a lock to a process whose work blocks its event loop from the first line. Rejects if the process loses it.
 * Returns the lock after the work.
 */
async function handTo(other: LockProcess, asserts: boolean): Promise<LockInfo | null> {
  const locks = running.start({ redis: testRedisUrl() });
  const key = running.keyOf('goods', '300');
  const first = await locks.acquire('goods:300');
  const blocked = other.call('block', 'goods:300', BLOCK_MS, asserts);
  await eventually('it waits', async () => (await admin.zcard(`${key}|queue`)) === 1);
  await first.release();
  await eventually('the lock has its full lease', async () => (await admin.pttl(key)) > 25_000, BLOCK_MS / 2);
  await blocked;
  return locks.inspect('goods:300');
}

describe('a process whose event loop stands still', () => {
  it.each([
    ['and then waits for a timer', { asserts: true, client: {} }],
    ['and then ends', { asserts: false, client: {} }],
    ['with enableAutoPipelining', { asserts: true, client: { enableAutoPipelining: true } }],
  ])('keeps a handed-off lock if its work blocks from the first line %s', async (_, { asserts, client }) => {
    const { port, hostname } = new URL(testRedisUrl());
    const other = await start({ redis: { port: Number(port), host: hostname, ...client }, ttlMs: 30_000 });
    expect(await handTo(other, asserts)).toBeNull();
  });

  it('keeps a handed-off lock if its work blocks from the first line, by node-redis', async () => {
    const other = await start({ byNodeRedis: true, ttlMs: 30_000 });
    expect(await handTo(other, true)).toBeNull();
  });

  it('loses its lock after the lease and says why, if it was stopped', async () => {
    const stopped = await start({ ttlMs: 600 });
    const key = running.keyOf('goods', '300');
    // A process that is stopped before it reads the reply acquires the lock again and keeps it.
    await stopped.call('acquire', 'goods:300');
    const lost = stopped.call('untilLost', 'goods:300');
    stopped.pause();
    await eventually('its lease is over', async () => (await admin.exists(key)) === 0);
    stopped.resume();
    expect(await lost).toMatch(BLOCKED);
  });
});
