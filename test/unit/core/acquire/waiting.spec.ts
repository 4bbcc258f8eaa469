import { describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks } from '../../../support/locks.js';

const KEY = '{lock_goods}:300';

describe('waiting in one process', () => {
  it('grants first in, first out', async () => {
    const { locks } = faultyLocks();
    const order: number[] = [];
    const first = await locks.acquire('goods:300');
    const others = [1, 2, 3].map((n) => locks.using('goods:300', () => void order.push(n)));
    await first.release();
    await Promise.all(others);
    expect(order).toEqual([1, 2, 3]);
  });

  it('shows the store one contender, however many wait', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = Array.from({ length: 50 }, () => outcome(locks.acquire('goods:300', { waitMs: 60_000 })));
    await clock.advance(0);
    expect(store.asks).toHaveLength(1);
    await clock.advance(10_000);
    // At most one ask in the longest pause, jittered down to half, for all fifty together.
    expect(store.asks.length).toBeLessThan(110);
    expect(new Set(store.asks.map(({ owner }) => owner)).size).toBe(1);
    expect(waiting.every((one) => one.error === undefined && one.value === undefined)).toBe(true);
  });

  it('gets the lock soon after somebody else has left it', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('asks again when the key in the way is bound to expire, not only after the pause', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY, 1_000);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(1_012);
    expect(waiting.value).toBeDefined();
  });

  it('ends with a LockTimeoutError that tells how long the holder still has', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY, 60_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 2_000 }));
    await clock.advance(1_999);
    expect(waiting.error).toBeUndefined();
    await clock.advance(1);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ code: 'LOCK_TIMEOUT', resource: 'goods:300', elapsedMs: 2_000 });
    expect((waiting.error as LockTimeoutError).remainingMs).toBeCloseTo(58_000, -3);
  });

  it('does not wait at all with waitMs 0, and tryAcquire answers null', async () => {
    const { locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toBeInstanceOf(LockTimeoutError);
    await expect(locks.tryAcquire('goods:300')).resolves.toBeNull();
  });

  it('gives one of two simultaneous tryAcquires the lock, and null to the other', async () => {
    const { locks } = faultyLocks();
    const [one, other] = await Promise.all([locks.tryAcquire('goods:300'), locks.tryAcquire('goods:300')]);
    expect(one).not.toBeNull();
    expect(other).toBeNull();
  });

  it('waits for ever with waitMs Infinity', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY, 3_600_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(600_000);
    expect(waiting).toEqual({});
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value).toBeDefined();
  });

  it("ends with the caller's reason when its signal aborts, and lets the next in line on", async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const abort = new AbortController();
    const first = outcome(locks.acquire('goods:300', { signal: abort.signal }));
    const second = outcome(locks.acquire('goods:300'));
    await clock.advance(100);
    abort.abort(new Error('gone home'));
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(first.error).toEqual(new Error('gone home'));
    expect(second.value).toBeDefined();
  });

  it('gives a full lease to one who waited longer than the lease', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 1_000, waitMs: 60_000 }));
    await clock.advance(5_000);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect((waiting.value as Lock).expiresInMs).toBeGreaterThan(600);
  });

  it('keeps nothing of a key after its last use: no timer, no gate', async () => {
    const { clock, locks, stranger } = faultyLocks();
    for (let id = 0; id < 100; id += 1) await locks.using(`goods:${id}`, () => undefined);
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 500 }));
    await clock.advance(1_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    await clock.advance(60_000);
    expect(Reflect.get(locks.engine, 'localLocks')).toHaveProperty('alone.size', 0);
    expect(clock.pending).toBe(0);
  });
});

describe('an ask that is not answered', () => {
  it('is unavailability, never a busy lock', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const trying = outcome(locks.tryAcquire('goods:300'));
    await clock.advance(1_000);
    expect(trying.error).toBeInstanceOf(LockUnavailableError);
  });

  it('has its release behind it, so that what it locked unseen is free again', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    store.hold('acquire');
    outcome(locks.tryAcquire('goods:300'));
    await clock.advance(1_000);
    expect(store.releases).toMatchObject([{ owner: store.asks[0]?.owner, keepMs: 0 }]);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is asked for again by another ask, but not before it is answered', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 10_000 }));
    await clock.advance(5_000);
    expect(store.asks).toHaveLength(1);
    expect(waiting).toEqual({});
    store.deliver('acquire');
    await clock.advance(200);
    expect(waiting.value).toBeDefined();
    expect(new Set(store.asks.map(({ owner }) => owner)).size).toBe(2);
  });

  it('is not waited for once its connection has ended', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 10_000 }));
    await clock.advance(100);
    store.disconnect();
    store.fail('release');
    await clock.advance(300);
    expect(store.asks).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
  });

  it('gives back what is granted when everybody has left', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    store.hold('acquire');
    const abort = new AbortController();
    const waiting = outcome(locks.acquire('goods:300', { signal: abort.signal }));
    await clock.advance(0);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    expect(waiting.error).toEqual(new Error('gone home'));
    store.deliver('acquire');
    await clock.advance(0);
    // One release behind the ask, and one more for the grant that came back: the first may have overtaken the ask.
    expect(store.releases).toHaveLength(2);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is asked again with the same owner when the answer took longer than the lease', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 100 }));
    await clock.advance(150);
    store.deliver('acquire');
    await clock.advance(10);
    expect(waiting.value).toBeDefined();
    expect(new Set(store.asks.map(({ owner }) => owner)).size).toBe(1);
    expect(store.asks).toHaveLength(2);
  });

  it('names the last answer: unreachable at first and busy at the end is a timeout', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.fail('acquire', new LockUnavailableError('down'));
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 3_000 }));
    const short = outcome(locks.acquire('goods:300', { waitMs: 1_000 }));
    await clock.advance(1_000);
    expect(short.error).toBeInstanceOf(LockUnavailableError);
    store.fail('acquire');
    await clock.advance(2_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
  });

  it('ends all waiting at once where asking again does not help', async () => {
    const { clock, locks, store } = faultyLocks();
    store.fail('acquire', new LockUnavailableError('no scripts here', { permanent: true }));
    const waiting = [outcome(locks.acquire('goods:300')), outcome(locks.acquire('goods:300'))];
    await clock.advance(0);
    for (const { error } of waiting) expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true });
    expect(store.asks).toHaveLength(1);
  });
});

