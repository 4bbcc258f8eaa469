import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockLostError, type LockService } from 'nestjs-redis-lock';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { createClient } from 'redis';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { RedisProxy } from '../../support/proxy.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, type InstanceOptions, RedisLocks, renewed } from '../../support/redis-locks.js';
import { silent } from '../../support/silent-logger.js';
import { outcome } from '../../support/async.js';

let servers: ReplicaSet;
let master: RedisServer;
let replica: RedisServer;
let admin: Redis;
let running: RedisLocks;
let proxies: RedisProxy[];
let key: string;

beforeAll(async () => {
  servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
  [master, replica] = servers.servers;
  admin = servers.adminOf(master);
});
beforeEach(() => {
  running = new RedisLocks();
  proxies = [];
  key = running.keyOf('goods', '300');
});
afterEach(async () => {
  replica.resume();
  await running.close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
});
afterAll(() => servers.close());

const REPLICAS = { min: 1, timeoutMs: 500 };

const instance = (options: InstanceOptions = {}): LockService =>
  running.start({ redis: master.url, replicas: REPLICAS, ...options });

const onReplica = (): Promise<string | null> => servers.adminOf(replica).get(key);

async function way(): Promise<RedisProxy> {
  const proxy = await RedisProxy.start(master.url);
  proxies.push(proxy);
  return proxy;
}

const queueOf = (length: number): Promise<void> =>
  eventually(`${length} are in the queue`, async () => (await admin.zcard(`${key}|queue`)) === length);

const nothingLeft = (): Promise<void> =>
  eventually('nothing is left locked', async () => (await admin.exists(key, `${key}|queue`)) === 0);

describe('replicas: { min: 1 }', () => {
  it('hands a lock off only once the replica has acknowledged the handoff', async () => {
    const [one, other] = [instance(), instance()];
    const lock = await one.acquire('goods:300');
    const granted = other.acquire('goods:300');
    const settled = outcome(granted);
    await queueOf(1);
    replica.pause();
    expect(await lock.release()).toBe(true);
    // The waiter asks again, and each time the grant is not acknowledged.
    const asked = async (): Promise<number> =>
      Number(/cmdstat_wait:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0);
    const before = await asked();
    await eventually('it was tried again', async () => (await asked()) >= before + 3);
    expect(settled).toEqual({});
    replica.resume();
    const next = await granted;
    expect((await onReplica())?.endsWith(` ${next.fencingToken}`)).toBe(true);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
    await nothingLeft();
  });
});

