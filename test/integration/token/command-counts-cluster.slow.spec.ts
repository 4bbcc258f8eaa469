import { expect, it } from '@jest/globals';
import type { Lock, LockService } from 'nestjs-redis-lock';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { costOf } from '../../support/command-counts.js';
import { RedisCluster } from '../../support/redis/cluster.js';
import { uniquePrefix } from '../../support/shared-redis.js';
import { silent } from '../../support/silent-logger.js';

const RESOURCES = Array.from({ length: 100 }, (_, i) => `goods:${i}`);

/** Calls `use` with an instance in a cluster that is connected. */
async function inCluster(
  use: (locks: LockService, cluster: RedisCluster, prefix: string) => Promise<void>,
): Promise<void> {
  const cluster = await RedisCluster.start({ replicas: false });
  const prefix = uniquePrefix();
  const options = { redis: { nodes: [...cluster.nodes] }, prefix, ttlMs: 3_600_000, shutdownGraceMs: 0 };
  const runtime = LockRuntime.start({ ...options, checks: 'off' }, 'counted', {
    requestTimeoutMs: 3_600_000,
    logger: silent,
  });
  try {
    runtime.connect();
    // Its client connects to the node, and the scripts are loaded.
    await releaseAll(await acquireAll(runtime.service));
    await use(runtime.service, cluster, prefix);
  } finally {
    await runtime.close();
    await cluster.close();
  }
}

const acquireAll = (locks: LockService): Promise<Lock[]> =>
  Promise.all(RESOURCES.map((resource) => locks.acquire(resource)));

const releaseAll = (held: readonly Lock[]): Promise<boolean[]> => Promise.all(held.map((lock) => lock.release()));

it('the locks of one tick cost few commands in a cluster if they are in one slot (scenario 2c)', () =>
  inCluster(async (locks, cluster) => {
    const admins = cluster.masters.map((master) => master.admin);
    const cost = await costOf(async () => {
      for (let i = 0; i < 5; i += 1) await releaseAll(await acquireAll(locks));
    }, admins);
    expect(cost).toEqual({ commands: 20, calls: 580 });
  }));

it('requests of one tick are redirected together if their slot has moved', () =>
  inCluster(async (locks, cluster, prefix) => {
    const held = await acquireAll(locks);
    const key = `{${prefix}goods}:1`;
    const { admin } = await cluster.ownerOf(key);
    await cluster.migrate(key, await cluster.otherThan(key));
    await admin.config('RESETSTAT');
    expect(await releaseAll(held)).toEqual(held.map(() => true));
    const [, rejected = '0'] = /cmdstat_evalsha:.*rejected_calls=(\d+)/.exec(await admin.info('commandstats')) ?? [];
    // 100 releases are two script calls.
    expect(Number(rejected)).toBeLessThanOrEqual(2);
    await releaseAll(await acquireAll(locks));
  }));
