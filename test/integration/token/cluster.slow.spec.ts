import type { EventEmitter } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ClusterOptions } from 'ioredis';
import { type Lock, LockConfigError, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import type { IoredisServer } from '../../../lib/redis/ioredis/ioredis-server.js';
import type { InstanceChannels } from '../../../lib/stores/token/instance-channels.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { ClusterContention } from '../../support/cluster-contention.js';
import { CUT_MS, longestTimerAtEndOf } from '../../support/ends-by-itself.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { entryOf } from '../../support/subscriber-of.js';
import { eventually, renewed } from '../../support/redis-locks.js';
import { clocksAhead } from '../../support/server-clock/wall-clock.js';
import { ownerOf, renewAllOf, storeOf } from '../../support/inside.js';

let here: ClusterContention;

// The clocks of the nodes differ by minutes throughout this file.
beforeAll(async () => {
  here = await ClusterContention.start({ environments: await clocksAhead(0, 300, -300), replicas: false });
});
afterEach(() => here.clear());
afterAll(() => here.close());

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

describe('locks in a cluster', () => {
  it('are spread over all nodes, renewed in batches, and get rising tokens', async () => {
    const [locks, other] = [here.instance(), here.instance()];
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    const owners = await Promise.all(held.map(({ key }) => here.cluster.ownerOf(key)));
    expect(new Set(owners).size).toBe(3);
    const tried = await Promise.all(held.map(({ resource }) => other.tryAcquire(resource)));
    expect(tried.every((lock) => lock === null)).toBe(true);
    await Promise.all(held.map(renewed));
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
    for (const { resource, fencingToken } of held) {
      const next = await other.acquire(resource);
      expect(next.fencingToken).toBeGreaterThan(fencingToken);
      await next.release();
    }
    expect(await here.leftovers()).toEqual([]);
    expect(here.warnings).toEqual([]);
  });

  it('survive SCRIPT FLUSH on one node', async () => {
    const locks = here.instance();
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    await here.cluster.masters[1].admin.script('FLUSH');
    await Promise.all(held.map(renewed));
    await here.cluster.masters[1].admin.script('FLUSH');
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
    for (const family of FAMILIES) await locks.using(`${family}:1`, () => undefined);
  });

  it('are handed off by message in request order, on every node', async () => {
    const [locks, ...others] = [1, 2, 3].map(() => here.instance());
    for (const family of FAMILIES.slice(0, 6)) {
      const resource = `${family}:1`;
      let lock = await locks.acquire(resource);
      const { admin } = await here.cluster.ownerOf(lock.key);
      const waiting: Promise<Lock>[] = [];
      for (const [i, other] of others.entries()) {
        waiting.push(other.acquire(resource));
        await eventually('it queues', async () => (await admin.zcard(`${lock.key}|queue`)) === i + 1);
      }
      for (const granted of waiting) lock = await handedOver(lock, granted);
      await lock.release();
    }
    expect(await here.leftovers()).toEqual([]);
    expect(here.warnings).toEqual([]);
  });

  it('distinguish a busy lock from an unreachable node', async () => {
    const [locks, other] = [here.instance(), here.instance()];
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    const tries = held.map(({ resource }) =>
      other.acquire(resource, { waitMs: 50 }).catch((error: Error) => error.name),
    );
    expect(await Promise.all(tries)).toEqual(held.map(() => 'LockTimeoutError'));
  });
});

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

  it('leaves a renewal unknown after requestTimeoutMs', async () => {
    const locks = here.instance({ requestTimeoutMs: 2_000 });
    const held = await Promise.all(FAMILIES.map((family) => locks.acquire(`${family}:1`)));
    const owners = await Promise.all(held.map(({ key }) => here.cluster.ownerOf(key)));
    hung.server.pause();
    const replies = await storeOf<TokenStore>(locks).extend(held.map(renewal));
    expect(replies).toEqual(owners.map((owner) => (owner === hung ? 'unknown' : 'renewed')));
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

  it('is logged once for each outage, whatever other nodes reply', async () => {
    const locks = here.instance({ requestTimeoutMs: 1_000 });
    const elsewhere = await here.cluster.otherThan(here.key);
    const other = await here.familyAt(elsewhere);
    const told = () => here.warnings.filter((line) => line.includes('cannot be reached'));
    for (let outage = 1; outage <= 2; outage++) {
      await eventually('it answers', () =>
        locks.tryAcquire('goods:300').then(
          (lock) => lock?.release() ?? false,
          () => false,
        ),
      );
      hung.server.pause();
      for (let i = 0; i < 3; i++) {
        await expect(locks.acquire('goods:300', { waitMs: 1_500 })).rejects.toThrow(LockUnavailableError);
        await locks.using(`${other}:1`, () => undefined);
      }
      expect(told()).toHaveLength(outage);
      expect(told().at(-1)).toContain(`127.0.0.1:${hung.server.port}`);
      hung.server.resume();
    }
    await eventually('the first end is logged', () => here.infos.length > 0);
    const address = `127.0.0.1:${hung.server.port}`;
    expect(here.infos[0]).toMatch(new RegExp(`^Redis can be reached again at ${address} after`));
  });
});

it('a node that refuses requests is named once', async () => {
  const locks = here.instance();
  await locks.using('goods:300', () => undefined);
  const { server, admin } = await here.cluster.ownerOf(here.key);
  const other = await here.familyAt(await here.cluster.otherThan(here.key));
  await admin.config('SET', 'maxmemory', '1');
  try {
    for (let i = 0; i < 3; i++) {
      await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockUnavailableError);
      await locks.using(`${other}:1`, () => undefined);
    }
  } finally {
    await admin.config('SET', 'maxmemory', '0');
  }
  const address = `127.0.0.1:${server.port}`;
  const line = new RegExp(`^Redis refuses requests to acquire locks: ${address}: .*OOM command`);
  expect(here.warnings).toEqual([expect.stringMatching(line)]);
  await locks.using('goods:300', () => undefined);
  expect(here.warnings).toHaveLength(1);
});

