import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { describePlace, LeakedHandles } from '../../lib/core/hold/leaked-handles.js';
import { faultyLocks, KEY, queuedLocks } from '../support/locks.js';

const { FinalizationRegistry, WeakRef } = globalThis;

/** Counts handles, and collects them when a test says so. `leaked-handles.slow.spec.ts` has a collector. */
class CountedHandles {
  static registered = 0;
  static readonly tokens = new Map<unknown, (hold: unknown) => void>();

  /** Collects all handles that are registered. */
  static collect(): void {
    const all = [...this.tokens];
    this.tokens.clear();
    for (const [hold, onCollected] of all) onCollected(hold);
  }

  constructor(private readonly onCollected: (hold: unknown) => void) {}

  register(_handle: unknown, _hold: unknown, token: unknown): void {
    CountedHandles.registered += 1;
    CountedHandles.tokens.set(token, this.onCollected);
  }

  unregister(token: unknown): boolean {
    return CountedHandles.tokens.delete(token);
  }
}

/** A reference to a handle that was collected. */
class EmptyRef {
  deref(): undefined {
    return undefined;
  }
}

/** How many handles were registered, and how many of them are still. */
const counts = (): readonly number[] => [CountedHandles.registered, CountedHandles.tokens.size];

describe('the search for handles that nobody releases', () => {
  beforeEach(() => {
    CountedHandles.registered = 0;
    CountedHandles.tokens.clear();
    Object.assign(globalThis, { FinalizationRegistry: CountedHandles });
  });

  afterEach(() => {
    Object.assign(globalThis, { FinalizationRegistry, WeakRef });
    jest.restoreAllMocks();
  });

  it('never registers a handle that is released before its first renewal', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    const all = [await locks.acquire('goods:300'), await locks.acquire(['goods:301', 'shop:1'])];
    const free = await locks.tryAcquire('goods:302');
    await clock.advance(8_000);
    for (const lock of [...all, free]) await lock?.release();
    await clock.advance(60_000);
    expect(store.extendBatches).toEqual([]);
    expect(counts()).toEqual([0, 0]);
  });

  it('registers each handle once, at its first renewal, until its release', async () => {
    const { clock, locks, memory } = faultyLocks({ ttlMs: 30_000 });
    const one = await locks.acquire('goods:300');
    const list = await locks.acquire(['goods:301', 'goods:302']);
    await clock.advance(60_000);
    expect(counts()).toEqual([3, 3]);
    expect(await one.release()).toBe(true);
    expect(await memory.inspect(KEY)).toBeNull();
    expect(await list.release()).toBe(true);
    expect(counts()).toEqual([3, 0]);
    expect(locks.local().holds).toEqual([]);
  });

  it('registers no handle of work and none whose lock ends by itself', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    await locks.acquire('goods:301', { renew: false });
    await locks.using('goods:300', () => clock.advance(60_000));
    expect(counts()).toEqual([0, 0]);
  });

  it('registers a nested handle at the next renewal', async () => {
    const { clock, locks, memory } = faultyLocks({ ttlMs: 30_000 });
    const nested = await locks.using('goods:300', async () => {
      await clock.advance(11_000);
      const lock = await locks.acquire('goods:300');
      expect(counts()).toEqual([0, 0]);
      return lock;
    });
    await clock.advance(10_000);
    expect(counts()).toEqual([1, 1]);
    await nested.release();
    expect(counts()).toEqual([1, 0]);
    expect(await memory.inspect(KEY)).toBeNull();
  });

  it('does not count the renewal at once of a lock that was handed off', async () => {
    const { clock, lock, stranger, store } = await queuedLocks();
    await stranger.leave(KEY);
    await clock.advance(1_000);
    expect(store.extendBatches).toHaveLength(1);
    expect(counts()).toEqual([0, 0]);
    await clock.advance(10_000);
    expect(counts()).toEqual([1, 1]);
    await lock().release();
    expect(counts()).toEqual([1, 0]);
  });

  it.each(['before', 'after'])('reports a loss to a handle whose signal was read %s that', async (moment) => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    // So only a handle that is kept receives the loss.
    Object.assign(globalThis, { WeakRef: EmptyRef });
    const lock = await locks.acquire('goods:300');
    const early = moment === 'before' ? lock.signal : undefined;
    await clock.advance(11_000);
    const signal = early ?? lock.signal;
    expect(counts()).toEqual([1, 1]);
    await locks.forceRelease('goods:300');
    await clock.advance(0);
    expect(signal.aborted).toBe(true);
    expect(() => lock.assertHeld()).toThrow('The lock on goods:300 was lost');
    expect(await lock.release()).toBe(false);
    expect(counts()).toEqual([1, 0]);
  });

  it('logs ten that were collected in a minute, says so, and releases the locks of all', async () => {
    const lines: string[] = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: string) => void lines.push(line));
    const { clock, locks } = faultyLocks({ ttlMs: 30_000, warnHeldMs: false });
    await locks.acquire('goods:300', { label: 'request 7' });
    for (let id = 301; id <= 312; id += 1) await locks.acquire(`goods:${id}`);
    await clock.advance(11_000);
    CountedHandles.collect();
    await clock.advance(0);
    expect(locks.local().holds).toEqual([]);
    const how = 'was collected by the garbage collector without release(), and the lock is released now, after 11.0 s';
    expect(lines).toHaveLength(10);
    expect(lines[0]).toContain(`The handle of the lock on goods:300 (request 7) ${how}: acquired at `);
    expect(lines[1]).toContain(`The handle of the lock on goods:301 ${how}: acquired at `);
    const ends = ' No more are logged in this minute.';
    expect(lines.filter((line) => line.endsWith(ends))).toEqual([lines[9]]);
    await locks.acquire('goods:300');
    await clock.advance(60_000);
    CountedHandles.collect();
    expect(lines).toHaveLength(11);
    expect(lines[10]).not.toContain(ends);
  });
});

describe('the place of a handle', () => {
  const { NODE_ENV } = process.env;
  const call = (leaks: LeakedHandles): string | undefined => leaks.placeOf(call);
  const known = (leaks: LeakedHandles, calls: number): number =>
    Array.from({ length: calls }, () => call(leaks)).filter((place) => place !== undefined).length;

  afterEach(() => {
    process.env['NODE_ENV'] = NODE_ENV;
  });

  it('is read for the first hundred calls of each second', async () => {
    const clock = new ManualClock();
    const leaks = new LeakedHandles(() => undefined, clock);
    expect(known(leaks, 1_000)).toBe(100);
    await clock.advance(999);
    expect(known(leaks, 1)).toBe(0);
    await clock.advance(1);
    expect(known(leaks, 1_000)).toBe(100);
    expect(call(leaks)).toBeUndefined();
    expect(describePlace(undefined)).toBe('the place is not known, because it is read for 100 calls a second only');
  });

  it('is never read in production', () => {
    process.env['NODE_ENV'] = 'production';
    expect(known(new LeakedHandles(() => undefined, new ManualClock()), 10)).toBe(0);
    expect(describePlace(undefined)).toBe('NODE_ENV is production, so the place is not known');
  });
});
