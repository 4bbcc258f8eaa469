import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from '@jest/globals';
import {
  LockClosedError,
  LockConfigError,
  LockKeyError,
  LockLostError,
  LockReentryError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
  MultiLock,
} from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import { createKeyFactory } from '../../lib/keys/resource-key.js';
import { outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

const family = ['goods:1', 'goods:2', 'goods:3'];
const keyOf = createKeyFactory({ prefix: 'lock_', hashTag: 'family' });

/** Returns the resources that another instance can lock. */
async function freeOf(locks: LockService, resources: readonly string[]): Promise<string[]> {
  const free: string[] = [];
  for (const resource of resources) {
    const lock = await locks.tryAcquire(resource);
    if (lock === null) continue;
    free.push(resource);
    await lock.release();
  }
  return free;
}

describe('several resources', () => {
  it('of one family are requested in one tick, and each has a lock', async () => {
    const { locks, store, neighbour } = faultyLocks();
    store.hold('acquire');
    const acquiring = locks.acquire(family);
    expect(store.acquires.map(({ key, wait }) => [key, wait])).toEqual(family.map((id) => [keyOf(id), false]));
    store.deliver('acquire');
    const all = await acquiring;
    expect(all).toBeInstanceOf(MultiLock);
    expect(store.acquires).toHaveLength(3);
    expect(all.resources).toEqual(family);
    expect(all.locks.map(({ resource }) => resource)).toEqual(family);
    expect(all.of('goods:2').key).toBe(keyOf('goods:2'));
    expect(() => all.of('goods:4')).toThrow(LockKeyError);
    all.assertHeld();
    expect(await freeOf(neighbour().locks, family)).toEqual([]);
    expect(await all.release()).toBe(true);
    expect(await all.release()).toBe(true);
    expect(await freeOf(neighbour().locks, family)).toEqual(family);
    expect(() => all.assertHeld()).toThrow(LockLostError);
  });

  it('that share a key share a lock', async () => {
    const { locks } = faultyLocks({ key: (resource) => resource.toLowerCase() });
    const both = await locks.acquire(['A', 'a', 'b', 'b']);
    expect(both.locks).toHaveLength(2);
    expect(both.of('A')).toBe(both.of('a'));
    expect(both.resources).toEqual(['A', 'a', 'b']);
    expect(await both.release()).toBe(true);
  });

  it('are not acquired if one is held and waitMs is 0', async () => {
    const { locks, store, neighbour } = faultyLocks();
    const others = neighbour().locks;
    const held = await others.acquire('goods:2');
    expect(await locks.tryAcquire(family)).toBeNull();
    expect(store.acquires).toHaveLength(3);
    expect(store.releases.map(({ key }) => key).toSorted()).toEqual([keyOf('goods:1'), keyOf('goods:3')]);
    await expect(locks.acquire(family, { waitMs: 0 })).rejects.toMatchObject({
      constructor: LockTimeoutError,
      resource: 'goods:2',
      remainingMs: 30_000,
    });
    expect(await freeOf(others, family)).toEqual(['goods:1', 'goods:3']);
    await held.release();
  });

  it('are waited for one after the other, and handed off', async () => {
    const { locks, clock, neighbour } = faultyLocks();
    const others = neighbour().locks;
    const held = [await others.acquire('goods:1'), await others.acquire('goods:3')];
    const waiting = outcome(locks.acquire(family));
    await clock.advance(0);
    await held[0].release();
    await clock.advance(0);
    expect(await freeOf(others, family)).toEqual([]);
    expect(waiting.value).toBeUndefined();
    await held[1].release();
    await clock.advance(0);
    expect(await waiting.value?.release()).toBe(true);
    expect(await freeOf(others, family)).toEqual(family);
  });

  it('share one waitMs, after which acquired locks are released', async () => {
    const { locks, clock, neighbour } = faultyLocks();
    const others = neighbour().locks;
    const first = await others.acquire('goods:1');
    await others.acquire('goods:3');
    const waiting = outcome(locks.acquire(family, { waitMs: 1_000 }));
    await clock.advance(700);
    await first.release();
    await clock.advance(299);
    expect(waiting.error).toBeUndefined();
    await clock.advance(1);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ resource: 'goods:3', elapsedMs: 1_000 });
    expect((waiting.error as Error).message).toContain('refused after 1000 ms (waitMs: 1000)');
    expect(await freeOf(others, family)).toEqual(['goods:1', 'goods:2']);
  });

  it('are not granted if one is lost while another is waited for', async () => {
    const { locks, clock, store, neighbour } = faultyLocks();
    const others = neighbour().locks;
    const held = await others.acquire('goods:2', { ttlMs: 60_000 });
    const waiting = outcome(locks.acquire(['goods:1', 'goods:2'], { ttlMs: 1_000, waitMs: 60_000 }));
    await clock.advance(0);
    store.hold('extend');
    await clock.advance(1_000);
    await held.release();
    await clock.advance(0);
    expect(waiting.error).toBeInstanceOf(LockLostError);
    expect(await freeOf(others, ['goods:1', 'goods:2'])).toEqual(['goods:1', 'goods:2']);
  });

  it('behind a held one are released while the call waits, and requested again with a lease of their own', async () => {
    const { locks, clock, store, memory, neighbour } = faultyLocks();
    const held = await neighbour().locks.acquire('account:1');
    const waiting = outcome(locks.acquire(['account:1', 'goods:1'], { waitMs: 60_000, ttlMs: 30_000 }));
    await clock.advance(5_000);
    expect(await memory.inspect('{lock_goods}:1')).toBeNull();
    await held.release();
    await clock.advance(0);
    const behind = store.acquires.filter(({ key }) => key === '{lock_goods}:1');
    // The second request is for a single lock, which the call may wait for.
    expect(behind.map(({ wait }) => wait)).toEqual([false, true]);
    expect(behind[0].owner).not.toBe(behind[1].owner);
    expect(waiting.value?.of('goods:1').expiresInMs).toBeGreaterThan(29_000);
  });

  it('wait locally behind a holder of one of them, without a request for it', async () => {
    const { locks, store, clock, neighbour } = faultyLocks();
    const held = await locks.acquire('goods:2');
    const waiting = outcome(locks.acquire(family));
    await clock.advance(0);
    const requests = (resource: string): number => store.acquires.filter(({ key }) => key === keyOf(resource)).length;
    expect(family.map(requests)).toEqual([1, 1, 1]);
    expect(await freeOf(neighbour().locks, family)).toEqual(['goods:3']);
    await held.release();
    await clock.advance(0);
    // The lock was passed on, and the one behind it is requested again.
    expect(family.map(requests)).toEqual([1, 1, 2]);
    expect(await waiting.value?.release()).toBe(true);
  });

  it('are refused if one of them is invalid', async () => {
    const { locks } = faultyLocks();
    await expect(locks.acquire([])).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire(['goods:1', ''])).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire(['goods:1', undefined as unknown as string])).rejects.toBeInstanceOf(LockKeyError);
    const tooMany = Array.from({ length: 1_001 }, (_, i) => `goods:${i}`);
    await expect(locks.acquire(tooMany)).rejects.toThrow('1001 items');
    await expect(locks.acquire(['goods:1'], { ttlMs: 1 })).rejects.toBeInstanceOf(LockConfigError);
    expect(await (await locks.acquire(tooMany.slice(1))).release()).toBe(true);
  });
});

