// The rules of time are in test/locks/lock-delay.spec.ts. Here is what Redis and its replicas keep of them.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockReplicationError, type LockService, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

const DELAY_MS = 60_000;

let servers: ReplicaSet;
let admin: Redis;
let running: RedisLocks;
let key: string;

beforeAll(async () => {
  servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
  admin = servers.adminOf(servers.servers[0]);
});
beforeEach(() => {
  running = new RedisLocks();
  key = running.keyOf('goods', '300');
});
afterEach(async () => {
  servers.servers[1].resume();
  await running.close();
});
afterAll(() => servers.close());

const instance = (options: RedisLockModuleOptions = {}): LockService =>
  running.start({ redis: servers.servers[0].url, lockDelayMs: DELAY_MS, fairness: 'strict', ...options });

const queueOf = (length: number): Promise<void> =>
  eventually(`${length} are in the queue`, async () => (await admin.zcard(`${key}|queue`)) === length);

describe('lockDelayMs on Redis', () => {
  it('is added to the lease, and a release hands the lock off at once', async () => {
    const [one, other] = [instance(), instance()];
    const lock = await one.acquire('goods:300');
    expect(await admin.pttl(key)).toBeGreaterThan(lock.expiresInMs + DELAY_MS);
    const waiting = other.acquire('goods:300');
    await queueOf(1);
    expect(await lock.release()).toBe(true);
    const next = await waiting;
    const left = await admin.pttl(key);
    expect(left).toBeGreaterThan(next.expiresInMs + DELAY_MS);
    await next.extend();
    const longer = await admin.pttl(key);
    expect(longer).toBeGreaterThan(next.expiresInMs + DELAY_MS);
    await next.release();
    expect(await admin.exists(key)).toBe(0);
  });

  it('closes the lock of a waiter that died before its handoff', async () => {
    const way = await RedisProxy.start(servers.servers[0].url);
    const [one, dying] = [instance(), instance({ redis: way.url })];
    const lock = await one.acquire('goods:300');
    const lost = dying.acquire('goods:300');
    lost.catch(() => undefined);
    await queueOf(1);
    // Its subscription still counts.
    way.drop('replies');
    way.drop('requests');
    expect(await lock.release()).toBe(true);
    expect(await admin.pttl(key)).toBeGreaterThan(DELAY_MS / 2);
    expect(await one.tryAcquire('goods:300')).toBeNull();
    await admin.del(key);
    await way.close();
  });

  it('does not close a lock that too few replicas acknowledged', async () => {
    const locks = instance({ replicas: { min: 1, timeoutMs: 500 } });
    await locks.using('goods:300', () => undefined);
    servers.servers[1].pause();
    await expect(locks.tryAcquire('goods:300')).rejects.toBeInstanceOf(LockReplicationError);
    await eventually('it is free', async () => (await admin.exists(key)) === 0);
  });

  it('closes an unreleased lock at shutdown', async () => {
    const lock = await instance({ ttlMs: 600_000 }).acquire('goods:300');
    await running.close();
    expect(lock.signal.aborted).toBe(true);
    const left = await admin.pttl(key);
    expect(left).toBeGreaterThan(DELAY_MS / 2);
    expect(left).toBeLessThanOrEqual(DELAY_MS);
    await admin.del(key);
  });
});
