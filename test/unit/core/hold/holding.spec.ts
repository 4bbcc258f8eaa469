import { describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockClosedError,
  LockConfigError,
  LockLostError,
  LockReentryError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { deferred } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

describe('a hold', () => {
  it('is renewed as long as it lasts', async () => {
    const { clock, locks, memory } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(60_000);
    expect(lock.expiresInMs).toBeGreaterThan(1_000);
    expect(await memory.inspect(KEY)).toMatchObject({ token: lock.fencingToken });
    expect(await lock.release()).toBe(true);
  });

  it('is lost when its lease expires, with renew: false', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300', { renew: false, ttlMs: 1_000 });
    await clock.advance(987);
    lock.assertHeld();
    await clock.advance(2);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(store.extendBatches).toHaveLength(0);
  });

  it('ends at maxHoldMs, even if its work hangs', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 1_000, maxHoldMs: 5_000 });
    await clock.advance(4_900);
    lock.assertHeld();
    await clock.advance(101);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect((lock.signal.reason as Error).message).toContain('maxHoldMs');
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('excludes others until minHoldMs, and its caller does not wait', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    const next = locks.acquire('goods:300');
    await clock.advance(390);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(11);
    expect((await next).key).toBe(KEY);
  });

  it('is free after minHoldMs even if its process ends at once', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 600_000 });
    await locks.using('goods:300', { minHoldMs: 400 }, () => undefined);
    await locks.engine.close(0);
    expect(await stranger.take(KEY)).toBe(false);
    clock.jump(401);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('shares one timer and few batches with a thousand others', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    const held = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    // One for the renewals, one for the timeouts of the requests.
    expect(clock.pending).toBe(2);
    await clock.advance(10_001);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([250, 250, 250, 250]);
    expect(held.every((lock) => lock.expiresInMs > 28_000)).toBe(true);
  });

  it('is renewed without a hot loop if its lease is short', async () => {
    const { clock, locks, store } = faultyLocks();
    await locks.acquire('goods:300', { ttlMs: 50 });
    await clock.advance(1_000);
    expect(store.extendBatches.length).toBeGreaterThan(40);
    expect(store.extendBatches.length).toBeLessThan(80);
  });

  it('keeps the lease that extend() sets', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 1_000 });
    await lock.extend(60_000);
    expect(lock.expiresInMs).toBeGreaterThan(59_000);
    await clock.advance(30_000);
    expect(lock.expiresInMs).toBeGreaterThan(45_000);
    await expect(lock.extend(1)).rejects.toBeInstanceOf(LockConfigError);
  });

  it('is released once if release() is called twice', async () => {
    const { locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    expect(await Promise.all([lock.release(), lock.release()])).toEqual([true, true]);
    expect(store.releases).toHaveLength(1);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(lock.expiresInMs).toBe(0);
  });

  it('is released at the end of an await using block', async () => {
    const { locks, stranger } = faultyLocks();
    {
      await using lock = await locks.acquire('goods:300');
      lock.assertHeld();
    }
    expect(await stranger.take(KEY)).toBe(true);
  });
});

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

  it('is not declared before the deadline if renewals get no reply', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    store.fail('extend', new Error('no reply'));
    await clock.advance(2_900);
    lock.assertHeld();
    store.fail('extend');
    await clock.advance(10_000);
    lock.assertHeld();
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

  it('is noticed by assertHeld() after a pause, before any timer has fired', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    clock.jump(3_000);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  it('is not declared if the wall clock is set', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    clock.setWallTime(clock.wallTime() + 3_600_000);
    await clock.advance(10_000);
    lock.assertHeld();
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

  it('makes extend() throw', async () => {
    const { locks, stranger } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    await stranger.steal(KEY);
    await expect(lock.extend()).rejects.toBeInstanceOf(LockLostError);
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

  it('may release any other lock, which is not watched any more', async () => {
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

describe('a lease that extend() would shorten', () => {
  it('is renewed when it is due, without a hot loop', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 900 });
    await lock.extend(50);
    await clock.advance(800);
    expect(store.extendBatches.length).toBeLessThan(3);
    await clock.advance(1_000);
    lock.assertHeld();
    expect(store.extendBatches.length).toBeLessThan(80);
  });
});

describe('a failed release', () => {
  it("does not hide the caller's result, and is repeated until there is a reply", async () => {
    const { clock, locks, store } = faultyLocks();
    store.fail('release', new LockUnavailableError('down'));
    await expect(locks.using('goods:300', () => 'sold')).resolves.toBe('sold');
    await clock.advance(2_000);
    const tries = store.releases.length;
    expect(tries).toBeGreaterThan(2);
    store.fail('release');
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(tries + 1);
    expect(new Set(store.releases.map(({ owner }) => owner)).size).toBe(1);
  });

  it('is not repeated after the lease', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    store.fail('release', new LockUnavailableError('down'));
    await locks.using('goods:300', () => undefined);
    await clock.advance(8_000);
    const tries = store.releases.length;
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(tries);
    expect(clock.pending).toBe(0);
  });

  it('does not end the process if it is not awaited', async () => {
    const { locks, store } = faultyLocks();
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const lock = await locks.acquire('goods:300');
    store.fail('release', new LockUnavailableError('down'));
    void lock.release();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('rejects for the caller of release()', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    store.hold('release');
    const released = lock.release().catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await released).toBeInstanceOf(LockUnavailableError);
  });
});

describe('a nested hold', () => {
  it('shares the grant, without a request', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', async (outer) => {
      await locks.using('goods:300', (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(locks.current('goods:300')).toBe(inner);
      });
      outer.assertHeld();
    });
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
  });

  it('keeps the grant until the last hold ends', async () => {
    const { locks, store } = faultyLocks();
    const inner = await locks.using('goods:300', () => locks.acquire('goods:300'));
    expect(store.releases).toHaveLength(0);
    inner.assertHeld();
    expect(await inner.release()).toBe(true);
    expect(store.releases).toHaveLength(1);
  });

  it('is not created by a task that outlives the hold', async () => {
    const { clock, locks, store } = faultyLocks();
    const later = deferred();
    let stray!: Promise<Lock>;
    await locks.using('goods:300', () => {
      stray = later.promise.then(() => locks.acquire('goods:300'));
    });
    later.resolve();
    const lock = await stray;
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    await lock.release();
  });

  it('is not created after acquire(), which does not enter the context', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    expect(locks.current()).toBeUndefined();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
  });

  it('throws LockReentryError with reentrant: false', async () => {
    const { locks } = faultyLocks({ reentrant: false });
    await locks.using('goods:300', async () => {
      await expect(locks.acquire('goods:300')).rejects.toBeInstanceOf(LockReentryError);
    });
  });

  it('is not created for another module instance', async () => {
    const { locks } = faultyLocks();
    const other = faultyLocks();
    await locks.using('goods:300', () => other.locks.using('goods:300', () => undefined));
    expect(other.store.acquires).toHaveLength(1);
  });
});