describe('work under a multi-lock', () => {
  it('holds all locks, and can acquire each of them again', async () => {
    const { locks, store } = faultyLocks();
    await locks.using(family, async (all) => {
      expect(locks.current('goods:2')).toBe(all.of('goods:2'));
      expect(locks.current()).toBe(all.of('goods:1'));
      await locks.using('goods:3', (lock) => expect(lock.fencingToken).toBe(all.of('goods:3').fencingToken));
      await locks.using(['goods:3', 'goods:1'], () => undefined);
      all.assertHeld();
      expect(store.acquires).toHaveLength(3);
      await locks.using(['goods:4', 'goods:2', 'goods:5'], () => undefined);
      expect(store.acquires.slice(3).map(({ key }) => key)).toEqual([keyOf('goods:4'), keyOf('goods:5')]);
      all.assertHeld();
    });
    expect(await freeOf(locks, [...family, 'goods:4', 'goods:5'])).toHaveLength(5);
  });

  it('cannot upgrade a shared lock, and a refused list locks nothing', async () => {
    const { locks } = faultyLocks();
    await locks.using(family, { mode: 'shared' }, async () => {
      await expect(locks.using(['goods:1', 'goods:9'], () => undefined)).rejects.toBeInstanceOf(LockReentryError);
    });
    expect(await freeOf(locks, [...family, 'goods:9'])).toHaveLength(4);
  });

  it('is aborted as soon as one lock is lost, and the others end with it', async () => {
    const { locks, memory, clock, neighbour } = faultyLocks();
    let seen: readonly AbortSignal[] = [];
    const work = locks.using(family, { ttlMs: 3_000 }, async (all) => {
      seen = [all.signal, ...all.locks.map(({ signal }) => signal)];
      memory.table.rows.delete(keyOf('goods:2'));
      await clock.advance(1_000);
      expect(() => all.assertHeld()).toThrow(LockLostError);
      expect(all.expiresInMs).toBe(0);
      all.of('goods:1').assertHeld();
      throw new Error('noticed');
    });
    const cause = expect.objectContaining({ message: 'noticed' });
    await expect(work).rejects.toMatchObject({ constructor: LockLostError, resource: 'goods:2', cause });
    expect(seen).toHaveLength(4);
    for (const signal of seen) expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(await freeOf(neighbour().locks, family)).toEqual(family);
  });

  it('stops waiting for another lock if one is lost', async () => {
    const { locks, clock, neighbour } = faultyLocks();
    const others = neighbour().locks;
    await others.acquire('order:1');
    const waiting = outcome(locks.acquire(['goods:1', 'order:1'], { maxHoldMs: 5_000, waitMs: 600_000 }));
    await clock.advance(4_999);
    expect(waiting.error).toBeUndefined();
    await clock.advance(1);
    expect(waiting.error).toMatchObject({ constructor: LockLostError, resource: 'goods:1' });
  });

  it('extends all locks', async () => {
    const { locks, clock, store } = faultyLocks();
    const all = await locks.acquire(family, { ttlMs: 1_000 });
    await all.extend(10_000);
    store.lose('extend', new Error('no connection'));
    await clock.advance(5_000);
    all.assertHeld();
    expect(all.expiresInMs).toBeGreaterThan(4_000);
    await clock.advance(5_000);
    await expect(all.extend()).rejects.toBeInstanceOf(LockLostError);
    expect(await all.release()).toBe(false);
  });

  it('keeps each lock closed for minHoldMs', async () => {
    const { locks, clock, neighbour } = faultyLocks();
    await locks.using(family, { minHoldMs: 1_000 }, () => undefined);
    expect(await freeOf(neighbour().locks, family)).toEqual([]);
    await clock.advance(1_000);
    expect(await freeOf(neighbour().locks, family)).toEqual([]);
    await clock.advance(1);
    expect(await freeOf(neighbour().locks, family)).toEqual(family);
  });
});

