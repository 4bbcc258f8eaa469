import { describe, expect, it } from '@jest/globals';
import { type Lock, LockLostError } from 'nestjs-redis-lock';
import { deferred } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

describe('a lost hold', () => {
  it('is noticed at the next renewal if another client took the key', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    const { signal } = lock;
    await stranger.steal(KEY);
    await clock.advance(1_000);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    expect(await stranger.leave(KEY)).toBe(true);
  });

  it('is known by a signal that is read after the release', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await stranger.steal(KEY);
    await clock.advance(1_000);
    expect(await lock.release()).toBe(false);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('is known by the signal of a nested hold that a listener of the loss has released', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const released = await locks.using('goods:300', { onLost: 'ignore' }, async ({ signal }) => {
      const nested = await locks.acquire('goods:300');
      const ended = new Promise((resolve) => signal.addEventListener('abort', () => resolve(nested.release())));
      await stranger.steal(KEY);
      await clock.advance(1_000);
      expect(await ended).toBe(false);
      return nested;
    });
    expect(released.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('is not declared before the deadline if renewals get no reply', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    store.fail('extend', new Error('no reply'));
    await clock.advance(2_900);
    expect(() => lock.assertHeld()).not.toThrow();
    store.fail('extend');
    await clock.advance(10_000);
    expect(() => lock.assertHeld()).not.toThrow();
  });

  it('is declared at the deadline, whatever the store replies later', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    store.hold('extend');
    await clock.advance(2_967);
    expect(() => lock.assertHeld()).not.toThrow();
    await clock.advance(2);
    expect(lock.signal.aborted).toBe(true);
    store.deliver('extend');
    await clock.advance(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  it('is not declared if the wall clock is set', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    clock.setWallTime(clock.wallTime() + 3_600_000);
    await clock.advance(10_000);
    expect(() => lock.assertHeld()).not.toThrow();
  });

  it("throws LockLostError with the work's error as the cause", async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const work = deferred();
    const using = locks.using('goods:300', () => work.promise);
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    const failure = new Error('no stock');
    work.reject(failure);
    await expect(using).rejects.toMatchObject({ code: 'LOCK_LOST', cause: failure });
  });

  it("returns the work's result with onLost: 'ignore'", async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const work = deferred<string>();
    const using = locks.using('goods:300', { onLost: 'ignore' }, () => work.promise);
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    work.resolve('sold');
    await expect(using).resolves.toBe('sold');
  });

  it('lets the next local waiter request at once', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    await locks.acquire('goods:300');
    const next = locks.acquire('goods:300', { waitMs: 60_000 });
    await stranger.remove(KEY);
    await clock.advance(1_000);
    expect((await next).fencingToken).toBeGreaterThan(0);
  });
});

describe('a listener of a loss', () => {
  it('runs outside of every hold', async () => {
    const { clock, locks } = faultyLocks();
    const end = deferred();
    let got: Lock | null | undefined;
    const one = locks.using('b', () => locks.using('c', { ttlMs: 300 }, () => end.promise));
    await clock.advance(0);
    const other = await locks.acquire('d', { ttlMs: 300, renew: false });
    other.signal.addEventListener('abort', () => {
      void locks.tryAcquire('b').then((lock) => (got = lock));
    });
    await clock.advance(400);
    expect(got).toBeNull();
    end.resolve();
    await one;
  });

  it('may release any other lock, which is no longer watched', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 100, renew: false });
    const [one, other] = await Promise.all([locks.acquire('a'), locks.acquire('b')]);
    one.signal.addEventListener('abort', () => void other.release());
    await clock.advance(10_000);
    expect(clock.pending).toBe(0);
    const closing = locks.engine.close(60_000);
    await clock.advance(0);
    await closing;
  });
});
