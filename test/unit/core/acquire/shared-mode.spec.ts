import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockLostError, LockReentryError, LockTimeoutError } from 'nestjs-redis-lock';
import type { LockStore } from 'nestjs-redis-lock/store';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

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

  it('are lost one by one', async () => {
    const { locks, store, clock } = faultyLocks();
    const one = await locks.acquire('goods:300', { ...shared, ttlMs: 1_000 });
    const two = await locks.acquire('goods:300', { ...shared, ttlMs: 60_000 });
    store.hold('extend');
    await clock.advance(1_000);
    expect(one.signal.reason).toBeInstanceOf(LockLostError);
    two.assertHeld();
    expect(await one.release()).toBe(false);
    expect(await two.release()).toBe(true);
  });

  it('give a writer that times out the longest remaining lease, and stay shared', async () => {
    const { locks, clock } = faultyLocks();
    await locks.acquire('goods:300', { ...shared, ttlMs: 10_000, renew: false });
    const writer = outcome(locks.acquire('goods:300', { waitMs: 2_000 }));
    await clock.advance(2_000);
    expect(writer.error).toBeInstanceOf(LockTimeoutError);
    expect((writer.error as LockTimeoutError).remainingMs).toBe(8_000);
    // The writer has left the queue, so a reader is granted.
    expect(await locks.tryAcquire('goods:300', shared)).not.toBeNull();
  });

  it('leave no local state if their callers give up', async () => {
    const { locks, memory, clock } = faultyLocks();
    const writer = await locks.acquire('goods:300');
    const reader = outcome(locks.acquire('goods:300', { ...shared, waitMs: 100 }));
    await clock.advance(100);
    expect(reader.error).toBeInstanceOf(LockTimeoutError);
    await writer.release();
    expect(await memory.inspect(KEY)).toBeNull();
  });

  it('are handed off to their latest owner, and leave no local state', async () => {
    const { locks, store, stranger, clock } = faultyLocks();
    await stranger.take(KEY);
    store.fail('acquire', new Error('out of order'));
    const readers = [1, 2, 3].map(() => outcome(locks.acquire('goods:300', shared)));
    await clock.advance(0);
    store.fail('acquire');
    await clock.advance(500);
    const asks = store.acquires.length;
    await stranger.leave(KEY);
    await clock.advance(0);
    for (const { value } of readers) expect(await value?.release()).toBe(true);
    expect(store.acquires).toHaveLength(asks);
    expect(locks.engine.localLocks.size).toBe(0);
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

  it('a permit is not acquired twice', async () => {
    const { locks, store } = faultyLocks();
    const permits = { permits: 2 };
    await locks.using('goods:300', permits, () => locks.using('goods:300', permits, () => undefined));
    expect(store.acquires).toHaveLength(1);
  });
});

describe('permits', () => {
  it('are granted to as many callers at once', async () => {
    const { locks, clock } = faultyLocks();
    const permits = { permits: 3 };
    const held = await Promise.all([1, 2, 3].map(() => locks.acquire('goods:300', permits)));
    const next = outcome(locks.acquire('goods:300', permits));
    await clock.advance(0);
    expect(next.value).toBeUndefined();
    await held[1].release();
    await clock.advance(0);
    expect(await next.value?.release()).toBe(true);
  });

  it('of another number are refused at once, with both numbers', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300', { permits: 3 });
    const other = locks.acquire('goods:300', { permits: 5 });
    await expect(other).rejects.toThrow(LockConfigError);
    await expect(other).rejects.toThrow(/goods:300 is held with one of 3 permits, and one of 5 was requested/);
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
    await expect(faultyLocks().locks.acquire('goods:300', { permits })).rejects.toThrow(/permits is .*; allowed is/);
  });

  it('cannot be combined with mode', async () => {
    const both = { permits: 2, mode: 'shared' } as const;
    await expect(faultyLocks().locks.acquire('goods:300', both)).rejects.toThrow(LockConfigError);
  });
});

describe('a store without the mode', () => {
  const locksOn = (declared: Partial<LockStore['capabilities']>) => {
    const { locks, store } = faultyLocks();
    const less = { ...store.capabilities, ...declared };
    const plain = Object.create(store, { capabilities: { value: less } }) as LockStore;
    return { locks, without: createTestLocks({ clock: new ManualClock(), store: plain }) };
  };

  it('gets no request, and the error names the store', async () => {
    const { locks, without } = locksOn({ name: 'plain()', modes: ['exclusive'] });
    await expect(without.acquire('goods:300', shared)).rejects.toThrow(
      new LockConfigError('mode: plain() does not lock shared; allowed is exclusive.', { resource: 'goods:300' }),
    );
    expect(await locks.tryAcquire('goods:300', shared)).not.toBeNull();
  });

  it('is exclusive if it declares no modes', async () => {
    const { without } = locksOn({ name: undefined, modes: undefined });
    await expect(without.acquire('goods:300', { permits: 2 })).rejects.toThrow(
      'permits: this store does not lock with permits; allowed is exclusive.',
    );
    expect(await without.tryAcquire('goods:300')).not.toBeNull();
  });
});
