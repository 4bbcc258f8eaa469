import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  type Lock,
  type LockService,
  LockLostError,
  LockReplicationError,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import type { RedisServer } from '../../support/redis/index.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

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

/** Works as `eventually`, and reports the state if the condition does not hold in time. */
async function seen(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  try {
    await eventually(what, holds);
  } catch (late) {
    throw new Error(`${String(late)}\n${await servers.picture()}`, { cause: late });
  }
}

const queued = (at: RedisServer, count: number): Promise<void> =>
  seen(`${count} wait in the queue`, async () => (await servers.adminOf(at).zcard(`${key}|queue`)) === count);

const isFree = (at: RedisServer): Promise<void> =>
  seen('nothing is left locked', async () => (await servers.adminOf(at).exists(key, `${key}|queue`)) === 0);

/** Waits until the present master has renewed the lock. */
async function renewed(lock: Lock): Promise<void> {
  let refusal: unknown;
  const answered = () =>
    lock.extend().then(
      () => true,
      (error: unknown) => {
        refusal = error;
        return false;
      },
    );
  try {
    await seen('the lock is renewed', answered);
  } catch (late) {
    throw new Error(`${String(late)}\n${String(refusal)}`, { cause: late });
  }
}

/** Requests a lock until enough replicas acknowledge the grant in time. */
async function acknowledged(locks: LockService, resource: string): Promise<Lock> {
  let lock: Lock | undefined;
  await seen(`${resource} is granted`, async () => {
    lock = await locks.acquire(resource).catch((error: unknown) => {
      if (error instanceof LockReplicationError) return undefined;
      throw error;
    });
    return lock !== undefined;
  });
  return lock as Lock;
}

/** Returns a holder of goods:300 and a waiter in its queue. */
async function holderAndWaiter(options?: RedisLockModuleOptions) {
  const [one, other] = [instance(options), instance(options)];
  const lock = await one.acquire('goods:300');
  const granted = other.acquire('goods:300');
  granted.catch(() => undefined);
  await queued(servers.servers[0], 1);
  await servers.replicated(key);
  return { one, other, lock, granted };
}

describe('with Sentinel', () => {
  it('keeps hold and queue over a failover, and the new master hands off', async () => {
    const { lock, granted } = await holderAndWaiter({ ttlMs: 60_000 });
    const master = await servers.failOver();
    await renewed(lock);
    await queued(master, 1);
    const heard = async (): Promise<boolean> =>
      ((await servers.adminOf(master).pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[]).length === 1;
    await seen('the waiter is subscribed there', heard);
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
    await isFree(master);
  });

  it('reports a lock lost with its master, and tokens still rise', async () => {
    const locks = instance({ ttlMs: 60_000 });
    const before = await locks.using('goods:300', (lock) => lock.fencingToken);
    const lost: Lock[] = [];
    const master = await servers.failOverWithout(async () => lost.push(await locks.acquire('goods:300')));
    const [lock] = lost;
    expect(await servers.adminOf(master).exists(key)).toBe(0);
    const next = await instance().acquire('goods:300');
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(lock.fencingToken).toBeGreaterThan(before);
    await seen('its signal aborts', () => lock.signal.aborted);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    next.assertHeld();
    expect(await next.release()).toBe(true);
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
    const { lock, granted, one } = await holderAndWaiter({ ttlMs: 60_000 });
    before.pause();
    const master = await servers.newMaster(before);
    // It still hangs: its connections have not ended by themselves.
    await renewed(lock);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
    await isFree(master);
    before.resume();
    await one.using('goods:300', () => undefined);
    expect(running.warnings.filter((line) => line.includes('was lost'))).toEqual([]);
  });

  it('leaves an old master that returns empty before its demotion', async () => {
    const [before] = servers.servers;
    const { lock, granted } = await holderAndWaiter({ ttlMs: 60_000 });
    const master = await servers.failOver();
    await before.restart();
    // Sentinel waits for eight seconds and its next check before it acts on that.
    await seen('it is a replica', async () =>
      (await servers.adminOf(before).info('replication')).includes('role:slave'),
    );
    await renewed(lock);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
    await isFree(master);
  });

  it('works with a client given by the caller, without a failover detector', async () => {
    const clients = [1, 2].map(() => new Redis({ ...servers.address, maxRetriesPerRequest: null }));
    try {
      const [one, other] = clients.map((redis) => instance({ redis, ttlMs: 30_000 }));
      const lock = await one.acquire('goods:300');
      const granted = other.acquire('goods:300');
      await queued(servers.servers[0], 1);
      await servers.replicated(key);
      const [before] = servers.servers;
      before.pause();
      await servers.newMaster(before);
      // Sentinel disconnects the clients of the old master if it demotes it.
      before.resume();
      await renewed(lock);
      expect(await lock.release()).toBe(true);
      await (await granted).release();
      await running.close();
      expect(clients.map(({ status }) => status)).toEqual(['ready', 'ready']);
    } finally {
      for (const client of clients) client.disconnect();
    }
  });

  it('lets no instance wait forever after two failovers in a row', async () => {
    const granted = [0, 0, 0, 0, 0, 0];
    const ending = new AbortController();
    const work = async (locks: LockService, who: number): Promise<void> => {
      while (!ending.signal.aborted) {
        await locks.using('goods:300', async () => {
          granted[who] += 1;
          await new Promise((resolve) => setTimeout(resolve, 5));
        });
      }
    };
    // A lock that was released on the old master alone stays closed on the new one for the rest of its lease.
    const working = granted.map((_, who) => work(instance({ ttlMs: 30_000 }), who));
    const eachIsGranted = (): Promise<void> => {
      const before = [...granted];
      return seen('each instance is granted the lock', () => granted.every((times, who) => times > before[who]));
    };
    await eachIsGranted();
    const [first] = servers.servers;
    await servers.failOver();
    await servers.rejoin(first);
    await eachIsGranted();
    // Clients write to the old master until it is demoted. The new one is promoted before, with the queue of that time.
    await servers.switchOver();
    await eachIsGranted();
    ending.abort();
    await Promise.all(working);
    expect(Math.min(...granted)).toBeGreaterThanOrEqual(3);
  });

  it('keeps exclusion over a failover for replicated locks', async () => {
    const options = { ttlMs: 60_000, replicas: { min: 1, timeoutMs: 500 } };
    const both = [instance(options), instance(options)];
    const tokens: number[] = [];
    let inside = 0;
    let most = 0;
    const ending = new AbortController();
    const work = async (locks: LockService): Promise<void> => {
      while (!ending.signal.aborted) {
        const call = locks.using('goods:300', async (lock) => {
          inside += 1;
          most = Math.max(most, inside);
          await new Promise((resolve) => setTimeout(resolve, 5));
          tokens.push(lock.fencingToken);
          inside -= 1;
        });
        // Until the new master has a replica, it grants nothing.
        await call.catch((error: unknown) => {
          if (!(error instanceof LockReplicationError)) throw error;
        });
      }
    };
    const working = both.flatMap((locks) => [work(locks), work(locks)]);
    await seen('they work', () => tokens.length > 50);
    const master = await servers.failOver();
    const done = tokens.length;
    await seen('they go on', () => tokens.length > done + 50);
    ending.abort();
    await Promise.all(working);
    await isFree(master);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    expect(most).toBe(1);
  });
});
