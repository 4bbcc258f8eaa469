import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

/** The next renewal is due 200 s after the grant, when a test that waits for it has failed. */
const TTL_MS = 600_000;

describe('a holder', () => {
  it('knows soon that its lock is lost if a node cuts the connection and loses it', async () => {
    const here = await new ClusterContention({ replicas: false }).start();
    try {
      const { signal } = await here.instance().acquire('goods:300', { ttlMs: TTL_MS });
      const { admin } = await here.cluster.ownerOf(here.key);
      await admin.multi().del(here.key).call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes').exec();
      await eventually('the holder knows', () => signal.aborted);
      expect(signal.reason).toBeInstanceOf(LockLostError);
    } finally {
      await here.close();
    }
  });

  it('knows soon that its lock is lost if a failover of the cluster has lost it', async () => {
    const here = await new ClusterContention().start();
    try {
      const locks = here.instance();
      const master = await here.cluster.ownerOf(here.key);
      const replica = here.cluster.replicaOf(master);
      const { signal } = await locks.acquire('goods:300', { ttlMs: TTL_MS });
      await eventually('the replica has it', async () => (await replica.admin.dbsize()) > 0);
      await replica.admin.cluster('FAILOVER');
      // Until then the nodes do not agree.
      const ownerByMost = () => here.cluster.ownerOf(here.key).catch(() => undefined);
      await eventually('the replica is the master', async () => (await ownerByMost()) === replica);
      await replica.admin.del(here.key);
      // A request for another key of the slot finds the new master.
      await locks.using('goods:301', () => undefined);
      await eventually('the holder knows', () => signal.aborted);
    } finally {
      await here.close();
    }
  });

  it('knows soon that its lock is lost if a failover by Sentinel has lost it', async () => {
    const servers = await ReplicaSet.start({ replicas: 2, sentinels: 3 });
    const running = new RedisLocks();
    try {
      const locks = running.start({ redis: servers.address });
      await locks.using('goods:301', () => undefined);
      let signal: AbortSignal | undefined;
      await servers.failOverWithout(async () => {
        ({ signal } = await locks.acquire('goods:300', { ttlMs: TTL_MS }));
      });
      await eventually('the holder knows', () => signal?.aborted === true);
      expect(signal?.reason).toBeInstanceOf(LockLostError);
    } finally {
      await running.close();
      await servers.close();
    }
  });
});
