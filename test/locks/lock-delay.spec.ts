import { describe, expect, it } from '@jest/globals';
import { type Lock, LockLostError, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

const DELAY_MS = 2_000;
/** The lease of a handoff. */
const HANDOFF_MS = 1_200;
const delayed = (options = {}) => faultyLocks({ ttlMs: 1_000, lockDelayMs: DELAY_MS, ...options });

describe('lockDelayMs', () => {
  it('keeps the lock of a dead holder closed after its lease', async () => {
    const { clock, locks, stranger } = delayed();
    await locks.acquire('goods:300');
    clock.jump(1_000 + DELAY_MS);
    expect(await stranger.take(KEY)).toBe(false);
    clock.jump(1);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('repeats a failed release until lease and delay are over', async () => {
    const { clock, locks, store, stranger } = delayed({ lockDelayMs: 60_000 });
    const lock = await locks.acquire('goods:300');
    store.lose('release', new LockUnavailableError('cut off'));
    await expect(lock.release()).rejects.toThrow('cut off');
    await clock.advance(10_000);
    store.lose('release');
    await clock.advance(1_000);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('forwards which keys a disconnect or a subscription concerns', async () => {
    const { clock, locks, store, stranger } = delayed();
    const elsewhere = (key: string): boolean => key !== KEY;
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(0);
    store.reportSubscribed(elsewhere);
    expect(store.acquires).toHaveLength(1);
    store.hold('acquire');
    store.reportSubscribed((key) => key === KEY);
    expect(store.acquires).toHaveLength(2);
    store.disconnect(elsewhere);
    await clock.advance(500);
    expect(store.acquires).toHaveLength(2);
    store.disconnect((key) => key === KEY);
    await clock.advance(500);
    expect(store.acquires.length).toBeGreaterThan(2);
    expect(waiting).toEqual({});
  });

  it("is not part of the holder's lease", async () => {
    const { clock, locks } = delayed();
    const lock = await locks.acquire('goods:300', { maxHoldMs: 1_000 });
    expect(lock.expiresInMs).toBeLessThan(1_000);
    await clock.advance(1_000);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('is not changed by a renewal that arrives after the lease', async () => {
    const { clock, locks, store, stranger } = delayed();
    const lock = await locks.acquire('goods:300');
    store.delay('extend');
    await clock.advance(1_100);
    expect(lock.signal.aborted).toBe(true);
    store.arrive('extend');
    await clock.advance(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    await clock.advance(DELAY_MS + 1_000);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it.each(['maxHoldMs', 'shutdown'])('gives work that goes on after its lock ended time to stop (%s)', async (end) => {
    const { clock, locks, stranger } = delayed({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300', { maxHoldMs: 5_000 });
    const closing = end === 'shutdown' ? locks.engine.close(0) : undefined;
    await clock.advance(end === 'shutdown' ? 0 : 5_000);
    await closing;
    expect(lock.signal.aborted).toBe(true);
    clock.jump(DELAY_MS);
    expect(await stranger.take(KEY)).toBe(false);
    clock.jump(1);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is not part of a handed-off lease, and protects its holder', async () => {
    const { clock, locks, neighbour, stranger } = delayed({ ttlMs: 30_000 });
    const { locks: other, store } = neighbour();
    const lock = await locks.acquire('goods:300');
    const waiting = outcome(other.acquire('goods:300'));
    store.hold('wake');
    await clock.advance(0);
    await lock.release();
    // It dies before it asks for its full lease.
    clock.jump(HANDOFF_MS + DELAY_MS);
    expect(await stranger.take(KEY)).toBe(false);
    clock.jump(1);
    expect(await stranger.take(KEY)).toBe(true);
    expect(waiting).toEqual({});
  });

  it("never makes a handed-off lease longer than Redis' lease if delays differ", async () => {
    for (const [ours, theirs] of [
      [0, 5_000],
      [5_000, 0],
    ]) {
      const { clock, locks, memory, neighbour } = delayed({ lockDelayMs: ours });
      const { locks: other } = neighbour({ ttlMs: 1_000, lockDelayMs: theirs });
      const lock = await locks.acquire('goods:300');
      const waiting = outcome(other.acquire('goods:300'));
      await clock.advance(0);
      await lock.release();
      await clock.advance(1);
      const next = waiting.value as Lock;
      next.assertHeld();
      const { remainingMs = 0 } = (await memory.inspect(KEY)) ?? {};
      expect(next.expiresInMs + theirs).toBeLessThanOrEqual(remainingMs);
      await next.release();
    }
  });
});