describe('a lease', () => {
  it('is that of the caller who gets it, not of one who has left', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const left = outcome(locks.acquire('goods:300', { ttlMs: 100, waitMs: 500 }));
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 30_000, waitMs: 60_000, renew: false }));
    await clock.advance(600);
    expect(left.error).toBeInstanceOf(LockTimeoutError);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect((waiting.value as Lock).expiresInMs).toBeGreaterThan(29_000);
  });

  it('is made up for soon when its ask was sent for somebody else, even without renewal', async () => {
    const { clock, locks, store, memory } = faultyLocks();
    store.hold('acquire');
    const abort = new AbortController();
    outcome(locks.acquire('goods:300', { ttlMs: 400, signal: abort.signal }));
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 30_000, renew: false }));
    const short = outcome(locks.acquire('goods:300', { ttlMs: 60, renew: false }));
    await clock.advance(0);
    abort.abort();
    store.deliver('acquire');
    await clock.advance(50);
    const lock = waiting.value as Lock;
    expect(lock.expiresInMs).toBeGreaterThan(29_000);
    expect((await memory.inspect(KEY))?.remainingMs).toBeGreaterThan(29_000);
    await lock.release();
    await clock.advance(0);
    expect((short.value as Lock).expiresInMs).toBeLessThan(60);
  });

  it('that came too late and is not wanted any more is given back', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const trying = outcome(locks.tryAcquire('goods:300', { ttlMs: 500 }));
    await clock.advance(600);
    store.deliver('acquire');
    await clock.advance(0);
    expect(trying.error).toBeInstanceOf(LockUnavailableError);
    expect(store.releases).toMatchObject([{ owner: store.asks[0]?.owner }]);
  });
});

describe('two resources under one key', () => {
  it('exclude each other, and each is told its own name', async () => {
    const { locks } = faultyLocks({ key: () => 'one' });
    const first = await locks.acquire('first');
    const waiting = locks.acquire('second');
    await first.release();
    expect((await waiting).resource).toBe('second');
  });
});

describe('waiting for the first answer', () => {
  it('is not counted as unreachable for those who joined meanwhile', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    const both = [
      outcome(locks.acquire('goods:300', { waitMs: 5 })),
      outcome(locks.acquire('goods:300', { waitMs: 5 })),
    ];
    await clock.advance(8);
    store.deliver('acquire');
    await clock.advance(0);
    for (const { error } of both) expect(error).toBeInstanceOf(LockTimeoutError);
  });
});

describe('looking at a lock', () => {
  it('ends when the store does not answer', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('inspect');
    const looking = outcome(locks.inspect('goods:300'));
    await clock.advance(1_000);
    expect(looking.error).toBeInstanceOf(LockUnavailableError);
  });
});

describe('waiting while the application shuts down', () => {
  it('is refused, for those inside and for those who come', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    const closing = locks.engine.close(5_000);
    await expect(locks.acquire('goods:301')).rejects.toBeInstanceOf(LockClosedError);
    await closing;
    expect(waiting.error).toBeInstanceOf(LockClosedError);
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });
});

describe('behind an ask that nobody waits for any more', () => {
  const behind = async (waitMs: number, held = false) => {
    const all = faultyLocks();
    if (held) await all.stranger.take(KEY);
    const stop = new AbortController();
    all.store.hold('acquire');
    outcome(all.locks.acquire('goods:300', { signal: stop.signal }));
    stop.abort();
    return { ...all, next: outcome(all.locks.acquire('goods:300', { waitMs })) };
  };

  it.each([0, 5])('a time of %i ms is not up before there is an answer', async (waitMs) => {
    const { next, store, clock } = await behind(waitMs);
    await clock.advance(100);
    expect(next).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    expect(next.value).toBeDefined();
  });

  it.each([0, 5])('whoever waits %i ms learns that others hold the lock, as soon as that is known', async (waitMs) => {
    const { next, store, clock } = await behind(waitMs, true);
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(0);
    expect(next.error).toBeInstanceOf(LockTimeoutError);
  });

  it.each([0, 5])('whoever waits %i ms waits for a store that is silent as long as for one request', async (waitMs) => {
    const { next, clock } = await behind(waitMs);
    await clock.advance(999);
    expect(next).toEqual({});
    await clock.advance(waitMs + 1);
    expect(next.error).toBeInstanceOf(LockUnavailableError);
  });
});
