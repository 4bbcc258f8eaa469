import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as atLeast } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockInfo } from 'nestjs-redis-lock';
import { handoffLease } from '../../../lib/engine/lease.js';
import { LockProcess } from '../../support/lock-process.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';

const TTL_MS = 600_000;

let running: RedisLocks;
let admin: Redis;
let processes: LockProcess[];
let folder: string;

beforeEach(() => {
  running = new RedisLocks();
  admin = new Redis(testRedisUrl());
  processes = [];
  folder = mkdtempSync(join(tmpdir(), 'blocked-'));
});
afterEach(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await running.close();
  admin.disconnect();
  rmSync(folder, { recursive: true, force: true });
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
  const file = join(folder, 'go-on');
  const blocked = other.call('block', 'goods:300', file, asserts);
  await eventually('it waits', async () => (await admin.zcard(`${key}|queue`)) === 1);
  await first.release();
  await eventually('the lock has its full lease', async () => (await admin.pttl(key)) > TTL_MS / 2);
  // The local deadline of the handoff passes.
  await atLeast(handoffLease(Infinity));
  writeFileSync(file, '');
  await blocked;
  return locks.inspect('goods:300');
}

describe('a process whose event loop stands still', () => {
  it.each([
    ['and then lets it turn', { asserts: true, client: {} }],
    ['and then ends', { asserts: false, client: {} }],
    ['with enableAutoPipelining', { asserts: true, client: { enableAutoPipelining: true } }],
  ])('keeps a handed-off lock if its work blocks from the first line %s', async (_, { asserts, client }) => {
    const { port, hostname } = new URL(testRedisUrl());
    const other = await start({ redis: { port: Number(port), host: hostname, ...client }, ttlMs: TTL_MS });
    expect(await handTo(other, asserts)).toBeNull();
  });

  it('keeps a handed-off lock if its work blocks from the first line, by node-redis', async () => {
    const other = await start({ byNodeRedis: true, ttlMs: TTL_MS });
    expect(await handTo(other, true)).toBeNull();
  });
});
