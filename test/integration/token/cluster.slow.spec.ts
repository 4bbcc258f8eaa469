import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ClusterOptions } from 'ioredis';
import { type Lock, LockConfigError, type LockService, type MultiLock } from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import type { InstanceChannels } from '../../../lib/stores/token/instance-channels.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { ClusterContention } from '../../support/cluster-contention.js';
import { CUT_MS, longestTimerAtEndOf } from '../../support/ends-by-itself.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { entryOf } from '../../support/subscriber-of.js';
import { eventually, renewed } from '../../support/redis-locks.js';
import { ownerOf, renewAllOf, storeOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';
import { outcome } from '../../support/async.js';

// The clocks of the nodes differ by minutes throughout this file.
const here = forTests(new ClusterContention({ replicas: false }, [0, 300, -300]));

/** Families that are spread over all nodes. */
const FAMILIES = Array.from({ length: 12 }, (_, i) => `family${i}`);

/** Hands the lock to each instance once, so that all are subscribed. */
async function bothHeard(both: readonly LockService[]): Promise<void> {
  for (const [holder, waiter] of [both, both.toReversed()]) {
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    await lock.release();
    await (await granted).release();
  }
}

/** Releases the lock. Returns the next holder. */
async function handedOver(lock: Lock, granted: Promise<Lock>): Promise<Lock> {
  expect(await lock.release()).toBe(true);
  const next = await granted;
  expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  return next;
}

/** Kills the connections of that name. */
async function cut({ admin }: ClusterMember): Promise<void> {
  const clients = (await admin.client('LIST')) as string;
  const ids = [...clients.matchAll(/^id=(\d+) .* name=cut /gm)].map(([, id]) => id);
  expect(ids).not.toHaveLength(0);
  for (const id of ids) await admin.call('CLIENT', 'KILL', 'ID', id);
}

describe('a connection to a node that ends', () => {
  it('loses no lock: requests are repeated over the next connection', async () => {
    const client = here.client({ redisOptions: { connectionName: 'cut' } });
    const locks = here.instance({ redis: client });
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    await Promise.all(here.cluster.masters.map(cut));
    const again = FAMILIES.map((family) => locks.acquire(`${family}:2`));
    const more = await Promise.all(again);
    await Promise.all(held.map(renewed));
    const released = await Promise.all([...held, ...more].map((lock) => lock.release()));
    expect(released).toEqual([...held, ...more].map(() => true));
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a node that hangs', () => {
  const renewal = (lock: Lock) =>
    ({ key: lock.key, owner: ownerOf(lock), mode: 'exclusive', leaseMs: 60_000 }) as const;
  const everywhere = (coverage: 'yes' | 'no') =>
    Promise.all(
      here.cluster.masters.map(({ admin }) => admin.config('SET', 'cluster-require-full-coverage', coverage)),
    );
  let hung: ClusterMember;
  beforeEach(async () => {
    await everywhere('no');
    hung = await here.cluster.ownerOf(here.key);
  });
  afterEach(async () => {
    hung.server.resume();
    await everywhere('yes');
    await eventually('all are up', async () => {
      const states = await Promise.all(here.cluster.masters.map(({ admin }) => admin.cluster('INFO')));
      return states.every((info) => info.includes('cluster_state:ok') && info.includes('cluster_slots_fail:0'));
    });
  });

  it('does not delay the renewals of locks on other nodes', async () => {
    // Longer than a test may take: a batch that waited for the reply would renew none of its locks.
    const locks = here.instance({ requestTimeoutMs: 3_600_000 });
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    const owners = await Promise.all(held.map(({ key }) => here.cluster.ownerOf(key)));
    const onOthers = held.filter((_, i) => owners[i] !== hung).map(({ resource }) => resource);
    expect(onOthers.length).toBeGreaterThan(0);
    const extended = new Set<string>();
    const onExtended = (event: unknown): void => void extended.add((event as { resource: string }).resource);
    lockChannels.extended.subscribe(onExtended);
    hung.server.pause();
    renewAllOf(locks);
    await eventually('those on other nodes are renewed', () => onOthers.every((resource) => extended.has(resource)));
    lockChannels.extended.unsubscribe(onExtended);
  });

  it('does not delay a batch with one request that was redirected to it', async () => {
    const locks = here.instance({ requestTimeoutMs: 2_000 });
    const elsewhere = await here.cluster.otherThan(here.key);
    const all = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    const owners = await Promise.all(all.map(({ key }) => here.cluster.ownerOf(key)));
    const held = all.filter((_, i) => owners[i] === elsewhere);
    await here.cluster.migrate(held[0].key, hung);
    hung.server.pause();
    const replies = await storeOf<TokenStore>(locks).extend(held.map(renewal));
    expect(replies).toEqual(held.map((_, i) => (i === 0 ? 'unknown' : 'renewed')));
  });
});

function subscriptionsOf(locks: LockService): InstanceChannels['subscriptions'] {
  const { channels } = storeOf<TokenStore>(locks);
  return (channels as InstanceChannels).subscriptions;
}

describe('a subscription in a cluster', () => {
  it('is opened at the node of its hash tag, and closed once nobody waits', async () => {
    const both = [here.instance(), here.instance()];
    await bothHeard(both);
    const owner = await here.cluster.ownerOf(here.key);
    const others = here.cluster.masters.filter((master) => master !== owner);
    expect(await here.channels(owner)).toHaveLength(2);
    for (const other of others) expect(await here.channels(other)).toHaveLength(0);
    expect(await here.connections('nestjs-redis-lock:handoffs')).toBe(2);
    for (const locks of both) {
      for (const subscription of subscriptionsOf(locks).all) subscription.usedAt = -Infinity;
      subscriptionsOf(locks).sweep();
    }
    await eventually('they are dropped', async () => (await here.channels(owner)).length === 0);
    await eventually(
      'so are their connections',
      async () => (await here.connections('nestjs-redis-lock:handoffs')) === 0,
    );
    await bothHeard(both);
    expect(await here.channels(owner)).toHaveLength(2);
  });

  it('reconnects after it was cut, and the waiter keeps its place', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const owner = await here.cluster.ownerOf(here.key);
    await owner.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, owner));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });
});