describe('a shutdown', () => {
  it('lets running holds finish, and the locks that they request inside', async () => {
    const { locks } = faultyLocks();
    const work = deferred();
    const using = locks.using('goods:300', async () => {
      await work.promise;
      return locks.using('goods:301', () => 'finished');
    });
    await Promise.resolve();
    const closing = locks.engine.close(5_000);
    work.resolve();
    await expect(using).resolves.toBe('finished');
    await closing;
  });

  it('refuses new callers, and callers that wait inside a hold', async () => {
    const { clock, locks, memory } = faultyLocks();
    const hang = deferred();
    let entered = false;
    const failure = (error: unknown): unknown => error;
    const one = locks.using('b', () => hang.promise).catch(failure);
    const inner = { waitMs: Infinity };
    const other = locks.using('a', () => locks.using('b', inner, () => void (entered = true))).catch(failure);
    await clock.advance(0);
    const closing = locks.engine.close(0);
    await clock.advance(0);
    await closing;
    expect(await other).toMatchObject({ code: 'LOCK_LOST', cause: expect.any(LockClosedError) });
    hang.resolve();
    expect(await one).toBeInstanceOf(LockLostError);
    expect(entered).toBe(false);
    expect(await memory.inspect('{lock_b}')).toBeNull();
  });

  it('waits for the reply to the last release', async () => {
    const { clock, locks, store } = faultyLocks();
    const work = deferred();
    const using = locks.using('goods:300', () => work.promise);
    await clock.advance(0);
    store.hold('release');
    const closing = locks.engine.close(5_000);
    let closed = false;
    void closing.then(() => (closed = true));
    work.resolve();
    await clock.advance(500);
    expect(closed).toBe(false);
    store.deliver('release');
    await using;
    await closing;
  });

  it('aborts and releases all holds after the grace period', async () => {
    const { clock, locks, store } = faultyLocks();
    const held = await Promise.all([1, 2, 3].map((id) => locks.acquire(`goods:${id}`)));
    const signals = held.map(({ signal }) => signal);
    const closing = locks.engine.close(5_000);
    await clock.advance(4_999);
    expect(signals.some(({ aborted }) => aborted)).toBe(false);
    await clock.advance(1);
    await closing;
    for (const { reason } of signals) {
      expect(reason).toBeInstanceOf(LockLostError);
      expect((reason as LockLostError).cause).toBeInstanceOf(LockClosedError);
    }
    expect(store.releases).toHaveLength(3);
    expect(clock.pending).toBe(0);
  });
});
