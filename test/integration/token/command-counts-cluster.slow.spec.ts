import { beforeEach, expect, it } from '@jest/globals';
import type { Lock, LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { costOf } from '../../support/command-counts.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new ClusterContention({ replicas: false }));
let locks: LockService;

beforeEach(async () => {
  locks = here.instance({ ttlMs: 3_600_000, requestTimeoutMs: 3_600_000, checks: 'off' });
  // Its client connects to the node, and the scripts are loaded.
  await releaseAll(await acquireAll());
});

const acquireAll = (): Promise<Lock[]> =>
  Promise.all(Array.from({ length: 100 }, (_, i) => locks.acquire(`goods:${i}`)));

const releaseAll = (held: readonly Lock[]): Promise<boolean[]> => Promise.all(held.map((lock) => lock.release()));

it('the locks of one tick cost few commands in a cluster if they are in one slot (scenario 2c)', async () => {
  const admins = here.cluster.masters.map((master) => master.admin);
  const cost = await costOf(async () => {
    for (let i = 0; i < 5; i += 1) await releaseAll(await acquireAll());
  }, admins);
  expect(cost).toEqual({ commands: 20, calls: 580 });
});

it('requests of one tick are redirected together if their slot has moved', async () => {
  const held = await acquireAll();
  const { admin } = await here.cluster.ownerOf(here.key);
  await here.cluster.migrate(here.key, await here.cluster.otherThan(here.key));
  await admin.config('RESETSTAT');
  expect(await releaseAll(held)).toEqual(held.map(() => true));
  const [, rejected = '0'] = /cmdstat_evalsha:.*rejected_calls=(\d+)/.exec(await admin.info('commandstats')) ?? [];
  // 100 releases are two script calls.
  expect(Number(rejected)).toBeLessThanOrEqual(2);
  await releaseAll(await acquireAll());
});