describe('a slot that moves to another node', () => {
  let back: ClusterMember;
  let to: ClusterMember;

  beforeEach(async () => {
    back = await here.cluster.ownerOf(here.key);
    to = await here.cluster.otherThan(here.key);
  });
  afterEach(async () => {
    if ((await here.cluster.ownerOf(here.key)) !== back) await here.cluster.migrate(here.key, back);
  });

  it('and back: a subscription that the old node dropped is renewed', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    await here.cluster.migrate(here.key, to);
    await here.cluster.migrate(here.key, back);
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, back));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  it.each<[what: string, acquire: (locks: LockService) => Promise<Lock | MultiLock>]>([
    ['lock', (locks) => locks.acquire('goods:300', { waitMs: 0 })],
    ['multi-lock', (locks) => locks.acquire(['goods:300', 'goods:301', 'goods:302'], { waitMs: 0 })],
  ])('grants no %s while its keys migrate, and does once they have arrived', async (_, acquire) => {
    const locks = here.instance();
    await locks.using('goods:300', () => undefined);
    // The fence is here, the other keys are absent: both nodes reply TRYAGAIN or ASK.
    const { finish, moveKeys } = await here.cluster.migration(here.key, to);
    const granted = acquire(locks);
    const settled = outcome<unknown>(granted);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(settled).toEqual({});
    expect(await here.leftovers()).toEqual([]);
    await moveKeys();
    await finish();
    expect(await (await granted).release()).toBe(true);
    expect(here.warnings).toEqual([]);
  });

  it('whose keys have moved ahead is renewed and inspected by ASK, but released once the slot has moved', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const { finish, moveKeys } = await here.cluster.migration(here.key, to);
    await moveKeys();
    await to.admin.script('FLUSH');
    await lock.extend();
    expect(await locks.inspect('goods:300')).toMatchObject({ isOwn: true, fencingToken: lock.fencingToken });
    // The key of the sharers is absent: no node has all keys (TRYAGAIN).
    const released = lock.release();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await finish();
    expect(await released).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });
});

describe('a node that joins the cluster, and leaves it again', () => {
  let newcomer: ClusterMember;
  let back: ClusterMember;
  beforeEach(async () => {
    newcomer = await here.cluster.join();
    back = await here.cluster.ownerOf(here.key);
  });
  afterEach(async () => {
    if ((await here.cluster.ownerOf(here.key)) === newcomer) await here.cluster.migrate(here.key, back);
    await here.cluster.leave(newcomer);
  });

  it('loses no lock and no place in a queue when it leaves', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    await here.cluster.migrate(here.key, newcomer);
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    await here.cluster.migrate(here.key, back);
    await here.cluster.leave(newcomer);
    newcomer = await here.cluster.join();
    await renewed(lock);
    await eventually('it is subscribed', () => here.isSubscribed(waiter, back));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });
});

