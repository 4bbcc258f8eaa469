import { describe, expect, it } from '@jest/globals';
import { type Lock, LockUnavailableError } from 'nestjs-redis-lock';
import { faultyLocks, LOCKED_KEY as KEY, outcome, queuedLocks as queued } from '../../../support/locks.js';

describe('grant before the ask’s reply', () => {
  it('is held at once, and the late reply changes nothing', async () => {
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
    expect(store.asks).toHaveLength(1);
    expect(store.releases).toHaveLength(0);
  });

  it('does not cost the instance its next place: one answer may be behind, and only one', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    store.hold('acquire');
    for (const asks of [1, 2]) {
      await stranger.take(KEY);
      const ahead = outcome(locks.acquire('goods:300'));
      await clock.advance(0);
      expect(store.asks).toHaveLength(asks);
      await stranger.leave(KEY);
      await clock.advance(0);
      await (ahead.value as Lock).release();
    }
    const third = outcome(locks.acquire('goods:300'));
    await clock.advance(100);
    expect(store.asks).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    (third.value as Lock).assertHeld();
    expect(store.asks).toHaveLength(3);
    await (third.value as Lock).release();
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('of unknown age is not believed: the reply decides, or the same owner asks again', async () => {
    const { clock, locks, store, stranger, neighbour } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    store.hold('handoff');
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    store.tell({ ...store.handoffs[0], grantedAt: undefined });
    await clock.advance(100);
    expect(waiting).toEqual({});
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(store.asks).toHaveLength(2);
    expect(store.asks[1].owner).toBe(store.asks[0].owner);
  });
});

describe('grant while queued', () => {
  it('of unknown age is not believed: the same owner asks at once', async () => {
    const { clock, stranger, store, waiting, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    store.hold('acquire');
    store.tell({ ...store.handoffs[0], grantedAt: undefined });
    await clock.advance(10);
    expect(waiting).toEqual({});
    expect(store.asks).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('that was delayed past its lease is not used: the same owner asks, and waits on if others have it', async () => {
    const { clock, stranger, store, waiting, holder, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    // The process was stopped for longer than the lease that it was given.
    clock.jump(3_000);
    await stranger.take(KEY);
    store.deliver('handoff');
    await clock.advance(100);
    expect(waiting).toEqual({});
    expect(await holder()).toBe('stranger');
    expect(store.asks).toHaveLength(2);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('from the future, by a server’s clock that was set, is of unknown age, too', async () => {
    const { clock, stranger, store, waiting, owners } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    store.hold('acquire');
    store.tell({ ...store.handoffs[0], grantedAt: clock.now() + 10_000 });
    await clock.advance(10);
    expect(waiting).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });

  it('that came in time, but is heard of just past its local deadline, is asked for with a full lease', async () => {
    const { clock, stranger, store, holder, lock, locks } = await queued();
    store.hold('handoff');
    await stranger.leave(KEY);
    await clock.advance(0);
    // Ours by the store's word, but not for certain any more by our own clock.
    clock.jump(2_975);
    expect(await holder()).toBe(locks.engine.instanceId);
    store.deliver('handoff');
    await clock.advance(0);
    expect(store.asks).toHaveLength(2);
    expect(lock().expiresInMs).toBeGreaterThan(29_000);
  });
});

describe('grant for a gate that has left', () => {
  it('is given back, even if the release of its leaving was lost', async () => {
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

  it('is given back where the gate has a newer ask by now, which is not disturbed', async () => {
    const { clock, locks, store, stranger, neighbour } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    store.hold('handoff');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(500);
    // Handed to the first ask, which is given up before anybody hears of it.
    await stranger.leave(KEY);
    await clock.advance(500);
    await stranger.take(KEY);
    store.deliver('acquire');
    await clock.advance(500);
    expect(new Set(store.asks.map(({ owner }) => owner)).size).toBe(2);
    const released = store.releases.length;
    store.deliver('handoff');
    await clock.advance(0);
    expect(store.releases.slice(released)).toMatchObject([{ owner: store.asks[0].owner }]);
    expect(waiting).toEqual({});
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
  });
});

describe('late duplicate grant', () => {
  it('is ignored during the hold', async () => {
    const { clock, stranger, store, lock } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    store.tell(store.handoffs[0]);
    await clock.advance(1_000);
    lock().assertHeld();
    expect(store.releases).toHaveLength(0);
    expect(await lock().release()).toBe(true);
  });

  it('harms nobody after the hold, whoever holds the lock then', async () => {
    const { clock, stranger, store, lock, holder, locks } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    await stranger.take(KEY);
    store.tell(store.handoffs[0]);
    await clock.advance(0);
    expect(await holder()).toBe('stranger');
    await stranger.leave(KEY);
    const own = await locks.acquire('goods:300');
    store.tell(store.handoffs[0]);
    await clock.advance(0);
    own.assertHeld();
    expect(await holder()).toBe(locks.engine.instanceId);
    expect(await stranger.take(KEY)).toBe(false);
  });

  it('lets nobody in who waits by now', async () => {
    const { clock, stranger, store, lock, holder, locks } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    await stranger.take(KEY);
    const next = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    store.tell(store.handoffs[0]);
    await clock.advance(100);
    expect(next).toEqual({});
    expect(await holder()).toBe('stranger');
  });
});

describe('an ask that runs behind its own release', () => {
  it('gives back what it is granted, also if it was handed the lock in between', async () => {
    const { clock, stranger, store, lock, holder } = await queued();
    store.delay('acquire');
    store.relisten();
    await stranger.leave(KEY);
    await clock.advance(0);
    await lock().release();
    expect(await holder()).toBeUndefined();
    store.arrive('acquire');
    await clock.advance(0);
    expect(await holder()).toBeUndefined();
  });

  it('leaves the queue that it joined', async () => {
    const { clock, stranger, store, abort, holder } = await queued();
    store.delay('acquire');
    store.relisten();
    await clock.advance(0);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    store.arrive('acquire');
    await clock.advance(0);
    await stranger.leave(KEY);
    expect(await holder()).toBeUndefined();
  });
});
