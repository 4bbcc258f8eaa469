import { describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockTimeoutError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY, queuedLocks as queued } from '../../../support/locks.js';

describe('a handoff', () => {
  it('grants the lock as soon as it is received, without another request', async () => {
    const { clock, stranger, store, lock } = await queued();
    await clock.advance(400);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
    expect(store.acquires).toHaveLength(1);
    expect(store.acquires[0]).toMatchObject({ queue: true, handoffMs: 250 });
  });

  it.each([true, false])('is extended to the full lease soon, with renew: %s', async (renew) => {
    const { clock, stranger, store, memory, lock } = await queued({ renew });
    await stranger.leave(KEY);
    await clock.advance(100);
    expect(store.extendBatches).toHaveLength(1);
    expect(lock().expiresInMs).toBeGreaterThan(29_000);
    expect((await memory.inspect(KEY))?.remainingMs).toBeGreaterThan(29_000);
  });

  it('expires with its own lease until then', async () => {
    const { clock, stranger, store, lock, waiting } = await queued();
    store.hold('extend');
    await stranger.leave(KEY);
    await clock.advance(2_900);
    lock().assertHeld();
    await clock.advance(100);
    expect(() => lock().assertHeld()).toThrow(/its lease ran out/);
    expect(waiting.error).toBeUndefined();
  });

  it("expires with the caller's ttlMs if that is shorter", async () => {
    const { clock, stranger, lock } = await queued({ ttlMs: 500, renew: false });
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(lock().expiresInMs).toBeLessThanOrEqual(500);
  });

  it('serves instances in arrival order, with rising tokens', async () => {
    const { clock, stranger, locks, neighbour, waiting } = await queued();
    const others = [neighbour(), neighbour(), neighbour()];
    const order: number[] = [];
    for (const { locks: other } of others) {
      void other.using('goods:300', { waitMs: 60_000 }, (lock) => void order.push(lock.fencingToken));
      await clock.advance(1);
    }
    await stranger.leave(KEY);
    await clock.advance(10);
    expect(order).toEqual([]);
    const first = waiting.value as Lock;
    await first.release();
    await clock.advance(10);
    expect(order).toEqual([...new Set(order)].toSorted((a, b) => a - b));
    expect(order).toHaveLength(3);
    expect(order[0]).toBeGreaterThan(first.fencingToken);
    expect(await locks.using('goods:300', (lock) => lock.fencingToken)).toBeGreaterThan(order[2]);
    expect(others.map(({ store }) => store.acquires.length)).toEqual([1, 1, 1]);
  });
});

describe('a waiter', () => {
  it('finds a handoff whose message was lost within the handoff lease', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(3_000);
    lock().assertHeld();
    expect(owners().size).toBe(1);
    expect(lock().expiresInMs).toBeGreaterThan(26_000);
  });

  it('requests again when the lease of a dead holder has expired', async () => {
    const { clock, lock, owners } = await queued({}, 1_000);
    await clock.advance(1_000);
    expect(lock()).toBeUndefined();
    await clock.advance(12);
    lock().assertHeld();
    expect(owners().size).toBe(1);
  });

  it('keeps its place in the queue, without a hot loop', async () => {
    const { clock, store, owners, stranger, neighbour, lock } = await queued();
    const behind = outcome(neighbour().locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(60_000);
    expect(store.acquires.length).toBeLessThan(130);
    expect(store.acquires.length).toBeGreaterThan(50);
    expect(owners().size).toBe(1);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
    expect(behind).toEqual({});
  });

  it('requests at once when it is subscribed again', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    store.reportSubscribed();
    await clock.advance(0);
    lock().assertHeld();
    expect(owners().size).toBe(1);
  });
});

describe('leaving the queue', () => {
  it.each(['a timeout', 'an abort', 'a shutdown'])('by %s leaves no entry', async (how) => {
    const { clock, stranger, waiting, abort, locks, holder } = await queued(how === 'a timeout' ? { waitMs: 500 } : {});
    if (how === 'an abort') abort.abort(new Error('gone home'));
    if (how === 'a shutdown') await locks.engine.close(0);
    await clock.advance(500);
    const expected = { 'a timeout': LockTimeoutError, 'an abort': Error, 'a shutdown': LockClosedError }[how];
    expect(waiting.error).toBeInstanceOf(expected);
    await stranger.leave(KEY);
    expect(await holder()).toBeUndefined();
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  it('hands a lock that was granted meanwhile to the next waiter', async () => {
    const { clock, stranger, store, abort, neighbour } = await queued();
    store.hold('handoff');
    const next = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    expect(() => (next.value as Lock).assertHeld()).not.toThrow();
    store.deliver('handoff');
    await clock.advance(0);
    expect(() => (next.value as Lock).assertHeld()).not.toThrow();
  });
});

describe('a caller with waitMs: 0', () => {
  it('never joins the queue', async () => {
    const { locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(store.acquires).toMatchObject([{ queue: false }]);
    await stranger.leave(KEY);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is refused at once beside local waiters, without a request', async () => {
    const { locks, store, stranger, clock, lock } = await queued();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(store.acquires).toHaveLength(1);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
  });

  it('does not keep a later caller that waits out of the queue', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const [trying, waiting] = [outcome(locks.tryAcquire('goods:300')), outcome(locks.acquire('goods:300'))];
    await clock.advance(0);
    expect(trying.value).toBeNull();
    expect(store.acquires.map(({ queue }) => queue)).toEqual([false, true]);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
  });
});

describe('minHoldMs and maxHoldMs', () => {
  it('delay the handoff until minHoldMs is over', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    const next = neighbour();
    const waiting = outcome(next.locks.acquire('goods:300'));
    await clock.advance(399);
    expect(waiting).toEqual({});
    await clock.advance(20);
    (waiting.value as Lock).assertHeld();
  });

  it('hand off after a minHoldMs that began after the waiters joined', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const lock = await locks.acquire('goods:300', { minHoldMs: 400 });
    const waiting = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(1);
    await lock.release();
    await clock.advance(398);
    expect(waiting).toEqual({});
    await clock.advance(20);
    (waiting.value as Lock).assertHeld();
  });

  it('count maxHoldMs from the handoff', async () => {
    const { clock, stranger, lock } = await queued({ maxHoldMs: 5_000, ttlMs: 1_000 });
    await clock.advance(20_000);
    await stranger.leave(KEY);
    await clock.advance(4_900);
    const { signal } = lock();
    expect(signal.aborted).toBe(false);
    await clock.advance(100);
    expect((signal.reason as Error).message).toContain('maxHoldMs');
    expect(await stranger.take(KEY)).toBe(true);
  });
});