describe('a multi-lock of locks on all nodes', () => {
  it('keeps no lock on other nodes if one node refuses its lock', async () => {
    const holder = await here.instance().acquire('family7:2');
    const other = here.instance();
    const all = FAMILIES.flatMap((family) => [`${family}:1`, `${family}:2`]);
    expect(await other.tryAcquire(all)).toBeNull();
    await eventually('they are free', async () => (await here.leftovers()).join() === holder.key);
    const waiting = other.acquire(all);
    await eventually('it waits', async () => (await here.leftovers()).includes(`${holder.key}|queue`));
    await holder.release();
    expect(await (await waiting).release()).toBe(true);
    await eventually('nothing is left', async () => (await here.leftovers()).length === 0);
  });
});

describe('a Cluster client given by the caller', () => {
  it('is neither changed nor closed', async () => {
    const client = here.client({ enableAutoPipelining: true });
    await client.get('anything');
    const nodes = client.nodes('master');
    await Promise.all(nodes.map((node) => node.ping()));
    const listeners = () =>
      [client, ...nodes].map((one) => one.eventNames().map((name) => [name, one.listenerCount(name)]));
    const before = listeners();
    const most = () => Math.max(...nodes.map((node) => node.listenerCount('end')));
    const mostBefore = most();
    const [locks, other] = [here.instance({ redis: client }), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(other);
    const next = await handedOver(lock, granted);
    const again = (await here.enqueue(locks)).granted;
    await (await handedOver(next, again)).release();
    // Node warns of more than ten listeners, and several modules may share a client.
    expect(most() - mostBefore).toBe(1);
    await here.end();
    expect(await client.get('anything')).toBeNull();
    expect(client.nodes('master')).toEqual(nodes);
    expect(listeners()).toEqual(before);
  });

  it.each<[string, ClusterOptions]>([
    ['on the cluster', { keyPrefix: 'app:' }],
    ['on its nodes', { redisOptions: { keyPrefix: 'app:' } }],
    ['with braces', { keyPrefix: '{app}:' }],
  ])('may have a keyPrefix %s: keys, helper keys and channels have it', async (_, options) => {
    const prefix = options.keyPrefix ?? options.redisOptions?.keyPrefix ?? '';
    for (const key of [undefined, (resource: string) => `${here.prefix}${resource}`]) {
      const [locks, other] = [1, 2].map(() => here.instance({ redis: here.client(options), ...(key && { key }) }));
      const lock = await locks.acquire('goods:300');
      const { admin } = await here.cluster.ownerOf(prefix + lock.key);
      expect(await admin.exists(prefix + lock.key)).toBe(1);
      const granted = other.acquire('goods:300');
      const queued = async () => (await admin.keys('*|queue')).length === 1;
      await eventually('it queues', queued);
      expect((await admin.keys('*')).every((name) => name.startsWith(prefix))).toBe(true);
      // A master that was behind takes over with a queue of the past. The owner in it would keep the lock for 1 s.
      const [queue] = await admin.keys('*|queue');
      await admin.zadd(queue, 0.1, entryOf(other, 90));
      const held = await handedOver(lock, granted);
      await held.extend();
      expect(await locks.inspect('goods:300')).toMatchObject({ isOwn: false, fencingToken: held.fencingToken });
      await held.release();
      expect(await here.leftovers()).toEqual([]);
      await here.cluster.flush();
    }
    expect(here.warnings).toEqual([]);
  });

  it('is refused at start if it has two keyPrefixes', () => {
    const redis = here.client({ keyPrefix: 'app:', redisOptions: { keyPrefix: 'other:' } });
    expect(() => here.instance({ redis })).toThrow(LockConfigError);
  });
});

describe('a closed module on a cluster', () => {
  it('leaves no connection, and lets the process end', async () => {
    const both = [here.instance(), here.instance()];
    await bothHeard(both);
    expect(await here.connections('nestjs-redis-lock')).toBeGreaterThan(0);
    await here.end();
    await eventually('all are gone', async () => (await here.connections('nestjs-redis-lock[^ ]*')) === 0);
    const script = `
      const redis = { nodes: ${JSON.stringify(here.cluster.nodes)} };
      const runtimes = [1, 2].map(() => LockRuntime.start({ redis }, undefined, { logger: silent }));
      for (const runtime of runtimes) runtime.connect();
      const [one, other] = runtimes.map(({ service }) => service);
      const first = await one.acquire('goods:300');
      const waiting = other.acquire('goods:300');
      while (!(await one.inspect('goods:300')).isOwn) await new Promise((resolve) => setTimeout(resolve, 5));
      setTimeout(() => void first.release(), 200);
      await (await waiting).release();
      await Promise.all(runtimes.map((runtime) => runtime.close()));
    `;
    expect(await longestTimerAtEndOf(script)).toBeLessThanOrEqual(CUT_MS);
  });
});
