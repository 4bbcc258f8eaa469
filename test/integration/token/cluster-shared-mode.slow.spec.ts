import { asked } from '../../support/asked.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Lock, LockService } from 'nestjs-redis-lock';
import type { LockMode } from '../../../lib/contract/store.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { caughtUp } from '../../support/caught-up.js';
import { ClusterContention } from '../../support/cluster-contention.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { eventually, renewed } from '../../support/redis-locks.js';
import { clocksAhead } from '../../support/server-clock/wall-clock.js';
import { storeOf } from '../../support/inside.js';

/** The lease of a dead holder, which others wait for. */
const DEAD_MS = 6_000;

const READER = { mode: 'shared' } as const;
const PERMIT = { permits: 2 } as const;
const MODES = [
  ['readers', READER, 'shared'],
  ['permits', PERMIT, 2],
] as const;

let here: ClusterContention;

/** Acquires the lock from two instances, which hold it together. */
function together(options: typeof READER | typeof PERMIT): Promise<Lock[]> {
  return Promise.all([1, 2].map(() => here.instance().acquire('goods:300', { ...options, ttlMs: 60_000 })));
}

/** Starts a waiter. Resolves once that many are in the queue. */
async function waits(locks: LockService, options: object, places: number): Promise<{ granted: Promise<Lock> }> {
  const granted = locks.acquire('goods:300', options);
  granted.catch(() => undefined);
  await here.queueOf(places);
  return { granted };
}

/** Acquires the lock and never releases it. */
async function dies(mode: LockMode): Promise<void> {
  const locks = here.instance();
  const dead = { key: here.key, owner: 'dead:1', mode, leaseMs: DEAD_MS, handoffMs: 500, wait: false } as const;
  expect((await asked(storeOf<TokenStore>(locks)).acquire(dead)).status).toBe('granted');
}

/** Fencing tokens give the order of the grants. */
function expectBehind(next: Lock, before: readonly Lock[]): void {
  expect(next.fencingToken).toBeGreaterThan(Math.max(...before.map(({ fencingToken }) => fencingToken)));
}

async function released(locks: readonly Lock[]): Promise<void> {
  expect(await Promise.all(locks.map((lock) => lock.release()))).toEqual(locks.map(() => true));
}