describe('the first requests for several locks', () => {
  it('are released once their server has fallen silent, and the locks are requested again', async () => {
    const { locks, store, clock, neighbour } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire(family));
    await clock.advance(1_000);
    expect(store.releases.map(({ key }) => key)).toEqual(family.map(keyOf));
    store.deliver('acquire');
    await clock.advance(0);
    expect(store.acquires.slice(3).map(({ key }) => key)).toEqual(family.map(keyOf));
    expect(await waiting.value?.release()).toBe(true);
    expect(await freeOf(neighbour().locks, family)).toEqual(family);
  });

  it('stay on their way when their caller leaves, and what they bring is released', async () => {
    const { locks, store, clock, neighbour } = faultyLocks();
    store.hold('acquire');
    const leaving = new AbortController();
    const waiting = outcome(locks.acquire(family, { signal: leaving.signal }));
    await clock.advance(0);
    leaving.abort('gone');
    await clock.advance(0);
    expect(waiting.error).toBe('gone');
    expect(store.releases).toEqual([]);
    store.deliver('acquire');
    await clock.advance(0);
    expect(store.releases.map(({ owner }) => owner)).toEqual(store.acquires.map(({ owner }) => owner));
    expect(await freeOf(neighbour().locks, family)).toEqual(family);
    await expect(locks.acquire(family, { signal: AbortSignal.abort('before') })).rejects.toBe('before');
  });

  it('are left by their callers in a shutdown, inside a hold after the grace period', async () => {
    const { locks, store, clock, neighbour } = faultyLocks();
    const inside: { error?: unknown }[] = [];
    const work = outcome(
      locks.using('order:1', async ({ signal }) => {
        store.hold('acquire');
        inside.push(outcome(locks.acquire(family)));
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      }),
    );
    await clock.advance(0);
    const outside = outcome(locks.acquire(['account:1', 'account:2']));
    await clock.advance(0);
    const closed = locks.engine.close(500);
    await clock.advance(499);
    expect(outside.error).toBeInstanceOf(LockClosedError);
    expect(inside).toEqual([{}]);
    await clock.advance(1);
    expect(inside[0].error).toBeInstanceOf(LockClosedError);
    // The requests have not ended yet.
    expect(store.releases.map(({ key }) => key)).toEqual([keyOf('order:1')]);
    store.deliver('acquire');
    await clock.advance(0);
    const givenBack = ['order:1', ...family, 'account:1', 'account:2'].map(keyOf);
    expect(store.releases.map(({ key }) => key)).toEqual(givenBack);
    await closed;
    expect(work.error).toBeInstanceOf(LockLostError);
    expect(await freeOf(neighbour().locks, [...family, 'account:1', 'account:2', 'order:1'])).toHaveLength(6);
    await expect(locks.acquire(family)).rejects.toBeInstanceOf(LockClosedError);
  });
});