function subscriptionsOf(locks: LockService): InstanceChannels['subscriptions'] {
  const { channels } = storeOf<TokenStore>(locks);
  return (channels as InstanceChannels).subscriptions;
}

/** Returns the connection on which the first channel is subscribed. */
function subscriberOf(locks: LockService): IoredisServer {
  const [subscription] = subscriptionsOf(locks).all;
  return subscription.source?.subscriber as IoredisServer;
}

describe('a subscription in a cluster', () => {
  it('is opened at the node of its hash tag, and closed once nobody waits', async () => {
    const both = [here.instance(), here.instance()];
    await bothHeard(both);
    const owner = await here.cluster.ownerOf(here.key);
    const others = here.cluster.masters.filter((master) => master !== owner);
    expect(await here.listening(owner)).toBe(2);
    for (const other of others) expect(await here.listening(other)).toBe(0);
    expect(await here.connections('nestjs-redis-lock:handoffs')).toBe(2);
    for (const locks of both) {
      for (const subscription of subscriptionsOf(locks).all) subscription.usedAt = -Infinity;
      subscriptionsOf(locks).sweep();
    }
    await eventually('they are dropped', async () => (await here.listening(owner)) === 0);
    await eventually(
      'so are their connections',
      async () => (await here.connections('nestjs-redis-lock:handoffs')) === 0,
    );
    await bothHeard(both);
    expect(await here.listening(owner)).toBe(2);
  });

  it('of one hash tag is closed alone if another one is in use', async () => {
    const both = [here.instance(), here.instance()];
    await bothHeard(both);
    const [, locks] = both;
    const [first] = subscriptionsOf(locks).all;
    const { source } = first;
    const tag = await here.familyAt(await here.cluster.ownerOf(here.key));
    const strangers = await both[0].acquire(`${tag}:1`);
    const granted = locks.acquire(`${tag}:1`);
    const { admin } = await here.cluster.ownerOf(strangers.key);
    await eventually('it queues', async () => (await admin.zcard(`${strangers.key}|queue`)) === 1);
    const sources = subscriptionsOf(locks).all.map((subscription) => subscription.source);
    expect([sources.length, ...new Set(sources)]).toEqual([2, source]);
    first.usedAt = -Infinity;
    subscriptionsOf(locks).sweep();
    await eventually('it is dropped', async () => (await here.listening({ admin })) === 1);
    await (await handedOver(strangers, granted)).release();
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

  it('reconnects with the request connection, and the waiter rejoins at once', async () => {
    const redis = here.client({ redisOptions: { connectionName: 'cut' } });
    const [locks, waiter] = [here.instance(), here.instance({ redis })];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const owner = await here.cluster.ownerOf(here.key);
    const connections = async (): Promise<readonly string[]> =>
      String(await owner.admin.call('CLIENT', 'LIST', 'TYPE', 'PUBSUB')).match(/\bid=\d+/g) ?? [];
    const before = await connections();
    await cut(owner);
    // It may be back before anybody has noticed its end.
    const isAnother = async (): Promise<boolean> => (await connections()).some((id) => !before.includes(id));
    await eventually('it has a new subscription', isAnother);
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, owner));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  it('is renewed if the node dropped it without a notification', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    await bothHeard([locks, waiter]);
    const owner = await here.cluster.ownerOf(here.key);
    const [subscription] = subscriptionsOf(waiter).all;
    await subscriberOf(waiter).unsubscribe(subscription.channel, true);
    expect(await here.listening(owner)).toBe(1);
    const lock = await locks.acquire('goods:300');
    const granted = waiter.acquire('goods:300');
    await eventually('it is subscribed again', async () => (await here.listening(owner)) === 2);
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  it('is renewed at once if the node reports that it dropped it', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const owner = await here.cluster.ownerOf(here.key);
    const client = subscriberOf(waiter).client as object as EventEmitter & { sunsubscribe(): Promise<unknown> };
    await client.sunsubscribe();
    expect(await here.isSubscribed(waiter, owner)).toBe(false);
    client.emit('moved');
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, owner));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  it('is logged once if it is refused, and waiting falls back to polling', async () => {
    for (const { admin } of here.cluster.masters) {
      await admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', 'allchannels', '+@all', '-ssubscribe');
    }
    const redis = { nodes: here.cluster.nodes, redisOptions: { username: 'guest', password: 'any' } };
    const locks = here.instance({ redis });
    const lock = await here.instance().acquire('goods:300');
    const granted = locks.acquire('goods:300');
    await eventually('the warning is logged', () => here.warnings.length > 0);
    expect(await here.queueLength()).toBe(0);
    await lock.release();
    await (await granted).release();
    expect(here.warnings).toEqual([
      expect.stringMatching(/messages cannot be received: .*"Permissions" on the page .* lists what/),
    ]);
  });
});

describe('a slot that moves to another node', () => {
  let back: ClusterMember;
  let to: ClusterMember;

  async function ends(): Promise<void> {
    back = await here.cluster.ownerOf(here.key);
    to = await here.cluster.otherThan(here.key);
  }
  afterEach(async () => {
    if ((await here.cluster.ownerOf(here.key)) !== back) await here.cluster.migrate(here.key, back);
  });

  it('keeps a held lock, which is released at the new node', async () => {
    await ends();
    const [locks, other] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    await here.cluster.migrate(here.key, to);
    await renewed(lock);
    expect(await other.inspect('goods:300')).toMatchObject({ fencingToken: lock.fencingToken, isOwn: false });
    expect(await other.tryAcquire('goods:300')).toBeNull();
    expect(await lock.release()).toBe(true);
    const next = await other.acquire('goods:300');
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('keeps the place of a waiter, which is notified by the new node', async () => {
    await ends();
    const [locks, ...others] = [1, 2, 3].map(() => here.instance());
    const lock = await locks.acquire('goods:300');
    const waiting = [];
    for (const other of others) waiting.push((await here.enqueue(other)).granted);
    await here.cluster.migrate(here.key, to);
    await eventually('both are subscribed there', () => here.areSubscribed(others, to));
    await here.queueOf(2);
    const second = await handedOver(lock, waiting[0]);
    await (await handedOver(second, waiting[1])).release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('and back: a subscription that the old node dropped is renewed', async () => {
    await ends();
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    await here.cluster.migrate(here.key, to);
    await here.cluster.migrate(here.key, back);
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, back));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  /** Maps the addresses of the nodes, as behind NAT. */
  const natMap = () =>
    Object.fromEntries(here.cluster.nodes.map(({ host, port }) => [`${host}:${port}`, { host: 'localhost', port }]));

  it.each<[string, () => ClusterOptions]>([
    ['', () => ({})],
    [', where a natMap says where that is', () => ({ natMap: natMap() })],
    [', where a function does', () => ({ natMap: (address) => natMap()[address] ?? null })],
  ])('to and fro at once%s: who waits listens where it ends, before it would ask again', async (_, options) => {
    await ends();
    const redis = { nodes: here.cluster.nodes, ...options() };
    const [locks, waiter] = [1, 2].map(() => here.instance({ redis }));
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const { finish, moveKeys } = await here.cluster.migration(here.key, to);
    await moveKeys();
    await lock.extend();
    await finish();
    await lock.extend();
    await here.cluster.migrate(here.key, back);
    await eventually('it is subscribed again', () => here.isSubscribed(waiter, back));
    await here.queueOf(1);
    await (await handedOver(lock, granted)).release();
  });

  it('grants no lock while its keys migrate, and does once they have arrived', async () => {
    await ends();
    const locks = here.instance();
    await locks.using('goods:300', () => undefined);
    // The fence is here, the other keys are absent: both nodes reply TRYAGAIN or ASK.
    const { finish, moveKeys } = await here.cluster.migration(here.key, to);
    let settled = false;
    const granted = locks.acquire('goods:300', { waitMs: 0 }).finally(() => (settled = true));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(settled).toBe(false);
    await moveKeys();
    await finish();
    await (await granted).release();
    expect(here.warnings).toEqual([]);
  });

  it('whose keys have moved ahead is renewed and inspected by ASK, but released once the slot has moved', async () => {
    await ends();
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

  it('is sent requests by ASK before the slot table names it', async () => {
    const [locks, waiter] = [here.instance(), here.instance()];
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const { finish, moveKeys } = await here.cluster.migration(here.key, newcomer);
    await moveKeys();
    await renewed(lock);
    expect(await waiter.inspect('goods:300')).toMatchObject({ fencingToken: lock.fencingToken, isOwn: false });
    await finish();
    expect(await lock.release()).toBe(true);
    await (await granted).release();
    expect(here.warnings).toEqual([]);
    await here.end();
    const left = async () => ((await newcomer.admin.client('LIST')) as string).includes('name=nestjs-redis-lock');
    await eventually('nothing is left of its connections', async () => !(await left()));
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

  it('is refused by timestamp(), which the error names', () => {
    expect(() => here.instance({ store: timestamp() })).toThrow('which timestamp() does not support');
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
