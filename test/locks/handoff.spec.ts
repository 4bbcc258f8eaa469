import { describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY, queuedLocks as queued } from '../support/locks.js';
import { RecordingClock } from '../support/recording-clock.js';

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

  it('keep no process alive until the end of minHoldMs', async () => {
    const clock = new RecordingClock();
    const { locks } = faultyLocks({}, undefined, undefined, clock);
    await locks.using('goods:300', { minHoldMs: 86_400_000 }, () => undefined);
    const untilThen = clock.scheduled.filter(({ delayMs }) => delayMs > 86_000_000);
    expect(untilThen.map(({ background }) => background)).toEqual([true]);
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

describe('a handoff before the acquire reply', () => {
  it('grants the lock at once, and the late reply changes nothing', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    const lock = waiting.value as Lock;
    lock.assertHeld();
    store.deliver('acquire');
    await clock.advance(1_500);
    lock.assertHeld();
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(0);
  });

  it('lets the next request be sent while one reply is missing, and only one', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    store.hold('acquire');
    for (const asks of [1, 2]) {
      await stranger.take(KEY);
      const ahead = outcome(locks.acquire('goods:300'));
      await clock.advance(0);
      expect(store.acquires).toHaveLength(asks);
      await stranger.leave(KEY);
      await clock.advance(0);
      await (ahead.value as Lock).release();
    }
    const third = outcome(locks.acquire('goods:300'));
    await clock.advance(100);
    expect(store.acquires).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    (third.value as Lock).assertHeld();
    expect(store.acquires).toHaveLength(3);
    await (third.value as Lock).release();
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('does not end the wait for a request that was given up later', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    const first = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    await first.value?.release();
    store.delay('acquire');
    const abort = new AbortController();
    outcome(locks.acquire('goods:300', { signal: abort.signal }));
    await clock.advance(0);
    abort.abort();
    const third = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    // The late reply to the request of the first caller.
    store.deliver('acquire');
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    store.arrive('acquire');
    await clock.advance(0);
    (third.value as Lock).assertHeld();
    expect(store.acquires).toHaveLength(3);
  });

  it('has its late grant released, even if another attempt waits for a late reply', async () => {
    const { clock, memory, locks, store } = faultyLocks();
    store.delay('acquire');
    const first = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    const [{ owner }] = store.acquires;
    const grantedAt = clock.now();
    store.reportHandoff({ owner, keys: [KEY], mode: 'exclusive', token: 1, tokens: 1, leaseMs: 3_000, grantedAt });
    await clock.advance(0);
    await first.value?.release();
    const abort = new AbortController();
    outcome(locks.acquire('goods:300', { signal: abort.signal }));
    await clock.advance(0);
    abort.abort();
    expect(store.acquires).toHaveLength(2);
    store.arrive('acquire');
    await clock.advance(0);
    expect(store.releases.filter((release) => release.owner === owner)).toHaveLength(2);
    expect(await memory.inspect(KEY)).toBeNull();
  });

  it('is not used if its age is unknown, and the reply decides', async () => {
    const { clock, locks, store, stranger, neighbour } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    store.hold('handoff');
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    store.reportHandoff({ ...store.handoffs[0], grantedAt: undefined });
    await clock.advance(100);
    expect(waiting).toEqual({});
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(store.acquires).toHaveLength(2);
    expect(store.acquires[1].owner).toBe(store.acquires[0].owner);
  });
});

describe('a handoff in the queue', () => {
  it('is not used if its age is unknown, and the same owner requests at once', async () => {
    const { clock, stranger, store, waiting, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    store.hold('acquire');
    store.reportHandoff({ ...store.handoffs[0], grantedAt: undefined });
    await clock.advance(10);
    expect(waiting).toEqual({});
    expect(store.acquires).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('is not used after its lease, and the same owner requests and waits on', async () => {
    const { clock, stranger, store, waiting, holder, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    // The process was suspended for longer than its lease.
    clock.jump(3_000);
    await stranger.take(KEY);
    store.deliver('handoff');
    await clock.advance(100);
    expect(waiting).toEqual({});
    expect(await holder()).toBe('stranger');
    expect(store.acquires).toHaveLength(2);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('has an unknown age if a server whose clock was set dates it in the future', async () => {
    const { clock, stranger, store, waiting, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    store.hold('acquire');
    store.reportHandoff({ ...store.handoffs[0], grantedAt: clock.now() + 10_000 });
    await clock.advance(10);
    expect(waiting).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('is confirmed by a request if it is read just after its local deadline', async () => {
    const { clock, stranger, store, holder, lock, locks } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    // Still held in the store, but past the local deadline.
    clock.jump(2_975);
    expect(await holder()).toBe(locks.engine.instanceId);
    store.deliver('handoff');
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    expect(lock().expiresInMs).toBeGreaterThan(29_000);
  });
});

describe('a handoff to a line that has left the queue', () => {
  it('is released, even if the release that left the queue was lost', async () => {
    const { clock, stranger, store, abort, holder, locks } = await queued({ ttlMs: 1_000 });
    store.hold('handoff');
    store.lose('release', new LockUnavailableError('down'));
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(2_500);
    expect(await holder()).toBe(locks.engine.instanceId);
    store.lose('release');
    store.deliver('handoff');
    await clock.advance(0);
    expect(await holder()).toBeUndefined();
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  it('is released, and does not disturb a newer attempt', async () => {
    const { clock, locks, store, stranger, neighbour } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    store.hold('handoff');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(500);
    // The handoff goes to the first attempt, which is cancelled before the handoff is received.
    await stranger.leave(KEY);
    await clock.advance(500);
    await stranger.take(KEY);
    store.deliver('acquire');
    await clock.advance(500);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(2);
    const released = store.releases.length;
    store.deliver('handoff');
    await clock.advance(0);
    expect(store.releases.slice(released)).toMatchObject([{ owner: store.acquires[0].owner }]);
    expect(waiting).toEqual({});
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
  });
});

describe('a handoff to an owner that a reply has granted the lock', () => {
  it('is ignored, although its caller is the only one of the key', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    const { owner } = store.acquires[0];
    const handoff = { keys: [KEY], owner, mode: 'exclusive', token: 1, tokens: 1, leaseMs: 250 } as const;
    store.reportHandoff({ ...handoff, grantedAt: clock.now() });
    await clock.advance(0);
    expect(store.releases).toHaveLength(0);
    expect(await lock.release()).toBe(true);
  });
});

describe('a late duplicate of a handoff', () => {
  it('is ignored during the hold', async () => {
    const { clock, stranger, store, lock } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    store.reportHandoff(store.handoffs[0]);
    await clock.advance(1_000);
    lock().assertHeld();
    expect(store.releases).toHaveLength(0);
    expect(await lock().release()).toBe(true);
  });

  it('has no effect on the next holder', async () => {
    const { clock, stranger, store, lock, holder, locks } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    await stranger.take(KEY);
    store.reportHandoff(store.handoffs[0]);
    await clock.advance(0);
    expect(await holder()).toBe('stranger');
    await stranger.leave(KEY);
    const own = await locks.acquire('goods:300');
    store.reportHandoff(store.handoffs[0]);
    await clock.advance(0);
    own.assertHeld();
    expect(await holder()).toBe(locks.engine.instanceId);
    expect(await stranger.take(KEY)).toBe(false);
  });

  it('grants nothing to later waiters', async () => {
    const { clock, stranger, store, lock, holder, locks } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    await stranger.take(KEY);
    const next = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    store.reportHandoff(store.handoffs[0]);
    await clock.advance(100);
    expect(next).toEqual({});
    expect(await holder()).toBe('stranger');
  });
});

describe('an acquire request that runs after its own release', () => {
  it('is released if it is granted, even after a handoff in between', async () => {
    const { clock, stranger, store, lock, holder } = await queued();
    store.delay('acquire');
    store.reportSubscribed();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    expect(await holder()).toBeUndefined();
    store.arrive('acquire');
    await clock.advance(0);
    expect(await holder()).toBeUndefined();
  });

  it('leaves the queue again if it joins it', async () => {
    const { clock, stranger, store, abort, holder } = await queued();
    store.delay('acquire');
    store.reportSubscribed();
    await clock.advance(0);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    store.arrive('acquire');
    await clock.advance(0);
    await stranger.leave(KEY);
    expect(await holder()).toBeUndefined();
  });
});