describe.each(MODES)('%s, while the slot moves', (_, options, __) => {
  let back: ClusterMember;
  let to: ClusterMember;

  beforeAll(async () => {
    here = await ClusterContention.start({ replicas: false });
  });
  beforeEach(async () => {
    back = await here.cluster.ownerOf(here.key);
    to = await here.cluster.otherThan(here.key);
  });
  afterEach(async () => {
    if ((await here.cluster.ownerOf(here.key)) !== back) await here.cluster.migrate(here.key, back);
    await here.clear();
  });
  afterAll(() => here.close());

  it('keep the lock, are renewed at the new node, and still exclude others', async () => {
    const held = await together(options);
    await here.cluster.migrate(here.key, to);
    await Promise.all(held.map(renewed));
    const other = here.instance();
    expect(await other.tryAcquire('goods:300')).toBeNull();
    const third = await other.tryAcquire('goods:300', options);
    expect(third !== null).toBe(options === READER);
    await third?.release();
    expect(await other.inspect('goods:300')).toMatchObject({ others: [{}] });
    await released(held);
    const next = await other.acquire('goods:300');
    expectBehind(next, held);
    await next.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('keep the order of their waiters and hand the lock off at the new node', async () => {
    const held = await together(options);
    const waiters = [here.instance(), here.instance()];
    const writer = await waits(waiters[0], {}, 1);
    const behind = await waits(waiters[1], options, 2);
    await here.cluster.migrate(here.key, to);
    await eventually('both are subscribed there', () => here.areSubscribed(waiters, to));
    await here.queueOf(2);
    await released(held);
    const next = await writer.granted;
    expectBehind(next, held);
    expect(await here.instance().tryAcquire('goods:300', options)).toBeNull();
    await next.release();
    const last = await behind.granted;
    expectBehind(last, [next]);
    await last.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('are renewed, inspected and released by ASK while all keys of the lock exist', async () => {
    const held = await together(options);
    const { granted } = await waits(here.instance(), {}, 1);
    const { moveKeys, finish } = await here.cluster.migration(here.key, to);
    await moveKeys();
    await to.admin.script('FLUSH');
    await Promise.all(held.map(renewed));
    expect(await here.instance().inspect('goods:300')).toMatchObject({ others: [{}], waiting: [{}] });
    await released(held);
    await finish();
    const next = await granted;
    expectBehind(next, held);
    await next.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('are refused while their keys migrate, and granted once they have arrived', async () => {
    const locks = here.instance();
    await locks.using('goods:300', options, () => undefined);
    // The fence is here, the other keys are absent: both nodes reply TRYAGAIN or ASK.
    const { moveKeys, finish } = await here.cluster.migration(here.key, to);
    let settled = 0;
    const acquired = [1, 2].map(() =>
      locks.acquire('goods:300', { ...options, waitMs: 0 }).finally(() => (settled += 1)),
    );
    await sleep(200);
    expect(settled).toBe(0);
    await moveKeys();
    await finish();
    await released(await Promise.all(acquired));
    expect(here.warnings).toEqual([]);
    expect(await here.leftovers()).toEqual([]);
  });

  it('repeat a failed release if the move outlasts requestTimeoutMs', async () => {
    // Only their releases end them in time.
    const held = await together(options);
    const { moveKeys, finish } = await here.cluster.migration(here.key, to);
    await moveKeys();
    // Nobody waits, so the queue is absent: no node has all keys (TRYAGAIN).
    const answers = held.map((lock) => lock.release().catch((error: Error) => error.name));
    expect(await Promise.all(answers)).toEqual(['LockUnavailableError', 'LockUnavailableError']);
    await finish();
    await (await here.instance().acquire('goods:300')).release();
    expect(await here.leftovers()).toEqual([]);
  });
});

describe.each(MODES)('%s, when the master is replaced', (_, options, __) => {
  beforeEach(async () => {
    here = await ClusterContention.start();
  });
  afterEach(() => here.close());

  it('keep the lock at the new master and hand it off there', async () => {
    const from = await here.cluster.ownerOf(here.key);
    const held = await together(options);
    const waiter = here.instance();
    const { granted } = await waits(waiter, {}, 1);
    const replica = here.cluster.replicaOf(from);
    await caughtUp(from.admin, 1, here.key);
    await replica.admin.cluster('FAILOVER');
    await eventually(
      'the replica has taken over',
      async () => (await here.cluster.ownerOf(here.key).catch(() => undefined)) === replica,
    );
    for (const lock of held) {
      await renewed(lock);
      lock.assertHeld();
    }
    await eventually('the waiter is subscribed there', () => here.isSubscribed(waiter, replica));
    await here.queueOf(1);
    await held[0].release();
    expect(await here.instance().tryAcquire('goods:300')).toBeNull();
    await held[1].release();
    const next = await granted;
    expectBehind(next, held);
    await next.release();
    const left = await replica.admin.keys(`*${here.prefix}*`);
    expect(left.filter((key) => !key.endsWith('|fence'))).toEqual([]);
  });
});

describe.each(MODES)('%s, while the slot moves between nodes whose clocks differ by minutes', (_, options, mode) => {
  beforeAll(async () => {
    here = await ClusterContention.start({ environments: await clocksAhead(0, 300, -300), replicas: false });
  });
  afterEach(() => here.clear());
  afterAll(() => here.close());

  const DIRECTIONS = [
    ['ahead', 0, 1],
    ['behind', 1, 2],
  ] as const;

  /** Moves the slot to that master unless it is there. */
  async function moveTo(place: number): Promise<void> {
    const master = here.cluster.masters[place];
    if ((await here.cluster.ownerOf(here.key)) !== master) await here.cluster.migrate(here.key, master);
  }

  it.each(DIRECTIONS)('keep the lock and exclude others where the clock is %s', async (__, from, to) => {
    await moveTo(from);
    const held = await together(options);
    const other = here.instance();
    const letIn = async (): Promise<boolean> => (await other.tryAcquire('goods:300')) !== null;
    await moveTo(to);
    expect(await letIn()).toBe(false);
    await Promise.all(held.map(renewed));
    expect(await letIn()).toBe(false);
    await released(held);
    expect(await letIn()).toBe(true);
  });

  it.each(DIRECTIONS)(
    'exclude others where the clock is %s until the lease of dead holders ends',
    async (__, from, to) => {
      await moveTo(from);
      await dies(mode);
      await moveTo(to);
      const other = here.instance();
      expect(await other.tryAcquire('goods:300')).toBeNull();
      await (await other.acquire('goods:300')).release();
      expect(await here.leftovers()).toEqual([]);
    },
  );
});
