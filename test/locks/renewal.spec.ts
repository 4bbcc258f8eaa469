import { describe, expect, it } from '@jest/globals';
import { type Lock, LockConfigError, LockLostError } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { deferred } from '../support/async.js';
import { FaultyStore } from '../support/faulty-store.js';
import { renewalGroupsOf } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

describe('a hold', () => {
  it('is renewed as long as it lasts', async () => {
    const { clock, locks, memory } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(60_000);
    expect(lock.expiresInMs).toBeGreaterThan(1_000);
    expect(await memory.inspect(KEY)).toMatchObject({ token: lock.fencingToken });
    expect(await lock.release()).toBe(true);
  });

  it.each([
    [1_000, 1],
    [2_000, 0],
  ])('with maxHoldMs: 1000 and ttlMs: %i is held that long, with %i renewals', async (ttlMs, renewals) => {
    const { clock, locks, store, stranger } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs, maxHoldMs: 1_000 });
    await clock.advance(999);
    lock.assertHeld();
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(1);
    expect(() => lock.assertHeld()).toThrow(/maxHoldMs \(1000\) has elapsed/);
    expect(await stranger.take(KEY)).toBe(true);
    expect(store.extendBatches).toHaveLength(renewals);
  });

  it('excludes others until minHoldMs, and its caller does not wait', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    const next = locks.acquire('goods:300');
    await clock.advance(390);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(20);
    expect((await next).key).toBe(KEY);
  });

  it('is free after minHoldMs even if its process ends at once', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 600_000 });
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    await locks.engine.close(0);
    expect(await stranger.take(KEY)).toBe(false);
    clock.jump(401);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is renewed without a hot loop if its lease is short', async () => {
    const { clock, locks, store } = faultyLocks();
    await locks.acquire('goods:300', { ttlMs: 50 });
    await clock.advance(1_000);
    expect(store.extendBatches.length).toBeGreaterThan(40);
    expect(store.extendBatches.length).toBeLessThan(80);
  });

  it('keeps the lease that extend() sets', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 1_000 });
    await lock.extend(60_000);
    expect(lock.expiresInMs).toBeGreaterThan(59_000);
    await clock.advance(30_000);
    expect(lock.expiresInMs).toBeGreaterThan(45_000);
    await expect(lock.extend(1)).rejects.toBeInstanceOf(LockConfigError);
  });

  it('is released once if release() is called twice', async () => {
    const { locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    expect(await Promise.all([lock.release(), lock.release()])).toEqual([true, true]);
    expect(store.releases).toHaveLength(1);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(lock.expiresInMs).toBe(0);
  });
});

describe('a lease that extend() would shorten', () => {
  it('is renewed when it is due, without a hot loop', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 900 });
    await lock.extend(50);
    await clock.advance(800);
    expect(store.extendBatches.length).toBeLessThan(3);
    await clock.advance(1_000);
    lock.assertHeld();
    expect(store.extendBatches.length).toBeLessThan(80);
  });
});

describe('the renewals of an instance', () => {
  it('keep no group of thousands of released holds with maxHoldMs', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    for (let i = 0; i < 3_000; i += 1) {
      const lock = await locks.acquire(`goods:${i}`, { maxHoldMs: 20_000 });
      clock.jump(1);
      await lock.release();
    }
    expect(renewalGroupsOf(locks)).toBeLessThan(5);
  });

  it('have one group for a hold that is extended again and again', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300');
    for (let ttlMs = 30_000; ttlMs < 80_000; ttlMs += 1_000) {
      await lock.extend(ttlMs);
      clock.jump(10);
    }
    expect(renewalGroupsOf(locks)).toBe(1);
  });

  it('are those of the held ones of a thousand locks, in batches of 250 and by one timer', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    const all = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    expect(renewalGroupsOf(locks)).toBe(1);
    // The other timer is that of the timeouts of requests.
    expect(clock.pending).toBe(2);
    await Promise.all(all.slice(0, 400).map((lock) => lock.release()));
    await clock.advance(10_001);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([250, 250, 100]);
    expect(all.slice(400).every((lock) => lock.expiresInMs > 28_000)).toBe(true);
    expect(renewalGroupsOf(locks)).toBe(1);
  });

  it.each([{}, { lockDelayMs: 1_000 }])('are one batch for each server, with %j', async (options) => {
    const clock = new ManualClock();
    const store = new FaultyStore(new MemoryStore(clock));
    store.serverOf = (key) => (key.endsWith('9') ? undefined : `server${Number(key.at(-1)) % 2}`);
    const locks = createTestLocks({ clock, store: () => store, ttlMs: 30_000, ...options });
    for (const id of [1, 2, 3, 4, 9]) await locks.acquire(`goods:${id}`);
    await clock.advance(10_001);
    const ids = store.extendBatches.map((batch) => batch.map(({ key }) => Number(key.at(-1))));
    expect(ids).toEqual([[1, 3], [2, 4], [9]]);
  });
});

const lockKey = (id: number): string => `{lock_goods}:${id}`;

