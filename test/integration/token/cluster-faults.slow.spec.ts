import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, LockReplicationError, LockUnavailableError } from 'nestjs-redis-lock';
import { caughtUp } from '../../support/caught-up.js';
import { ClusterContention } from '../../support/cluster-contention.js';
import { type ClusterMember, clusterPort, RedisCluster } from '../../support/redis/index.js';
import { eventually, RedisLocks, renewed } from '../../support/redis-locks.js';

let here: ClusterContention;
let master: ClusterMember;
let replica: ClusterMember;

beforeEach(async () => {
  here = await new ClusterContention().start();
  master = await here.cluster.ownerOf(here.key);
  replica = here.cluster.replicaOf(master);
});
afterEach(() => here.close());

/** Waits until the replica is the master of the slot and all nodes know it. */
async function takenOver(): Promise<void> {
  await eventually(
    'the replica has taken over',
    async () => (await here.cluster.ownerOf(here.key).catch(() => undefined)) === replica,
  );
}

const WAYS: Record<string, () => Promise<void>> = {
  'that gives its place up': async () => {
    await replica.admin.cluster('FAILOVER');
  },
  'that is killed': async () => {
    await caughtUp(master.admin, 1, here.key);
    await master.server.kill();
    await here.cluster.takeOver(replica);
  },
  'that is stopped, with its connections': async () => {
    await caughtUp(master.admin, 1, here.key);
    master.server.pause();
    await here.cluster.takeOver(replica);
  },
};

describe.each(Object.keys(WAYS))('a cluster whose master %s', (way) => {
  afterEach(() => {
    if (master.server.pid !== undefined) master.server.resume();
  });

  it('keeps the hold, serves the waiter and raises tokens if a replica takes over', async () => {
    const [locks, ...others] = [1, 2, 3].map(() => here.instance());
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    const waiting: Promise<Lock>[] = [];
    for (const other of others) waiting.push((await here.enqueue(other)).granted);
    await WAYS[way]();
    await takenOver();
    await renewed(lock);
    lock.assertHeld();
    for (const other of others) await eventually('it is subscribed there', () => here.isSubscribed(other, replica));
    await here.queueOf(2);
    // A client without the new slot table may have sent its request to the stopped node.
    expect(await others[0].inspect('goods:300')).toMatchObject({ fencingToken: lock.fencingToken, isOwn: false });
    const tokens = [lock.fencingToken];
    expect(await lock.release()).toBe(true);
    // Either may be first: a new attempt loses the earlier place.
    const served = waiting.map(async (granted) => {
      const next = await granted;
      tokens.push(next.fencingToken);
      await next.release();
    });
    await Promise.all(served);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(new Set(tokens).size).toBe(3);
    const left = await replica.admin.keys(`*${here.prefix}*`);
    expect(left.filter((key) => !key.endsWith('|fence'))).toEqual([]);
  });
});

describe('a cluster that is down when the application starts', () => {
  it('makes locks unavailable, logs one line, and serves once it is up', async () => {
    const ports = await Promise.all([1, 2, 3].map(() => clusterPort()));
    const running = new RedisLocks();
    const locks = running.start({ redis: { nodes: ports }, requestTimeoutMs: 1_000 });
    const error = await locks.acquire('goods:300', { waitMs: 0 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
    await eventually('the warning is logged', () => running.warnings.length > 0);
    const waiting = locks.using('goods:300', () => 'done');
    await sleep(1_500);
    expect(running.warnings).toEqual([expect.stringContaining('Redis cannot be reached')]);
    const late = await RedisCluster.start({ replicas: false, ports });
    try {
      expect(await waiting).toBe('done');
    } finally {
      await running.close();
      await late.close();
    }
  });
});

describe('replicas', () => {
  it('grants only locks that a replica has acknowledged, and keeps those', async () => {
    const replicas = { min: 1, timeoutMs: 500 };
    const locks = here.instance({ replicas, ttlMs: 60_000, waitMs: 60_000 });
    const held = await locks.acquire('goods:300');
    replica.server.pause();
    // Otherwise the request would stay in its socket and run once the node continues.
    await master.admin.call('CLIENT', 'KILL', 'TYPE', 'replica');
    await expect(locks.tryAcquire('goods:301')).rejects.toBeInstanceOf(LockReplicationError);
    await master.server.kill();
    replica.server.resume();
    await here.cluster.takeOver(replica);
    await takenOver();
    expect(await replica.admin.get(held.key)).toContain(` ${held.fencingToken}`);
    // It has no replica.
    await expect(held.extend()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    held.assertHeld();
    // The node returns empty, as a replica of no master.
    await master.server.restart();
    await master.admin.call('CLUSTER', 'MEET', '127.0.0.1', replica.server.port);
    const id = await replica.admin.cluster('MYID');
    await eventually('it is the replica now', () =>
      master.admin.call('CLUSTER', 'REPLICATE', id).then(
        () => true,
        () => false,
      ),
    );
    await renewed(held);
    expect(await held.release()).toBe(true);
    await locks.using('goods:301', () => undefined);
    // The connection to the node that left was closed with it.
    expect(String(await master.admin.client('LIST'))).not.toContain('name=nestjs-redis-lock:replicas');
  });
});