describe('the release of a multi-lock', () => {
  it('may be left unawaited, and rejects with the first failure', async () => {
    const { locks, store, clock } = faultyLocks();
    const all = await locks.acquire(family);
    store.fail('release', new LockUnavailableError('gone', { resource: 'goods:1' }));
    void all.release();
    await expect(all.release()).rejects.toBeInstanceOf(LockUnavailableError);
    expect(all.release()).toBe(all.release());
    store.fail('release');
    await clock.advance(1_000);
    expect(await freeOf(locks, family)).toEqual(family);
  });
});

describe('events', () => {
  it('are published for each resource', async () => {
    const { locks, neighbour } = faultyLocks();
    const seen: string[] = [];
    const listening = ['requested', 'granted', 'refused', 'released'].map((name) => {
      const listener = (event: unknown) => void seen.push(`${name} ${(event as { resource: string }).resource}`);
      subscribe(`nestjs-redis-lock:${name}`, listener);
      return () => unsubscribe(`nestjs-redis-lock:${name}`, listener);
    });
    await (await locks.acquire(['goods:1', 'goods:2'])).release();
    const held = await neighbour().locks.acquire('order:1');
    seen.length = 0;
    expect(await locks.tryAcquire(['order:2', 'order:1', 'goods:1'])).toBeNull();
    for (const stop of listening) stop();
    await held.release();
    expect(seen).toEqual([
      ...['order:2', 'order:1', 'goods:1'].map((resource) => `requested ${resource}`),
      // Of the two that were free, no caller has known.
      ...['order:2', 'order:1', 'goods:1'].map((resource) => `refused ${resource}`),
    ]);
  });
});

const BOTH = ['goods:1', 'goods:2'];

/** The microtasks from the replies to the first requests to the next request. */
const MICROTASKS = Array.from({ length: 16 }, (_, i) => i);

/** Requests two keys, one of which is held elsewhere. Resolves `microtasks` after the reply, or before it with -1. */
async function afterReply(microtasks: number, signal?: AbortSignal) {
  const all = faultyLocks();
  await all.stranger.take('{lock_goods}:2');
  all.store.hold('acquire');
  const waiting = outcome(all.locks.acquire(BOTH, { waitMs: 60_000, signal }));
  await all.clock.advance(0);
  if (microtasks >= 0) all.store.deliver('acquire');
  for (let i = 0; i < microtasks; i++) await Promise.resolve();
  return { ...all, waiting };
}