describe('all locks', () => {
  const heldLocks = async (count: number) => {
    const all = faultyLocks({ ttlMs: 30_000 });
    const held: Lock[] = [];
    for (let id = 0; id < count; id += 1) held.push(await all.locks.acquire(`goods:${id}`));
    return { ...all, held, signals: held.map(({ signal }) => signal) };
  };

  it('are renewed at once after a reconnect, and lost ones are known', async () => {
    const { clock, stranger, store, signals, held } = await heldLocks(3);
    await clock.advance(1_000);
    await stranger.steal(lockKey(1));
    store.reconnect();
    await clock.advance(0);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true, false]);
    expect(signals[1].reason).toBeInstanceOf(LockLostError);
    expect(held[0].expiresInMs).toBeGreaterThan(29_600);
  });

  it('are renewed after a reconnect, although a renewal is in flight', async () => {
    const { clock, stranger, store, signals } = await heldLocks(1);
    store.hold('extend');
    await clock.advance(10_000);
    await stranger.steal(lockKey(0));
    store.disconnect();
    // What is held back was lost with the connection.
    store.fail('extend');
    store.reconnect();
    expect(store.extendBatches).toHaveLength(2);
    store.deliver('extend');
    await clock.advance(0);
    expect(signals[0].aborted).toBe(true);
  });

  it('are renewed in batches of 250, one a turn of the event loop', async () => {
    const { clock, store } = await heldLocks(1_010);
    store.reconnect();
    const sizes = (): readonly number[] => store.extendBatches.map((batch) => batch.length);
    expect(sizes()).toEqual([250]);
    await clock.advance(0);
    expect(sizes()).toEqual([250, 250, 250, 250, 10]);
  });

  it('of other servers are not renewed', async () => {
    const { clock, store } = await heldLocks(3);
    store.reconnect((key) => key !== lockKey(1));
    await clock.advance(0);
    expect(store.extendBatches.flat().map(({ key }) => key)).toEqual([lockKey(0), lockKey(2)]);
  });

  it('are renewed if the wall clock is set forward, as after a snapshot', async () => {
    const { clock, stranger, signals } = await heldLocks(2);
    await clock.advance(1_000);
    // The leases ended while the clocks of this machine stood still.
    await stranger.steal(lockKey(0));
    clock.setWallTime(clock.wallTime() + 60_000);
    await clock.advance(100);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('are not renewed if the wall clock is set back', async () => {
    const { clock, store } = await heldLocks(2);
    clock.setWallTime(clock.wallTime() - 60_000);
    await clock.advance(1_000);
    expect(store.extendBatches).toEqual([]);
  });
});

describe('a lock whose lease ends with maxHoldMs', () => {
  it('is checked after a reconnect, and its lease does not grow', async () => {
    const { clock, locks, memory, store } = faultyLocks({ ttlMs: 30_000, maxHoldMs: 20_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(10_000);
    const before = [lock.expiresInMs, (await memory.inspect(KEY))?.remainingMs];
    store.reconnect();
    await clock.advance(0);
    expect(store.extendBatches).toHaveLength(1);
    expect([lock.expiresInMs, (await memory.inspect(KEY))?.remainingMs]).toEqual(before);
  });
});

describe('a lost hold', () => {
  it('is noticed at the next renewal if another client took the key', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    const { signal } = lock;
    await stranger.steal(KEY);
    await clock.advance(1_000);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    expect(await stranger.leave(KEY)).toBe(true);
  });

  it('aborts the signals of its callers before its release is sent', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const { signal } = await locks.acquire('goods:300');
    let releasesBefore: number | undefined;
    signal.addEventListener('abort', () => (releasesBefore = store.releases.length));
    store.hold('extend');
    await clock.advance(3_000);
    expect([releasesBefore, store.releases.length]).toEqual([0, 1]);
  });

  it('is not declared before the deadline if renewals get no reply', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    store.fail('extend', new Error('no reply'));
    await clock.advance(2_900);
    expect(() => lock.assertHeld()).not.toThrow();
    store.fail('extend');
    await clock.advance(10_000);
    expect(() => lock.assertHeld()).not.toThrow();
  });

  it('is declared at the deadline, whatever the store replies later', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    store.hold('extend');
    await clock.advance(2_967);
    expect(() => lock.assertHeld()).not.toThrow();
    await clock.advance(2);
    expect(lock.signal.aborted).toBe(true);
    store.deliver('extend');
    await clock.advance(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  it("throws LockLostError with the work's error as the cause", async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const work = deferred();
    const using = locks.using('goods:300', () => work.promise);
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    const failure = new Error('no stock');
    work.reject(failure);
    await expect(using).rejects.toMatchObject({ code: 'LOCK_LOST', cause: failure });
  });
});

describe('a listener of a loss', () => {
  it('may release any other lock, which is no longer watched', async () => {
    const { clock, locks } = faultyLocks({ maxHoldMs: 100 });
    const [one, other] = await Promise.all([locks.acquire('a'), locks.acquire('b')]);
    one.signal.addEventListener('abort', () => void other.release());
    await clock.advance(10_000);
    expect(clock.pending).toBe(0);
    const closing = locks.engine.close(60_000);
    await clock.advance(0);
    await closing;
  });
});
