import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type Lock, LockLostError, type LockService, type StoreFactory } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { AcquireOptions } from '../../lib/core/acquire/acquire-options.js';
import { LockEngine } from '../../lib/core/lock-engine.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { deferred, outcome } from '../support/async.js';
import { asPort } from '../support/client-port.js';
import { FaultyStore } from '../support/faulty-store.js';
import { faultyLocks, KEY, queuedLocks } from '../support/locks.js';

const BLOCKED = /^The lock on goods:300 was lost after (\d+) ms: (.*)\.$/;

/** Returns why a lock was lost, as its error says it. */
const whyLost = (error: unknown): string | undefined => BLOCKED.exec((error as Error).message)?.[2];

describe('a lock whose lease is due when its work begins', () => {
  it('is renewed before the first line of the work, after a handoff', async () => {
    const { clock, locks, stranger, store } = faultyLocks();
    await stranger.take(KEY);
    const sent = deferred<number>();
    const using = locks.using('goods:300', () => sent.resolve(store.extendBatches.length));
    await clock.advance(0);
    await stranger.leave(KEY);
    expect(await sent.promise).toBe(1);
    await using;
  });

  it('is renewed together with all others that are granted in the same tick', async () => {
    const { clock, locks, neighbour, store } = faultyLocks();
    const ids = [1, 2, 3];
    const held = await Promise.all(ids.map((id) => neighbour().locks.acquire(`goods:${id}`)));
    // The readers of a key have one owner, which is renewed once.
    const readers = [...ids, 3].map((id) => outcome(locks.acquire(`goods:${id}`, { mode: 'shared' })));
    await clock.advance(0);
    await Promise.all(held.map((lock) => lock.release()));
    await clock.advance(0);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([3]);
    for (const { value } of readers) expect((value as Lock).expiresInMs).toBeGreaterThan(29_000);
  });

  it('is renewed once, although it is passed to the next caller before the reply', async () => {
    const { clock, locks, stranger, store } = faultyLocks();
    await stranger.take(KEY);
    store.hold('extend');
    const end = deferred();
    const work = (): Promise<void> => (passes++ < 5 ? Promise.resolve() : end.promise);
    let passes = 0;
    const calls = Array.from({ length: 6 }, () => outcome(locks.using('goods:300', work)));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(passes).toBe(6);
    expect(store.extendBatches).toHaveLength(1);
    store.deliver('extend');
    await clock.advance(8_000);
    expect(store.extendBatches).toHaveLength(1);
    end.resolve();
    await clock.advance(0);
    expect(calls.map(({ error }) => error)).toEqual(calls.map(() => undefined));
  });
});

describe('a lock whose renewal arrives while the event loop is blocked', () => {
  /** Returns a lock after a handoff. The reply to its renewal waits at the socket. */
  const handedOff = async () => {
    const all = await queuedLocks();
    all.store.hold('extend');
    await all.stranger.leave(KEY);
    await all.clock.advance(0);
    return { ...all, held: all.lock() };
  };

  it('is held when the loop has read the reply, which it does after its timers', async () => {
    const { clock, store, held } = await handedOff();
    clock.jump(19_000);
    // The timers run first. The reply is read before those that they schedule.
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    held.assertHeld();
    expect(held.signal.aborted).toBe(false);
    expect(held.expiresInMs).toBeGreaterThan(10_000);
  });

  it('is lost to assertHeld() before the loop has turned, which names the reason', async () => {
    const { clock, held } = await handedOff();
    clock.jump(19_000);
    expect(() => held.assertHeld()).toThrow(
      /the event loop was blocked for 18\.9 s, and its renewal could not be sent/,
    );
  });

  it('is not lost to extend() before the loop has turned', async () => {
    const { clock, store, held } = await handedOff();
    clock.jump(19_000);
    const extended = outcome(held.extend());
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(extended).toHaveProperty('value');
    held.assertHeld();
  });

  it('is held at the end of the work', async () => {
    const { clock, locks, stranger, store } = faultyLocks();
    await stranger.take(KEY);
    store.hold('extend');
    const using = outcome(
      locks.using('goods:300', () => {
        clock.jump(19_000);
        clock.schedule(0, () => store.deliver('extend'));
        return 'done';
      }),
    );
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(1);
    expect(using).toEqual({ value: 'done' });
    expect(store.releases).toHaveLength(1);
  });

  it('is lost at the end of work that fails if no reply arrives, and the error names both', async () => {
    const { clock, locks, stranger, store } = faultyLocks();
    await stranger.take(KEY);
    store.hold('extend');
    const using = outcome(
      locks.using('goods:300', () => {
        clock.jump(19_000);
        throw new Error('sold out');
      }),
    );
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(1);
    expect(using.error).toBeInstanceOf(LockLostError);
    expect(using.error).toMatchObject({ cause: { message: 'sold out' } });
  });

  it('is lost if the renewed lease is over, too', async () => {
    const { clock, store, held } = await handedOff();
    clock.jump(30_000);
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(whyLost(held.signal.reason)).toMatch(/^the event loop was blocked for 29\.9 s/);
  });

  it('is lost if the store has lost it', async () => {
    const { clock, store, stranger, held } = await handedOff();
    await stranger.steal(KEY);
    store.deliver('extend');
    store.hold('extend');
    const lost = outcome(held.extend());
    clock.jump(3_000);
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(lost.error).toBeInstanceOf(LockLostError);
  });

  it('is lost if an acquire request of its owner may have run after the lease', async () => {
    const { clock, locks, stranger, store } = faultyLocks({ requestTimeoutMs: 10_000 });
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    // The request is repeated, and its reply does not come. Then the handoff arrives.
    store.hold('acquire');
    store.hold('extend');
    await clock.advance(3_000);
    await stranger.leave(KEY);
    await clock.advance(0);
    const held = waiting.value as Lock;
    expect(store.acquires.length).toBeGreaterThan(1);
    clock.jump(19_000);
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(held.signal.aborted).toBe(true);
  });
});