describe('between two requests of a multi-lock', () => {
  it.each([-1, ...MICROTASKS])('a shutdown refuses it %i microtasks after a reply', async (microtasks) => {
    const { locks, waiting, clock, memory } = await afterReply(microtasks);
    const closed = outcome(locks.engine.close(0));
    await clock.advance(0);
    await clock.advance(2_000);
    expect(waiting.error).toBeInstanceOf(LockClosedError);
    expect(closed).toHaveProperty('value');
    expect(await memory.inspect('{lock_goods}:1')).toBeNull();
  });

  it.each(MICROTASKS)('its signal ends it %i microtasks after a reply', async (microtasks) => {
    const stop = new AbortController();
    const { waiting, clock, memory } = await afterReply(microtasks, stop.signal);
    stop.abort(new Error('enough'));
    await clock.advance(0);
    expect(waiting.error).toEqual(new Error('enough'));
    expect(await memory.inspect('{lock_goods}:1')).toBeNull();
  });

  it('its signal ends it once some of its locks are granted', async () => {
    const stop = new AbortController();
    const { locks, store, clock, memory, stranger } = faultyLocks();
    await stranger.take('{lock_order}:2');
    store.hold('acquire');
    const waiting = outcome(locks.acquire([...BOTH, 'order:1', 'order:2'], { signal: stop.signal }));
    await clock.advance(0);
    const leave = (): void => stop.abort(new Error('enough'));
    lockChannels.granted.subscribe(leave);
    store.deliver('acquire');
    await clock.advance(0);
    lockChannels.granted.unsubscribe(leave);
    expect(waiting.error).toEqual(new Error('enough'));
    for (const key of ['{lock_goods}:1', '{lock_order}:1']) expect(await memory.inspect(key)).toBeNull();
    expect((await memory.inspect('{lock_order}:2'))?.waiting).toEqual([]);
  });
});

describe('a store that sends no reply', () => {
  it('is reported after the time limit of one request, not of one for each lock', async () => {
    const { locks, store, clock } = faultyLocks();
    store.hold('acquire');
    const tried = outcome(locks.tryAcquire(BOTH));
    await clock.advance(1_000);
    expect(tried.error).toBeInstanceOf(LockUnavailableError);
    expect(store.acquires).toHaveLength(BOTH.length);
  });

  it('is waited for until waitMs if it is slow and not silent, as for one lock', async () => {
    const server = { server: undefined, received: 0, lostAt: -Infinity, probe: () => void (server.received += 1) };
    const { locks, store, clock, memory } = faultyLocks({ unavailableAfterMs: 500 }, () => [server]);
    store.hold('acquire');
    const calls = [BOTH, ['order:1']].map((resources) => outcome(locks.acquire(resources, { waitMs: 10_000 })));
    await clock.advance(9_999);
    expect(calls).toEqual([{}, {}]);
    await clock.advance(1);
    for (const { error } of calls) expect((error as Error).message).toContain('Redis replies slowly');
    store.deliver('acquire');
    await clock.advance(0);
    for (const resource of [...BOTH, 'order:1']) expect(await memory.inspect(keyOf(resource))).toBeNull();
  });
});

describe('several locks inside a hold of one of them that is lost meanwhile', () => {
  it('end with LockLostError at once, and one that is granted later is released', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const other = neighbour().locks;
    const busy = await other.acquire('goods:2');
    let inner: unknown;
    const outer = outcome(
      locks.using('goods:1', { maxHoldMs: 1_000, onLost: 'ignore' }, async () => {
        inner = await locks.acquire(['goods:1', 'goods:2'], { waitMs: 60_000 }).catch((error: unknown) => error);
      }),
    );
    await clock.advance(2_000);
    expect(inner).toBeInstanceOf(LockLostError);
    expect(outer).toEqual({ value: undefined });
    await busy.release();
    await clock.advance(120_000);
    expect(locks.engine.holds()).toEqual([]);
    expect(await other.tryAcquire('goods:2')).not.toBeNull();
  });
});
