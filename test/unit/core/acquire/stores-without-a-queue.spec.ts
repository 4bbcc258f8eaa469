import { describe, expect, it, jest } from '@jest/globals';
import { LockTimeoutError } from 'nestjs-redis-lock';
import { faultyLocks, LOCKED_KEY as KEY, outcome } from '../../../support/locks.js';

function unqueuedLocks() {
  const faulty = faultyLocks();
  faulty.store.less.queue = false;
  return faulty;
}

describe('where the store has no queue', () => {
  it('the lock is asked for again and again, at most 200 ms apart', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    expect(store.asks.every(({ queue }) => !queue)).toBe(true);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('its own pace counts', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: Infinity };
    await stranger.take(KEY);
    outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    // The manual clock jitters each pause to three quarters.
    expect(store.asks).toHaveLength(14);
  });

  it('its limit of refusals ends the waiting of those who have seen them, as busy, before waitMs is over', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const first = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    const second = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(149);
    expect(first).toEqual({});
    await clock.advance(1);
    expect(store.asks).toHaveLength(3);
    expect(first.error).toBeInstanceOf(LockTimeoutError);
    expect(second.error).toBeInstanceOf(LockTimeoutError);
    await clock.advance(10_000);
    expect(store.asks).toHaveLength(3);
  });

  it('its limit counts for each by itself: whoever came later is asked for longer', async () => {
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
    expect(store.asks).toHaveLength(5);
  });

  it('its limit is not stepped over by an ask that could not be delivered', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(100);
    jest.spyOn(store, 'acquire').mockResolvedValueOnce({ status: 'expired' });
    await clock.advance(1_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
  });

  it('the news that a key may be free is reason to ask at once', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 60_000, limit: Infinity };
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(10);
    await stranger.leave(KEY);
    store.tellFreed('{lock_goods}:301');
    await clock.advance(0);
    expect(waiting).toEqual({});
    store.tellFreed(KEY);
    await clock.advance(0);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('a grant whose answer was too late is given back, where asking again would not tell whose it is', async () => {
    const { clock, locks, store } = unqueuedLocks();
    store.less.idempotentAcquire = false;
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 100 }));
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
    const [first, second] = store.asks;
    expect(second.owner).not.toBe(first.owner);
    expect(store.releases).toMatchObject([{ owner: first.owner }]);
  });
});
