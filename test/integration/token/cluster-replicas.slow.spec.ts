import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, LockReplicationError, type LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { eventually, renewed } from '../../support/redis-locks.js';

const REPLICAS = { min: 1, timeoutMs: 500 };
const FAMILIES = ['goods', 'orders', 'stock', 'seats', 'rooms', 'trips'];

let here: ClusterContention;
let master: ClusterMember;
let replica: ClusterMember;

beforeAll(async () => {
  here = await ClusterContention.start();
});
beforeEach(async () => {
  master = await here.cluster.ownerOf(here.key);
  replica = here.cluster.replicaOf(master);
});
afterEach(async () => {
  for (const { server } of here.cluster.replicas) server.resume();
  await here.clear();
});
afterAll(() => here.close());

const instance = (options = {}): LockService => here.instance({ replicas: REPLICAS, ...options });

/** Returns the value on the replica of the lock's master. */
async function onReplica({ key }: Pick<Lock, 'key'>): Promise<string | null> {
  const owner = await here.cluster.ownerOf(key);
  const follower = here.cluster.replicaOf(owner);
  await here.cluster.untilKnown(key, owner, follower);
  await follower.admin.readonly();
  return follower.admin.get(key);
}

const nothingLeft = (): Promise<void> =>
  eventually('nothing is left locked', async () => (await master.admin.exists(here.key)) === 0);

/** Returns the number of connections that send WAIT. */
async function links(): Promise<number> {
  const lists = await Promise.all(here.cluster.members.map(({ admin }) => admin.client('LIST')));
  return lists.join().split('name=nestjs-redis-lock:replicas').length - 1;
}

async function elsewhere(): Promise<string> {
  for (const family of FAMILIES) {
    if ((await here.cluster.ownerOf(here.key.replace('goods', family))) !== master) return `${family}:300`;
  }
  throw new Error('all families are on one node');
}

describe('replicas in a cluster', () => {
  it('waits for the replica of the owning node before each grant and handoff', async () => {
    // A client given by the caller outlives the module.
    const [locks, other] = [instance(), instance({ redis: here.client() })];
    expect(await links()).toBe(0);
    const lock = await locks.acquire('goods:300');
    expect(await links()).toBe(1);
    expect((await onReplica(lock))?.endsWith(` ${lock.fencingToken}`)).toBe(true);
    const { granted } = await here.enqueue(other);
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect((await onReplica(next))?.endsWith(` ${next.fencingToken}`)).toBe(true);
    expect(await next.release()).toBe(true);
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:300`)));
    for (const one of held) expect((await onReplica(one))?.endsWith(` ${one.fencingToken}`)).toBe(true);
    await Promise.all(held.map(renewed));
    await Promise.all(held.map((one) => one.release()));
    await here.end();
    await eventually('all are closed', async () => (await links()) === 0);
  });

  it('refuses the lock if the replica of its node does not acknowledge', async () => {
    const locks = instance();
    await locks.using('goods:300', () => undefined);
    replica.server.pause();
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({
      code: 'LOCK_REPLICATION',
      message: expect.stringContaining('0 of 1 (replicas.min) within 500 ms'),
    });
    await nothingLeft();
    await locks.using(await elsewhere(), () => undefined);
    replica.server.resume();
    await locks.using('goods:300', () => undefined);
  });

  it('grants a multi-lock only if the replicas of all its nodes acknowledge', async () => {
    const locks = instance();
    const several = FAMILIES.flatMap((family) => [`${family}:300`, `${family}:301`]);
    await locks.using(several, async (all) => {
      for (const one of all.locks) expect((await onReplica(one))?.endsWith(` ${one.fencingToken}`)).toBe(true);
    });
    replica.server.pause();
    await expect(locks.tryAcquire(several)).rejects.toBeInstanceOf(LockReplicationError);
    await eventually('nothing is left', async () => (await here.leftovers()).length === 0);
  });

  it('does not count a renewal that the replica does not acknowledge', async () => {
    const lock = await instance().acquire('goods:300');
    replica.server.pause();
    const { expiresInMs } = lock;
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(lock.expiresInMs).toBeLessThanOrEqual(expiresInMs);
  });

  it('waits for the replica of the new node once a slot has moved', async () => {
    const locks = instance();
    const lock = await locks.acquire('goods:300');
    const to = await here.cluster.otherThan(here.key);
    const { from, moveKeys, finish } = await here.cluster.migration(here.key, to);
    await moveKeys();
    // The node that has the key does not have the slot yet.
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    lock.assertHeld();
    await finish();
    await renewed(lock);
    expect((await onReplica(lock))?.endsWith(` ${lock.fencingToken}`)).toBe(true);
    expect(await lock.release()).toBe(true);
    await here.cluster.migrate(here.key, from);
    await locks.using('goods:300', () => undefined);
  });

  it('works with the keyPrefix of the client', async () => {
    for (const options of [{ keyPrefix: 'app:' }, { redisOptions: { keyPrefix: 'app:' } }]) {
      const locks = instance({ redis: here.client(options) });
      const lock = await locks.acquire('goods:300');
      expect(await onReplica({ key: `app:${lock.key}` })).toContain(` ${lock.fencingToken}`);
      await renewed(lock);
      await lock.release();
    }
  });
});