describe('replicas and a faulty network', () => {
  /** Two proxies: one for requests, one for WAIT. */
  async function apart() {
    const [asking, acknowledging] = [await way(), await way()];
    const client: Redis = new Redis(asking.url, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
    client.on('error', () => undefined);
    client.duplicate = (override) => {
      const url = override?.connectionName === 'nestjs-redis-lock:replicas' ? acknowledging.url : asking.url;
      const own = { ...override, retryStrategy: () => 20 };
      return new Redis(url, own);
    };
    const locks = instance({ redis: client, requestTimeoutMs: 1_500 });
    await locks.using('goods:300', () => undefined);
    return { locks, acknowledging, client };
  }

  it('a lease that ends before the acknowledgement grants nothing', async () => {
    const { locks, acknowledging, client } = await apart();
    acknowledging.delay('requests', 150);
    await expect(locks.tryAcquire('goods:300', { ttlMs: 100 })).rejects.toMatchObject({
      code: 'LOCK_REPLICATION',
      message: expect.stringContaining('The lock was gone before replicas knew of it'),
    });
    const waiting = locks.acquire('goods:300', { ttlMs: 100 });
    acknowledging.delay('requests', 0);
    await (await waiting).release();
    await nothingLeft();
    client.disconnect();
  });

  it('a late acknowledgement grants nothing if another owner has the lock', async () => {
    const { locks, acknowledging, client } = await apart();
    acknowledging.hold('replies');
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    const other = await instance().acquire('goods:300');
    acknowledging.resume('replies');
    await expect(locks.tryAcquire('goods:300')).resolves.toBeNull();
    other.assertHeld();
    expect(await admin.get(key)).toContain(String(other.fencingToken));
    expect(await other.release()).toBe(true);
    client.disconnect();
  });

  /** Leads the WAIT connection there and cuts it. */
  async function lead(acknowledging: RedisProxy, { url }: RedisServer): Promise<void> {
    acknowledging.retarget(url);
    acknowledging.reset();
    const looking = new Redis(url);
    await eventually('it leads there', async () =>
      String(await looking.client('LIST')).includes('name=nestjs-redis-lock:replicas'),
    );
    looking.disconnect();
  }

  it('a WAIT connection that leads to another server confirms no grant, loses no lock, and is replaced', async () => {
    const { locks, acknowledging, client } = await apart();
    const elsewhere = await startRedis({ local: true });
    try {
      const lock = await locks.acquire('goods:301', { ttlMs: 60_000 });
      await lead(acknowledging, elsewhere);
      await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
      lock.assertHeld();
      await eventually('no lock is given', () =>
        locks.tryAcquire('goods:300').then(
          () => false,
          (error: Error) => error.message.includes('gone before replicas knew'),
        ),
      );
      await nothingLeft();
      acknowledging.retarget(master.url);
      await renewed(lock);
      expect(await lock.release()).toBe(true);
      await (await locks.acquire('goods:300')).release();
    } finally {
      client.disconnect();
      await elsewhere.stop();
    }
  });

  /** An instance whose confirmations fail at once while their connection is cut. */
  async function byNodeRedis() {
    const client = createClient({ url: master.url }).on('error', () => undefined);
    const clock = new ManualClock();
    const options = { redis: fromNodeRedis(client), replicas: REPLICAS, prefix: running.prefix };
    const runtime = LockRuntime.start(options, 'default', { clock, logger: silent });
    await client.connect();
    const close = async (): Promise<void> => {
      await runtime.close();
      client.destroy();
    };
    return { locks: runtime.service, clock, close };
  }

  it('reconnects with node-redis although renewals are requested all the time, which fail at once', async () => {
    const { locks, clock, close } = await byNodeRedis();
    const lock = await locks.acquire('goods:300');
    let id: string | undefined;
    await eventually('the server knows the name of the connection', async () => {
      const list = String(await admin.client('LIST'));
      id = /^id=(\d+) .* name=nestjs-redis-lock:replicas/m.exec(list)?.[1];
      return id !== undefined;
    });
    // So long after it became ready, a connection that does not lead to the lock is cut.
    await clock.advance(2_000);
    await admin.client('KILL', 'ID', id ?? '');
    await renewed(lock);
    lock.assertHeld();
    await lock.release();
    await close();
  });

  it('a lost lock does not cut the WAIT connection', async () => {
    const { locks, clock, close } = await byNodeRedis();
    const [lost, other] = [await locks.acquire('goods:300'), await locks.acquire('goods:301')];
    // So long after it became ready, a connection that does not lead to the lock is cut.
    await clock.advance(2_000);
    await admin.del(key);
    await expect(lost.extend()).rejects.toBeInstanceOf(LockLostError);
    await other.extend();
    expect(await other.release()).toBe(true);
    await close();
  });

  it('a renewal on another server only does not count', async () => {
    const { locks, acknowledging, client } = await apart();
    const elsewhere = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
    try {
      const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
      const [old] = elsewhere.servers;
      await elsewhere.adminOf(old).set(key, String(await admin.get(key)), 'PX', 60_000);
      await lead(acknowledging, old);
      await admin.del(key);
      await expect(lock.extend()).rejects.toBeInstanceOf(LockLostError);
    } finally {
      client.disconnect();
      await elsewhere.close();
    }
  });

  it('a confirmation after close() is dropped', async () => {
    const { locks, acknowledging, client } = await apart();
    const other = instance();
    const lock = await other.acquire('goods:300');
    const waiting = locks.acquire('goods:300');
    waiting.catch(() => undefined);
    await queueOf(1);
    acknowledging.drop('replies');
    await lock.release();
    await eventually('it is handed off', async () => (await admin.get(key)) !== null);
    await running.close();
    await expect(waiting).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
    // The release of the shutdown may arrive after its end.
    await nothingLeft();
    client.disconnect();
  });
});

describe('a detached lock', () => {
  it('is detached once a replica knows of it, and resumed likewise', async () => {
    const [one, other] = [instance(), instance()];
    const ticket = await (await one.acquire('goods:300')).detach();
    expect(await onReplica()).toMatch(/^v2-detached:/);
    await (await other.resume('goods:300', ticket)).release();
    const lock = await one.acquire('goods:300');
    replica.pause();
    const detached = lock.detach();
    const settled = outcome(detached);
    await eventually('the master has it', async () => (await admin.get(key))?.startsWith('v2-detached:') === true);
    await expect(other.extend('goods:300', `t1-${'A'.repeat(30)}`)).rejects.toBeInstanceOf(LockLostError);
    expect(settled).toEqual({});
    replica.resume();
    await other.release('goods:300', await detached);
    await nothingLeft();
  });
});
