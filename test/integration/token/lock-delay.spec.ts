import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockLostError, LockReplicationError, type LockService, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

const TTL_MS = 400;
const DELAY_MS = 1_500;

let servers: ReplicaSet;
let admin: Redis;
let running: RedisLocks;
let way: RedisProxy;
let key: string;

beforeAll(async () => {
  servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
  admin = servers.adminOf(servers.servers[0]);
});
beforeEach(async () => {
  running = new RedisLocks();
  way = await RedisProxy.start(servers.servers[0].url);
  key = running.keyOf('goods', '300');
});
afterEach(async () => {
  servers.servers[1].resume();
  await way.close();
  await running.close();
});
afterAll(() => servers.close());

const instance = (options: RedisLockModuleOptions = {}): LockService =>
  running.start({
    redis: servers.servers[0].url,
    waitMs: 30_000,
    ttlMs: TTL_MS,
    lockDelayMs: DELAY_MS,
    fairness: 'strict',
    ...options,
  });

/** Drops everything that the instance sends, as if its process had died. */
async function cutOff(): Promise<void> {
  await way.refuseConnections();
  way.reset();
}

const queueOf = (length: number): Promise<void> =>
  eventually(`${length} are in the queue`, async () => (await admin.zcard(`${key}|queue`)) === length);

describe('lockDelayMs on Redis', () => {
  it('keeps the lock of a dead holder closed, then hands it to the waiter', async () => {
    const [dying, other] = [instance({ redis: way.url }), instance()];
    const lock = await dying.acquire('goods:300');
    const waiting = other.acquire('goods:300').then((next) => ({ next, at: performance.now() }));
    await queueOf(1);
    await cutOff();
    await eventually('it is lost', () => lock.signal.aborted);
    const lostAt = performance.now();
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await other.inspect('goods:300')).toMatchObject({ isOwn: false, fencingToken: lock.fencingToken });
    const { next, at } = await waiting;
    expect(at - lostAt).toBeGreaterThan(DELAY_MS - 100);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
    expect(await admin.exists(key)).toBe(0);
  });

  it('a release hands the lock off at once, and the next holder adds the delay', async () => {
    const [one, other] = [instance({ ttlMs: 5_000 }), instance({ ttlMs: 5_000 })];
    const lock = await one.acquire('goods:300');
    expect(await admin.pttl(key)).toBeGreaterThan(5_000);
    const waiting = other.acquire('goods:300');
    await queueOf(1);
    expect(await lock.release()).toBe(true);
    const next = await waiting;
    expect(next.expiresInMs).toBeLessThan(3_000);
    expect(await admin.pttl(key)).toBeGreaterThan(next.expiresInMs + DELAY_MS);
    await eventually('it has its whole lease', () => next.expiresInMs > 3_000);
    expect(await admin.pttl(key)).toBeGreaterThan(next.expiresInMs + DELAY_MS);
    await next.release();
    expect(await admin.exists(key)).toBe(0);
  });

  it('a waiter that died before its handoff closes the lock for lease and delay', async () => {
    const [one, dying] = [instance(), instance({ redis: way.url })];
    const lock = await one.acquire('goods:300');
    const lost = dying.acquire('goods:300');
    lost.catch(() => undefined);
    await queueOf(1);
    // Its subscription still counts.
    way.drop('replies');
    way.drop('requests');
    expect(await lock.release()).toBe(true);
    const left = await admin.pttl(key);
    expect(left).toBeGreaterThan(DELAY_MS);
    const from = performance.now();
    const next = await one.acquire('goods:300');
    expect(performance.now() - from).toBeGreaterThan(left - 100);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });

  it('a lock that too few replicas acknowledged is free at once', async () => {
    const locks = instance({ replicas: { min: 1, timeoutMs: 50 }, lockDelayMs: 60_000 });
    await locks.using('goods:300', () => undefined);
    servers.servers[1].pause();
    await expect(locks.tryAcquire('goods:300')).rejects.toBeInstanceOf(LockReplicationError);
    await eventually('it is free', async () => (await admin.exists(key)) === 0);
  });

  it('a lock with unreplicated renewals is lost at its lease, then stays closed', async () => {
    const locks = instance({ replicas: { min: 1, timeoutMs: 50 } });
    const lock = await locks.acquire('goods:300');
    servers.servers[1].pause();
    await eventually('it is lost', () => lock.signal.aborted);
    const lostAt = performance.now();
    servers.servers[1].resume();
    const next = await locks.acquire('goods:300');
    expect(performance.now() - lostAt).toBeGreaterThan(DELAY_MS - 100);
    expect(await servers.adminOf(servers.servers[1]).get(key)).toContain(` ${next.fencingToken}`);
    await next.release();
  });

  it('at shutdown, an unreleased lock stays closed for the delay', async () => {
    const lock = await instance({ ttlMs: 60_000 }).acquire('goods:300');
    await running.close();
    expect(lock.signal.aborted).toBe(true);
    const left = await admin.pttl(key);
    expect(left).toBeGreaterThan(DELAY_MS - 500);
    expect(left).toBeLessThanOrEqual(DELAY_MS);
  });
});
