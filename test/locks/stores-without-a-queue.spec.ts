import { describe, expect, it, jest } from '@jest/globals';
import { LockTimeoutError } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

function unqueuedLocks() {
  const faulty = faultyLocks();
  faulty.store.less.queue = false;
  return faulty;
}

describe('a store without a queue', () => {
  it('is requested again at most every 200 ms', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    expect(store.acquires.every(({ queue }) => !queue)).toBe(true);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('is requested at the pace of its retry policy', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: Infinity };
    await stranger.take(KEY);
    outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    // The manual clock jitters each pause to three quarters.
    expect(store.acquires).toHaveLength(14);
  });

  it('is requested again after 1.5 to 3 s if it notifies those that wait', async () => {
    const { clock, locks, store } = unqueuedLocks();
    store.acquire = (request) => {
      store.acquires.push(request);
      return Promise.resolve({ status: 'held', queued: true, remainingMs: 60_000 });
    };
    outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    // The manual clock jitters each pause to three quarters.
    await clock.advance(2_249);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(1);
    expect(store.acquires).toHaveLength(2);
  });

  it('throws LockTimeoutError after the limit of its retry policy', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const first = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    const second = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(149);
    expect(first).toEqual({});
    await clock.advance(1);
    expect(store.acquires).toHaveLength(3);
    expect(first.error).toBeInstanceOf(LockTimeoutError);
    expect(second.error).toBeInstanceOf(LockTimeoutError);
    await clock.advance(10_000);
    expect(store.acquires).toHaveLength(3);
  });

  it('counts the limit for each caller, from its first request', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const first = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(100);
    const second = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(50);
    expect(first.error).toBeInstanceOf(LockTimeoutError);
    expect(second).toEqual({});
    await clock.advance(150);
    expect(second.error).toBeInstanceOf(LockTimeoutError);
    expect(store.acquires).toHaveLength(5);
  });

  it('keeps the limit of its retry policy if a request could not be delivered', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(100);
    jest.spyOn(store, 'acquire').mockResolvedValueOnce({ status: 'expired' });
    await clock.advance(1_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
  });

  it('is requested at once after onReleased', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 60_000, limit: Infinity };
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(10);
    await stranger.leave(KEY);
    store.reportReleased('{lock_goods}:301');
    await clock.advance(0);
    expect(waiting).toEqual({});
    store.reportReleased(KEY);
    await clock.advance(0);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('is requested at once after onReleased, even if no reply has named another holder', async () => {
    const { clock, locks, store } = unqueuedLocks();
    jest.spyOn(store, 'acquire').mockResolvedValueOnce({ status: 'expired' });
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    expect(waiting).toEqual({});
    store.reportReleased(KEY);
    await clock.advance(0);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('leaves the key to others for at most half of the time that a caller still waits', async () => {
    const { clock, locks, store } = faultyLocks({ passing: { maxLocalPasses: 0 } });
    store.less.queue = false;
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 40 }));
    await lock.release();
    await clock.advance(19);
    expect(waiting).toEqual({});
    await clock.advance(1);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('gets a release after a late grant if repeated requests are not idempotent', async () => {
    const { clock, locks, store } = unqueuedLocks();
    store.less.idempotentAcquire = false;
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 100 }));
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
    const [first, second] = store.acquires;
    expect(second.owner).not.toBe(first.owner);
    expect(store.releases).toMatchObject([{ owner: first.owner }]);
  });
});