describe('work that blocks the event loop for less than two thirds of ttlMs', () => {
  it.each([0, 5_000, 9_000, 9_697, 9_699])('keeps its lock if it begins %d ms after the grant', async (at) => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(at);
    clock.jump(19_990);
    lock.assertHeld();
    await clock.advance(1);
    lock.assertHeld();
    expect(lock.expiresInMs).toBeGreaterThan(0);
  });

  it.each([9_000, 9_600, 12_000])('keeps a lock that was passed to it %d ms after the grant', async (at) => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000, passing: { maxLocalHoldMs: 60_000 } });
    const first = await locks.acquire('goods:300');
    // No renewal succeeds before.
    store.lose('extend', new Error('no connection'));
    const end = deferred();
    const next = outcome(
      locks.using('goods:300', { waitMs: 60_000 }, async (lock) => {
        clock.jump(19_990);
        await end.promise;
        lock.assertHeld();
      }),
    );
    await clock.advance(at);
    store.lose('extend');
    await first.release();
    await clock.advance(1);
    end.resolve();
    await clock.advance(0);
    expect(next).toStrictEqual({ value: undefined });
  });
});

describe('the error of a lost lock', () => {
  it('says how long the event loop was blocked, after the loop has turned', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const lock = await locks.acquire('goods:300');
    const { signal } = lock;
    await clock.advance(100);
    clock.jump(6_912);
    await clock.advance(0);
    expect((signal.reason as Error).message).toBe(
      'The lock on goods:300 was lost after 7012 ms: ' +
        'the event loop was blocked for 6.8 s, and its renewal could not be sent.',
    );
  });

  it('says so at the end of the work, before any timer has fired', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const using = locks.using('goods:300', () => clock.jump(7_000));
    await expect(using).rejects.toThrow(/the event loop was blocked for 6\.9 s, and its renewal could not be sent\.$/);
  });

  it.each([
    ['renewals without a reply', {}, 0],
    ['renewals without a reply and a short delay at the end', {}, 1_000],
  ])('does not say so after %s', async (_, options, delayMs) => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 5_000, ...options });
    const { signal } = await locks.acquire('goods:300');
    store.lose('extend', new Error('no connection'));
    await clock.advance(4_900 - delayMs);
    clock.jump(delayMs);
    await clock.advance(200);
    expect(whyLost(signal.reason)).toBe('its lease ran out');
  });

  it('does not say so after maxHoldMs, even if the loop was blocked', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const lock = await locks.acquire('goods:300', { maxHoldMs: 6_000 });
    clock.jump(7_000);
    expect(() => lock.assertHeld()).toThrow(/maxHoldMs \(6000\) has elapsed/);
  });
});

// A client that writes requests later than in the tick that makes them: work that blocks would come before a renewal.

const PATIENT = { waitMs: 600_000 };

/** Makes two instances. The requests of the second one are written when `written` resolves. */
function twoInstances() {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const written = deferred();
  const start = (factory: StoreFactory): LockService => {
    const options = { store: factory, checks: 'off' as const };
    return LockRuntime.start(options, undefined, { clock }).service;
  };
  // It is never connected.
  const client = Object.assign(asPort(new Redis({ lazyConnect: true })), { written: () => written.promise });
  const locks = start((context) => {
    context.open(client);
    return store;
  });
  return { clock, store, memory, written, other: start(() => new FaultyStore(memory)), locks };
}

