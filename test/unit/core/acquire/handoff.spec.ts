import { describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockTimeoutError } from 'nestjs-redis-lock';
import { faultyLocks, LOCKED_KEY as KEY, outcome, queuedLocks as queued } from '../../../support/locks.js';

describe('a lock that is handed over', () => {
  it('is held as soon as that is heard, without another ask', async () => {
    const { clock, stranger, store, lock } = await queued();
    await clock.advance(1_000);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
    expect(store.asks).toHaveLength(1);
    expect(store.asks[0]).toMatchObject({ queue: true, handoffMs: 3_000 });
  });

  it.each([true, false])('has its full lease soon, with renew: %s', async (renew) => {
    const { clock, stranger, store, memory, lock } = await queued({ renew });
    await stranger.leave(KEY);
    await clock.advance(100);
    expect(store.extendBatches).toHaveLength(1);
    expect(lock().expiresInMs).toBeGreaterThan(29_000);
    expect((await memory.inspect(KEY))?.remainingMs).toBeGreaterThan(29_000);
  });

  it('is believed in for no longer than its own lease until then', async () => {
    const { clock, stranger, store, lock, waiting } = await queued();
    store.hold('extend');
    await stranger.leave(KEY);
    await clock.advance(2_900);
    lock().assertHeld();
    await clock.advance(100);
    expect(() => lock().assertHeld()).toThrow(/its lease ran out/);
    expect(waiting.error).toBeUndefined();
  });

  it('is believed in for no longer than its caller wanted', async () => {
    const { clock, stranger, lock } = await queued({ ttlMs: 500, renew: false });
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(lock().expiresInMs).toBeLessThanOrEqual(500);
  });

  it('goes from instance to instance in the order in which they came, with rising tokens', async () => {
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
    expect(others.map(({ store }) => store.asks.length)).toEqual([1, 1, 1]);
  });
});

describe('the safety net', () => {
  it('finds a grant whose message was lost, with the same owner, within the hand-off lease', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(3_000);
    lock().assertHeld();
    expect(owners().size).toBe(1);
    expect(lock().expiresInMs).toBeGreaterThan(28_000);
  });

  it('asks when the holder’s lease is over: a dead holder keeps nobody waiting', async () => {
    const { clock, lock, owners } = await queued({}, 1_000);
    await clock.advance(1_000);
    expect(lock()).toBeUndefined();
    await clock.advance(12);
    lock().assertHeld();
    expect(owners().size).toBe(1);
  });

  it('keeps the place in the queue, and is no hot loop', async () => {
    const { clock, store, owners, stranger, neighbour, lock } = await queued();
    const behind = outcome(neighbour().locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(60_000);
    expect(store.asks.length).toBeLessThan(60);
    expect(store.asks.length).toBeGreaterThan(15);
    expect(owners().size).toBe(1);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
    expect(behind).toEqual({});
  });

  it('asks at once when hand-offs are heard again', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    store.relisten();
    await clock.advance(0);
    lock().assertHeld();
    expect(owners().size).toBe(1);
  });
});

describe('leaving the queue', () => {
  it.each(['a timeout', 'an abort', 'a shutdown'])('by %s leaves nobody in it', async (how) => {
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

  it('hands what was given meanwhile to the next', async () => {
    const { clock, stranger, store, abort, neighbour } = await queued();
    store.hold('handoff');
    const next = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    (next.value as Lock).assertHeld();
    store.deliver('handoff');
    await clock.advance(0);
    (next.value as Lock).assertHeld();
  });
});

describe('who does not wait', () => {
  it('never queues', async () => {
    const { locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(store.asks).toMatchObject([{ queue: false }]);
    await stranger.leave(KEY);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is refused at once beside those who wait, and costs no ask', async () => {
    const { locks, store, stranger, clock, lock } = await queued();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(store.asks).toHaveLength(1);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
  });

  it('leaves the queue to one who came behind it and does wait', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const [trying, waiting] = [outcome(locks.tryAcquire('goods:300')), outcome(locks.acquire('goods:300'))];
    await clock.advance(0);
    expect(trying.value).toBeNull();
    expect(store.asks.map(({ queue }) => queue)).toEqual([false, true]);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
  });
});

describe('minHoldMs and maxHoldMs', () => {
  it('keep a lock from those who queue until minHoldMs is over, and then hand it over', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    const next = neighbour();
    const waiting = outcome(next.locks.acquire('goods:300'));
    await clock.advance(399);
    expect(waiting).toEqual({});
    await clock.advance(20);
    (waiting.value as Lock).assertHeld();
  });

  it('hand a lock over at the end of a minHoldMs that others did not know of when they asked', async () => {
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

  it('count maxHoldMs from the hand-over', async () => {
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
