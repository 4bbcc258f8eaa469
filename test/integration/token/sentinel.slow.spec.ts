import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, type LockService, LockReplicationError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import type { RedisServer } from '../../support/redis/index.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks, renewed } from '../../support/redis-locks.js';

let servers: ReplicaSet;
let running: RedisLocks;
let key: string;

beforeEach(async () => {
  servers = await ReplicaSet.start({ replicas: 2, sentinels: 3 });
  running = new RedisLocks();
  key = running.keyOf('goods', '300');
});
afterEach(async () => {
  await running.close();
  await servers.close();
});

const instance = (options: RedisLockModuleOptions = {}): LockService =>
  running.start({ redis: servers.address, waitMs: 60_000, ...options });

const queued = (at: RedisServer, count: number): Promise<void> =>
  eventually(`${count} wait in the queue`, async () => (await servers.adminOf(at).zcard(`${key}|queue`)) === count);

const isFree = (at: RedisServer): Promise<void> =>
  eventually('nothing is left locked', async () => (await servers.adminOf(at).exists(key, `${key}|queue`)) === 0);

/** Requests a lock until enough replicas acknowledge the grant in time. */
async function acknowledged(locks: LockService, resource: string): Promise<Lock> {
  let lock: Lock | undefined;
  await eventually(`${resource} is granted`, async () => {
    lock = await locks.acquire(resource).catch((error: unknown) => {
      if (error instanceof LockReplicationError) return undefined;
      throw error;
    });
    return lock !== undefined;
  });
  return lock as Lock;
}

/** Returns a holder of goods:300 and a waiter in its queue. */
async function holderAndWaiter() {
  const [one, other] = [instance({ ttlMs: 60_000 }), instance({ ttlMs: 60_000 })];
  const lock = await one.acquire('goods:300');
  const granted = other.acquire('goods:300');
  granted.catch(() => undefined);
  await queued(servers.servers[0], 1);
  await servers.replicated(key);
  return { one, lock, granted };
}

/** Expects that the new master renews the lock and hands it off. */
async function servedBy(master: RedisServer, lock: Lock, granted: Promise<Lock>): Promise<void> {
  await renewed(lock);
  expect(await lock.release()).toBe(true);
  const next = await granted;
  expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  expect(await next.release()).toBe(true);
  await isFree(master);
}

describe('with Sentinel', () => {
  it('keeps hold and queue over a failover, and the new master hands off', async () => {
    const { lock, granted } = await holderAndWaiter();
    const master = await servers.failOver();
    await queued(master, 1);
    const heard = async (): Promise<boolean> =>
      ((await servers.adminOf(master).pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[]).length === 1;
    await eventually('the waiter is subscribed there', heard);
    await servedBy(master, lock, granted);
  });

  it('grants no unreplicated lock if replicas are required', async () => {
    const replicas = { min: 1, timeoutMs: 500 };
    const locks = instance({ replicas, ttlMs: 60_000 });
    const held = await acknowledged(locks, 'goods:300');
    const refused: unknown[] = [];
    const master = await servers.failOverWithout(async () => {
      refused.push(await locks.tryAcquire('goods:301').catch((error: unknown) => error));
    });
    expect(refused).toEqual([expect.objectContaining({ code: 'LOCK_REPLICATION' })]);
    // By then both connections lead to the new master, whose replica has to acknowledge.
    await renewed(held);
    expect(await servers.adminOf(master).get(key)).toContain(String(held.fencingToken));
    const next = acknowledged(instance({ replicas }), 'goods:300');
    next.catch(() => undefined);
    expect(await held.release()).toBe(true);
    await (await next).release();
    await (await acknowledged(locks, 'goods:301')).release();
    await isFree(master);
  });

  it('leaves a master that hangs and is replaced', async () => {
    const [before] = servers.servers;
    const { lock, granted, one } = await holderAndWaiter();
    before.pause();
    const master = await servers.newMaster(before);
    // It still hangs: its connections have not ended by themselves.
    await servedBy(master, lock, granted);
    before.resume();
    await one.using('goods:300', () => undefined);
    expect(running.warnings.filter((line) => line.includes('was lost'))).toEqual([]);
  });

  it('leaves an old master that returns empty before its demotion', async () => {
    const [before] = servers.servers;
    const { lock, granted } = await holderAndWaiter();
    const master = await servers.failOver();
    await before.restart();
    // Sentinel waits for eight seconds and its next check before it acts on that.
    await eventually('it is a replica', async () =>
      (await servers.adminOf(before).info('replication')).includes('role:slave'),
    );
    await servedBy(master, lock, granted);
  });
});
