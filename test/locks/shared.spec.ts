import { describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockConfigError,
  LockLostError,
  type LockOptions,
  LockReentryError,
  type LockService,
  LockTimeoutError,
} from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import type { LockStore } from '../../lib/contract/store.js';
import { outcome } from '../support/async.js';
import { keptBy } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

const shared = { mode: 'shared' } as const;

describe('shared locks', () => {
  it('are held at once, in one instance and in several, each of which has a token', async () => {
    const { locks, neighbour } = faultyLocks();
    const [one, two, three] = await Promise.all([
      locks.acquire('goods:300', shared),
      locks.acquire('goods:300', shared),
      neighbour().locks.acquire('goods:300', shared),
    ]);
    expect(two.fencingToken).toBe(one.fencingToken);
    expect(three.fencingToken).not.toBe(one.fencingToken);
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    for (const lock of [one, two, three]) expect(await lock.release()).toBe(true);
    expect(await (await locks.acquire('goods:300', { waitMs: 0 })).release()).toBe(true);
  });

  it('are granted together after a writer that waited before them, in strict order', async () => {
    const { locks, neighbour, clock } = faultyLocks({ fairness: 'strict' });
    const reader = await locks.acquire('goods:300', shared);
    const writer = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(0);
    const later = [locks, locks, neighbour().locks].map((one) => outcome(one.acquire('goods:300', shared)));
    await clock.advance(0);
    expect([writer, ...later].map(({ value }) => value)).toEqual([undefined, undefined, undefined, undefined]);
    await reader.release();
    await clock.advance(0);
    expect(later.map(({ value }) => value)).toEqual([undefined, undefined, undefined]);
    await writer.value?.release();
    await clock.advance(0);
    for (const { value } of later) expect(await value?.release()).toBe(true);
  });

  it('give a writer that times out the longest remaining lease, and stay shared', async () => {
    const { locks, clock } = faultyLocks();
    await locks.acquire('goods:300', { ...shared, ttlMs: 10_000 });
    const writer = outcome(locks.acquire('goods:300', { waitMs: 2_000 }));
    await clock.advance(2_000);
    expect(writer.error).toBeInstanceOf(LockTimeoutError);
    expect((writer.error as LockTimeoutError).remainingMs).toBe(8_000);
    // The writer has left the queue, so a reader is granted.
    expect(await locks.tryAcquire('goods:300', shared)).not.toBeNull();
  });
});

it('are inspected with all holders and all waiters', async () => {
  const { locks, neighbour, clock } = faultyLocks();
  await locks.acquire('goods:300', { permits: 2, ttlMs: 10_000 });
  await neighbour().locks.acquire('goods:300', { permits: 2, ttlMs: 20_000 });
  outcome(locks.acquire('goods:300'));
  outcome(neighbour().locks.acquire('goods:300', { permits: 2 }));
  await clock.advance(0);
  const info = await locks.inspect('goods:300');
  expect(info).toMatchObject({ resource: 'goods:300', mode: 'shared', permits: 2, isOwn: true, expiresInMs: 10_000 });
  expect(info?.others).toMatchObject([{ isOwn: false, expiresInMs: 20_000 }]);
  expect(info?.waiting).toMatchObject([
    { isOwn: true, mode: 'exclusive', permits: undefined },
    { isOwn: false, mode: 'shared', permits: 2 },
  ]);
});

describe('inside a hold', () => {
  it('an exclusive holder may share, and a shared holder may share again', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', async (outer) => {
      const inner = await locks.acquire('goods:300', shared);
      expect(inner.fencingToken).toBe(outer.fencingToken);
      await inner.release();
    });
    await locks.using('goods:300', shared, () => locks.using('goods:300', shared, () => undefined));
    expect(store.acquires).toHaveLength(2);
  });

  it('a shared lock cannot be upgraded: LockReentryError at once', async () => {
    const { locks } = faultyLocks();
    const upgrade = locks.using('goods:300', shared, () => locks.acquire('goods:300'));
    await expect(upgrade).rejects.toThrow(LockReentryError);
    await expect(upgrade).rejects.toThrow(/goods:300 .* shared, which does not cover exclusive/);
    expect(await locks.inspect('goods:300')).toBeNull();
  });
});

