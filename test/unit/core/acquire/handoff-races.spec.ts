import { describe, expect, it } from '@jest/globals';
import { type Lock, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY, queuedLocks as queued } from '../../../support/locks.js';

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

describe('a handoff to a local lock that has left the queue', () => {
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
  it('is released if it is granted, also after a handoff in between', async () => {
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
