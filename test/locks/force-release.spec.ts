import { afterEach, describe, expect, it } from '@jest/globals';
import { type Lock, LockConfigError, LockKeyError, LockLostError, LockUnavailableError } from 'nestjs-redis-lock';
import { lockChannels, type LostEvent } from 'nestjs-redis-lock/events';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { outcome } from '../support/async.js';
import { keptBy, ownerOf } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

const forced = expect.stringMatching(/^The lock on goods:300 was lost after \d+ ms: it was released by force\.$/);

/** Two module instances. The first one holds the lock. */
async function held(options = {}) {
  const all = faultyLocks();
  const other = all.neighbour();
  const lock = await all.locks.acquire('goods:300', options);
  await all.clock.advance(5_000);
  return { ...all, other, lock };
}

const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));

describe('forceRelease()', () => {
  it('ends the hold of another instance, which says so at once', async () => {
    const { clock, locks, other, lock } = await held();
    const losses: unknown[] = [];
    const onLost = (event: unknown): void => void losses.push((event as LostEvent).reason?.message);
    lockChannels.lost.subscribe(onLost);
    stops.push(() => lockChannels.lost.unsubscribe(onLost));
    expect(await other.locks.forceRelease('goods:300')).toBe(true);
    await clock.advance(0);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect((lock.signal.reason as Error).message).toEqual(forced);
    expect(losses).toEqual([forced]);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(await locks.inspect('goods:300')).toBeNull();
    expect(await lock.release()).toBe(false);
  });

  it('ends the hold of its own instance, even without a message', async () => {
    const { clock, locks, store, lock } = await held();
    store.hold('wake');
    expect(await locks.forceRelease('goods:300')).toBe(true);
    await clock.advance(0);
    expect((lock.signal.reason as Error).message).toEqual(forced);
  });

  it('checks the holds of its own instance if the request gets no reply', async () => {
    const { clock, locks, store, lock } = await held();
    store.hold('forceRelease');
    store.hold('wake');
    const released = outcome(locks.forceRelease('goods:300'));
    await clock.advance(1_010);
    expect(released.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', resource: 'goods:300' });
    expect((lock.signal.reason as Error).message).toEqual(forced);
  });

  it('ends a hold whose message is lost at its next renewal', async () => {
    const { clock, store, other, lock } = await held();
    store.hold('wake');
    await other.locks.forceRelease('goods:300');
    await clock.advance(3_900);
    expect(lock.signal.aborted).toBe(false);
    await clock.advance(1_300);
    expect(lock.signal.reason).toMatchObject({ message: expect.stringContaining('belongs to someone else') });
  });

  it('hands the lock to the next in the queue, with a higher token', async () => {
    const { clock, lock, other, neighbour } = await held();
    const waiting = outcome(neighbour().locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(10);
    await other.locks.forceRelease('goods:300');
    await clock.advance(0);
    const next = waiting.value as Lock;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await clock.advance(60_000);
    next.assertHeld();
  });

  it('gives the lock to a caller of the same instance by a new grant', async () => {
    const { clock, locks, other, lock } = await held();
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(10);
    expect(await other.locks.forceRelease('goods:300')).toBe(true);
    await clock.advance(0);
    const next = waiting.value as Lock;
    expect(ownerOf(next)).not.toBe(ownerOf(lock));
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await lock.release()).toBe(false);
    await clock.advance(60_000);
    next.assertHeld();
  });

  it('ends the hold with that token only', async () => {
    const { clock, other, lock } = await held();
    const { locks } = other;
    expect(await locks.forceRelease('goods:300', { ifToken: lock.fencingToken + 1 })).toBe(false);
    await clock.advance(0);
    lock.assertHeld();
    expect(await locks.forceRelease('goods:300', { ifToken: lock.fencingToken })).toBe(true);
    await clock.advance(0);
    expect(lock.signal.aborted).toBe(true);
  });

  it('ends the holds of all readers, and of all permits', async () => {
    for (const options of [{ mode: 'shared' }, { permits: 3 }] as const) {
      const { clock, locks, neighbour, other, lock } = await held(options);
      const readers = [
        await locks.acquire('goods:300', options),
        await neighbour().locks.acquire('goods:300', options),
      ];
      for (const { fencingToken } of [lock, ...readers]) {
        expect(await other.locks.forceRelease('goods:300', { ifToken: fencingToken })).toBe(false);
      }
      expect(await other.locks.forceRelease('goods:300')).toBe(true);
      await clock.advance(0);
      expect(readers.map(({ signal }) => (signal.reason as Error).message)).toEqual([forced, forced]);
      expect(await locks.inspect('goods:300')).toBeNull();
    }
  });

  it('frees a lock that rests until minHoldMs, for the callers of its instance as well', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    await locks.using('goods:300', { minHoldMs: 60_000 }, () => undefined);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(1_000);
    expect(waiting).toEqual({});
    expect(await neighbour().locks.forceRelease('goods:300')).toBe(true);
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
  });

  it.each([
    ['the lock', {}],
    ['a permit', { permits: 1 }],
  ])('keeps %s closed until the end of minHoldMs if the message was forged', async (_what, options) => {
    const { clock, locks, store } = faultyLocks();
    await locks.using('goods:300', { ...options, minHoldMs: 60_000 }, () => undefined);
    const [{ owner }] = store.releases;
    store.reportForceReleased(KEY);
    store.reportWake(owner, KEY);
    const waiting = outcome(locks.acquire('goods:300', { ...options, waitMs: Infinity }));
    await clock.advance(60_000);
    expect(waiting).toEqual({});
    await clock.advance(10);
    expect(store.releases[0]).toMatchObject({ owner, closedForMs: 60_000 });
    waiting.value?.assertHeld();
    await clock.advance(60_000);
    waiting.value?.assertHeld();
    expect(waiting.value).toBeDefined();
    await waiting.value?.release();
    expect(keptBy(locks)).toBe(0);
  });

  it('ends a lock that was handed off and not received yet, whose caller waits on', async () => {
    const { clock, lock, locks, neighbour } = await held();
    const waiter = neighbour();
    waiter.store.hold('wake');
    const waiting = outcome(waiter.locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(10);
    await lock.release();
    expect(await locks.forceRelease('goods:300')).toBe(true);
    const other = await locks.acquire('goods:300', { waitMs: 0 });
    waiter.store.deliver('wake');
    await clock.advance(10);
    expect(waiting).toEqual({});
    other.assertHeld();
    await other.release();
    await clock.advance(0);
    waiting.value?.assertHeld();
    expect(waiting.value?.fencingToken).toBeGreaterThan(other.fencingToken);
  });

  it('frees the lock at once with lockDelayMs, and hands it off with the delay in its lease', async () => {
    const { clock, store, locks, neighbour } = faultyLocks({ lockDelayMs: 10_000 });
    const lock = await locks.acquire('goods:300');
    const next = outcome(neighbour().locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(10);
    expect(await locks.forceRelease('goods:300')).toBe(true);
    await clock.advance(0);
    expect([lock.signal.aborted, next.value !== undefined]).toEqual([true, true]);
    expect(store.forced).toEqual([{ key: KEY, ifToken: undefined, handoffMs: 11_200 }]);
  });

  it('refuses what cannot work', async () => {
    const { clock, locks, store } = faultyLocks();
    await expect(locks.forceRelease('goods:300', { ifToken: 0 })).rejects.toThrow(
      new LockConfigError('forceRelease(): ifToken is 0; expected a fencing token, a whole number from 1 up.'),
    );
    await expect(locks.forceRelease('goods:300', { token: 5 } as object)).rejects.toThrow('unknown option token');
    await expect(locks.forceRelease('')).rejects.toBeInstanceOf(LockKeyError);
    store.less.fencing = false;
    await expect(locks.forceRelease('goods:300', { ifToken: 5 })).rejects.toThrow(
      'forceRelease(): memory() gives no fencing tokens; call it without ifToken.',
    );
    store.delay('forceRelease');
    const late = outcome(locks.forceRelease('goods:300'));
    await clock.advance(1_001);
    expect(late.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', resource: 'goods:300' });
    const without = Object.assign(store, { forceRelease: undefined });
    const cannot = createTestLocks({ clock, store: () => without });
    await expect(cannot.forceRelease('goods:300')).rejects.toThrow(
      'forceRelease(): memory() cannot end the hold of another owner; use a store that can, such as token().',
    );
  });
});

describe('a message about a release by force', () => {
  it('ends no hold if it is not true, and costs one request however often it comes', async () => {
    const { clock, store, lock } = await held();
    store.delay('extend');
    for (let i = 0; i < 100; i += 1) store.reportForceReleased(KEY);
    await clock.advance(0);
    expect(store.extendBatches).toHaveLength(1);
    store.arrive('extend');
    await clock.advance(10);
    expect(store.extendBatches).toHaveLength(2);
    lock.assertHeld();
    expect(lock.signal.aborted).toBe(false);
  });

  it('ends no hold if Redis does not reply, and the next message asks again', async () => {
    const { clock, memory, store, lock } = await held();
    store.fail('extend', new LockUnavailableError('down'));
    store.reportForceReleased(KEY);
    await clock.advance(1_100);
    lock.assertHeld();
    store.fail('extend');
    memory.table.rows.delete(KEY);
    store.reportForceReleased(KEY);
    await clock.advance(0);
    expect((lock.signal.reason as Error).message).toEqual(forced);
  });

  it('that arrives during the request is not missed', async () => {
    const { clock, memory, store, lock } = await held();
    store.hold('extend');
    store.reportForceReleased(KEY);
    await clock.advance(0);
    memory.table.rows.delete(KEY);
    store.reportForceReleased(KEY);
    store.deliver('extend');
    await clock.advance(0);
    expect(lock.signal.aborted).toBe(true);
  });

  it('that is read before the reply that grants the lock is not missed', async () => {
    const { clock, memory, store, locks } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    // As after a blocked event loop, which finds both at its sockets.
    memory.table.forceRelease(KEY, 250);
    await clock.advance(0);
    store.deliver('acquire');
    await clock.advance(10);
    expect(waiting.value?.signal.reason).toMatchObject({ message: forced });
  });

  it('ends the hold of the caller that the lock was passed on to meanwhile', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    const next = outcome(locks.acquire('goods:300'));
    await lock.release();
    await clock.advance(0);
    const passed = next.value as Lock;
    expect(ownerOf(passed)).toBe(ownerOf(lock));
    expect(await neighbour().locks.forceRelease('goods:300', { ifToken: lock.fencingToken })).toBe(true);
    await clock.advance(0);
    expect((passed.signal.reason as Error).message).toEqual(forced);
  });

  it('keeps the lock from being passed on until the store has replied', async () => {
    const { clock, memory, store, locks, lock } = await held();
    const next = outcome(locks.acquire('goods:300'));
    store.hold('extend');
    memory.table.forceRelease(KEY, 250);
    await clock.advance(0);
    expect(store.extendBatches).toHaveLength(1);
    expect(await lock.release()).toBe(false);
    await clock.advance(0);
    expect(ownerOf(next.value as Lock)).not.toBe(ownerOf(lock));
    store.deliver('extend');
    await clock.advance(10);
    next.value?.assertHeld();
    expect(next.value).toBeDefined();
  });
});