describe('permits', () => {
  it.each([5, 1])('of another number are refused at once, with both numbers: %i', async (permits) => {
    const { clock, locks } = faultyLocks();
    for (let held = 0; held < 2; held += 1) await locks.acquire('goods:300', { permits: 3 });
    const other = outcome(locks.acquire('goods:300', { permits, waitMs: 60_000 }));
    await clock.advance(0);
    expect(other.error).toBeInstanceOf(LockConfigError);
    const message = `goods:300 is held with one of 3 permits, and one of ${permits} was requested`;
    expect((other.error as Error).message).toContain(message);
  });

  it('of another number are refused at the head of the queue, and block no entry', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    const writer = await locks.acquire('goods:300');
    const waiting = [3, 5, 3].map((permits) => outcome(neighbour().locks.acquire('goods:300', { permits })));
    await clock.advance(0);
    await writer.release();
    await clock.advance(0);
    const [one, other, behind] = waiting;
    expect(other.error).toBeInstanceOf(LockConfigError);
    for (const { value } of [one, behind]) expect(await value?.release()).toBe(true);
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it.each([0, 1.5, -1, Infinity, 2_000_000])('must be a whole number: not %s', async (permits) => {
    await expect(faultyLocks().locks.acquire('goods:300', { permits })).rejects.toThrow(/permits is .*; expected/);
  });
});

describe('a store without the mode', () => {
  const locksOn = (declared: Partial<LockStore['capabilities']>) => {
    const { locks, store } = faultyLocks();
    const less = { ...store.capabilities, ...declared };
    const plain = Object.create(store, { capabilities: { value: less } }) as LockStore;
    return { locks, without: createTestLocks({ clock: new ManualClock(), store: () => plain }) };
  };

  it('gets no request, and the error names the store', async () => {
    const { locks, without } = locksOn({ name: 'plain()', modes: ['exclusive'] });
    await expect(without.acquire('goods:300', shared)).rejects.toThrow(
      new LockConfigError('mode: plain() does not support shared; use exclusive.', { resource: 'goods:300' }),
    );
    expect(await locks.tryAcquire('goods:300', shared)).not.toBeNull();
  });
});

type Outcome<T> = ReturnType<typeof outcome<T>>;

/** Lets that many callers request the lock. */
function request(locks: LockService, count: number, options: LockOptions = shared): Outcome<Lock>[] {
  return Array.from({ length: count }, () => outcome(locks.acquire('goods:300', { waitMs: 60_000, ...options })));
}

const granted = (callers: readonly Outcome<Lock>[]): number => callers.filter(({ value }) => value).length;

async function release(callers: readonly Outcome<Lock>[]): Promise<(boolean | undefined)[]> {
  return Promise.all(callers.map(async ({ value }) => value?.release()));
}

describe('the readers of one instance', () => {
  it('get the lock by one request and end it by one release if they come together', async () => {
    const { locks, store, clock } = faultyLocks();
    const readers = request(locks, 100);
    await clock.advance(0);
    expect([granted(readers), store.acquires.length]).toEqual([100, 1]);
    const [last, ...others] = readers;
    expect(await release(others)).toEqual(others.map(() => true));
    expect(store.releases).toHaveLength(0);
    expect(await release([last])).toEqual([true]);
    expect(store.releases).toHaveLength(1);
    expect(keptBy(locks)).toBe(0);
  });

  it('have one place in the queue behind a writer, and get the lock together', async () => {
    const { locks, neighbour, memory, store, clock } = faultyLocks();
    const writer = await neighbour().locks.acquire('goods:300');
    const readers = request(locks, 50);
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await writer.release();
    await clock.advance(0);
    // The handoff had a short lease. One more request of the same owner gets the full lease for all.
    expect([granted(readers), store.acquires.length, store.extendBatches.length]).toEqual([50, 2, 0]);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(1);
    for (const { value } of readers) expect(value?.expiresInMs).toBeGreaterThan(29_000);
  });

  it.each([
    ['as often as maxLocalPasses allows', { maxLocalPasses: 3 }, 3, 0],
    ['for as long as maxLocalHoldMs allows', {}, 1, 49],
  ])('join those that have the lock, %s', async (_how, passing, count, afterMs) => {
    const { locks, store, clock } = faultyLocks({ passing });
    await locks.acquire('goods:300', shared);
    await clock.advance(afterMs);
    const early = request(locks, count);
    await clock.advance(1);
    const late = request(locks, 1);
    await clock.advance(0);
    expect([granted(early), granted(late), store.acquires.length]).toEqual([count, 1, 2]);
  });

  it('let a writer of another instance in, although further ones come all the time', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    let readers = request(locks, 2);
    await clock.advance(0);
    const writer = outcome(neighbour().locks.acquire('goods:300'));
    for (let ms = 0; ms < 200 && writer.value === undefined; ms += 5) {
      const next = request(locks, 2);
      await clock.advance(5);
      await release(readers);
      readers = next;
    }
    expect(writer.value).toBeDefined();
    expect(granted(readers)).toBe(0);
    await writer.value?.release();
    await clock.advance(0);
    expect(await release(readers)).toEqual([true, true]);
  });

  it('have one place in strict order as well, and none that comes later joins them', async () => {
    const { locks, memory, neighbour, store, clock } = faultyLocks({ fairness: 'strict' });
    const writer = await neighbour().locks.acquire('goods:300');
    const readers = request(locks, 3);
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await writer.release();
    await clock.advance(0);
    expect([granted(readers), store.acquires.length]).toEqual([3, 2]);
    const [late] = request(locks, 1);
    await clock.advance(0);
    expect([granted([late]), store.acquires.length]).toEqual([1, 3]);
    expect(await release([...readers, late])).toEqual([true, true, true, true]);
    expect(await memory.inspect(KEY)).toBeNull();
  });

  it('have one owner, which gets the longest of their leases', async () => {
    const { locks, store, clock } = faultyLocks();
    const short = request(locks, 3);
    const long = request(locks, 3, { ...shared, ttlMs: 60_000 });
    await clock.advance(0);
    expect(store.acquires.map(({ leaseMs }) => leaseMs)).toEqual([30_000]);
    expect(store.extendBatches.flat().map(({ leaseMs }) => leaseMs)).toEqual([60_000]);
    expect(granted([...short, ...long])).toBe(6);
    for (const { value } of [...short, ...long]) expect(value?.expiresInMs).toBeGreaterThan(59_000);
  });

  it('keep the lock if one of them loses it', async () => {
    const { locks, store, clock } = faultyLocks();
    const [one, other] = [
      await locks.acquire('goods:300', { ...shared, maxHoldMs: 30_000 }),
      await locks.acquire('goods:300', shared),
    ];
    await clock.advance(30_000);
    expect(one.signal.reason).toBeInstanceOf(LockLostError);
    other.assertHeld();
    expect([await one.release(), store.releases.length]).toEqual([false, 0]);
    expect([await other.release(), store.releases.length]).toEqual([true, 1]);
  });

  it('learn of its loss together, and do not join it after that', async () => {
    const { locks, memory, store, clock } = faultyLocks();
    const [one, other] = await Promise.all([locks.acquire('goods:300', shared), locks.acquire('goods:300', shared)]);
    memory.table.rows.delete(KEY);
    await expect(one.extend()).rejects.toThrow(LockLostError);
    expect(() => other.assertHeld()).toThrow(LockLostError);
    request(locks, 1);
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
  });

  it('repeat a failed release for as long as the longest of their leases', async () => {
    const { locks, store, clock } = faultyLocks();
    const [one, other] = await Promise.all([locks.acquire('goods:300', shared), locks.acquire('goods:300', shared)]);
    await one.extend(300_000);
    await one.release();
    store.lose('release', new Error('no connection'));
    await expect(other.release()).rejects.toThrow('no connection');
    await clock.advance(200_000);
    const { length } = store.releases;
    await clock.advance(10_000);
    expect(store.releases.length).toBeGreaterThan(length);
  });

  it('keep the lock closed for minHoldMs, in any order of their ends', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    const [long, short] = [
      await locks.acquire('goods:300', { ...shared, minHoldMs: 1_000 }),
      await locks.acquire('goods:300', shared),
    ];
    await long.release();
    await short.release();
    const writer = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(1_000);
    expect(writer.value).toBeUndefined();
    await clock.advance(10);
    expect(await writer.value?.release()).toBe(true);
    expect(keptBy(locks)).toBe(0);
  });
});