/** Hands a lock to the second instance. */
async function handOff() {
  const instances = twoInstances();
  const { clock, other, locks } = instances;
  const first = await other.acquire('goods:300');
  const waiting = outcome(locks.acquire('goods:300', PATIENT));
  await clock.advance(0);
  await first.release();
  await clock.advance(0);
  return { ...instances, waiting, lock: () => waiting.value as Lock };
}

it('a caller gets a handed-off lock when its renewal is written', async () => {
  const { clock, store, waiting, written, lock } = await handOff();
  expect(store.extendBatches).toHaveLength(1);
  expect(waiting).toEqual({});
  written.resolve();
  await clock.advance(0);
  expect(lock().expiresInMs).toBeGreaterThan(20_000);
});

it('a lock that is lost before its renewal is written reaches its caller as lost', async () => {
  const { clock, memory, locks, waiting, written, lock } = await handOff();
  await locks.forceRelease('goods:300');
  await clock.advance(0);
  expect(waiting).toEqual({});
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
  expect(await lock().release()).toBe(false);
  expect(await memory.inspect(KEY)).toBeNull();
});

it('a shutdown releases a lock whose renewal is not written yet', async () => {
  const { clock, memory, locks, written, lock } = await handOff();
  const closed = outcome(locks.engine.close(0));
  await clock.advance(2_000);
  expect(closed).toHaveProperty('value');
  expect(await memory.inspect(KEY)).toBeNull();
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
});

it.each(['exclusive', 'shared'] as const)('no request of a lock scope gets it before: %s', async (mode) => {
  const { clock, other, locks, written } = twoInstances();
  const options = { ...OPTIONS, mode };
  const first = await other.acquire('goods:300');
  await locks.scope(async () => {
    const side = [1, 2].map(() => outcome(locks.acquire('goods:300', options)));
    await clock.advance(0);
    await first.release();
    await clock.advance(0);
    const later = [outcome(locks.acquire('goods:300', options)), outcome(locks.acquire(['goods:300'], options))];
    await clock.advance(0);
    expect([...side, ...later]).toEqual([{}, {}, {}, {}]);
    written.resolve();
    await clock.advance(0);
    expect([...side, ...later].every(({ value }) => value !== undefined)).toBe(true);
    for (const { value } of [...side, ...later]) void value?.release();
  });
});

it('the renewals of 300 locks that were handed off in one tick leave in that tick', async () => {
  const { clock, other, locks, store } = twoInstances();
  const resources = Array.from({ length: 300 }, (_, i) => `goods:${i}`);
  const held = await Promise.all(resources.map((resource) => other.acquire(resource)));
  for (const resource of resources) void outcome(locks.acquire(resource, PATIENT));
  await clock.advance(0);
  store.hold('handoff');
  await Promise.all(held.map((lock) => lock.release()));
  store.deliver('handoff');
  await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined))));
  expect(store.extendBatches.map(({ length }) => length)).toEqual([250, 50]);
});

const OPTIONS: AcquireOptions = {
  mode: 'exclusive',
  ttlMs: 30_000,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  waitMs: 5_000,
  signal: undefined,
};

// node-redis writes a request after the tick that makes it.
it('several locks are given when the renewal that is due is written', async () => {
  const clock = new ManualClock();
  const store = new FaultyStore(new MemoryStore(clock));
  const written = deferred();
  const nothing = (): void => undefined;
  const engine = new LockEngine({
    store,
    clock,
    instance: 'default',
    requestTimeoutMs: 20_000,
    lockDelayMs: 0,
    passing: { maxLocalPasses: 16, maxLocalHoldMs: 50 },
    checkTtl: nothing,
    warn: nothing,
    written: () => written.promise,
  });
  store.hold('acquire');
  const targets = ['goods:1', 'goods:2'].map((resource) => ({ resource, key: `{lock_goods}:${resource}` }));
  const waiting = outcome(engine.acquireAll(targets, OPTIONS));
  // A third of the lease is over when the reply arrives.
  await clock.advance(11_000);
  store.deliver('acquire');
  await clock.advance(0);
  expect(store.extendBatches).toHaveLength(1);
  expect(waiting.value).toBeUndefined();
  written.resolve();
  await clock.advance(0);
  waiting.value?.assertHeld();
  expect(await waiting.value?.release()).toBe(true);
});