describe('the permits of one instance', () => {
  const permits = { permits: 3 };

  it('are requested all at once, and no more than there are', async () => {
    const { locks, store, clock } = faultyLocks();
    const callers = request(locks, 10, permits);
    await clock.advance(0);
    expect([granted(callers), store.acquires.length]).toEqual([3, 3]);
  });

  it('are passed on to waiting callers without a request, within the limits', async () => {
    const { locks, store, clock } = faultyLocks({ passing: { maxLocalPasses: 2 } });
    const callers = request(locks, 9, permits);
    await clock.advance(0);
    for (let i = 0; i < 9; i += 3) {
      expect(granted(callers)).toBe(i + 3);
      expect(await release(callers.slice(i, i + 3))).toEqual([true, true, true]);
      await clock.advance(0);
    }
    expect([store.acquires.length, store.releases.length]).toEqual([3, 3]);
    expect(keptBy(locks)).toBe(0);
  });

  it('have one place in the queue if others hold the rest', async () => {
    const { locks, memory, neighbour, clock } = faultyLocks();
    const others = request(neighbour().locks, 3, permits);
    await clock.advance(0);
    const callers = request(locks, 1, permits);
    await clock.advance(0);
    callers.push(...request(locks, 9, permits));
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await release(others);
    await clock.advance(0);
    // All permits that are free go to the callers that wait.
    expect(granted(callers)).toBe(3);
    for (let i = 0; i < 10; i += 1) {
      expect(granted(callers)).toBeGreaterThan(i);
      await callers[i].value?.release();
      await clock.advance(0);
    }
    expect(await locks.inspect('goods:300')).toBeNull();
    expect(keptBy(locks)).toBe(0);
  });

  it('name this instance in the error if it holds all of them', async () => {
    const { locks, clock } = faultyLocks();
    request(locks, 3, permits);
    await clock.advance(0);
    const [late] = request(locks, 1, { ...permits, waitMs: 100 });
    await clock.advance(100);
    expect(late.error).toMatchObject({ code: 'LOCK_TIMEOUT', isOwn: true, holderCount: 3 });
  });
});

it('a reader that comes while a loss is reported does not join the lost share', async () => {
  const { locks, memory, store, clock } = faultyLocks();
  const lost = await locks.acquire('goods:300', shared);
  lost.signal.addEventListener('abort', () => void locks.acquire('goods:300', shared));
  memory.table.rows.delete(KEY);
  store.reconnect();
  await clock.advance(0);
  expect(store.acquires).toHaveLength(2);
  expect(await memory.inspect(KEY)).not.toBeNull();
});
