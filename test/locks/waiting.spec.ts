import { describe, expect, it } from '@jest/globals';
import { type Lock, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';
import { RecordingClock } from '../support/recording-clock.js';
import { keptBy } from '../support/inside.js';

describe('waiting in one process', () => {
  it("sends one acquire loop's requests for all waiters", async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = Array.from({ length: 50 }, () => outcome(locks.acquire('goods:300', { waitMs: 60_000 })));
    await clock.advance(0);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(10_000);
    // At most one request in half of the longest pause, for all fifty waiters together.
    expect(store.acquires.length).toBeLessThan(110);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(1);
    expect(waiting.every((one) => one.error === undefined && one.value === undefined)).toBe(true);
  });

  it("ends with a LockTimeoutError with the holder's remaining lease", async () => {
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

  it('does not happen in tryAcquire: one of two is granted, the other null', async () => {
    const { locks } = faultyLocks();
    const [one, other] = await Promise.all([locks.tryAcquire('goods:300'), locks.tryAcquire('goods:300')]);
    expect(one).not.toBeNull();
    expect(other).toBeNull();
  });

  it('never ends with waitMs: Infinity', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY, 3_600_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(600_000);
    expect(waiting).toEqual({});
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value).toBeDefined();
  });

  it('longer than the lease still grants a full lease', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 1_000, waitMs: 60_000 }));
    await clock.advance(5_000);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect((waiting.value as Lock).expiresInMs).toBeGreaterThan(600);
  });

  it('leaves no timer and no line after the last use of a key', async () => {
    const { clock, locks, stranger } = faultyLocks();
    for (let id = 0; id < 100; id += 1) await locks.using(`goods:${id}`, () => undefined);
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 500 }));
    await clock.advance(1_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    await clock.advance(60_000);
    expect(keptBy(locks)).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

describe('an acquire request without a reply', () => {
  it('throws LockUnavailableError, never LockTimeoutError', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const trying = outcome(locks.tryAcquire('goods:300'));
    await clock.advance(1_000);
    expect(trying.error).toBeInstanceOf(LockUnavailableError);
  });

  it('is followed by a release, so that a late grant is freed', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    store.hold('acquire');
    outcome(locks.tryAcquire('goods:300'));
    await clock.advance(1_000);
    expect(store.releases).toMatchObject([{ owner: store.acquires[0]?.owner, closedForMs: 0 }]);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is followed by another attempt, but not before its reply', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 10_000 }));
    await clock.advance(5_000);
    expect(store.acquires).toHaveLength(1);
    expect(waiting).toEqual({});
    store.deliver('acquire');
    await clock.advance(200);
    expect(waiting.value).toBeDefined();
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(2);
  });

  it('is not waited for once its connection has ended', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 10_000 }));
    await clock.advance(100);
    store.disconnect();
    store.fail('release');
    await clock.advance(300);
    expect(store.acquires).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
  });

  it('is released if it is granted after all waiters have left', async () => {
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
    // One release after the request, and one for the late grant, because the first may have overtaken the request.
    expect(store.releases).toHaveLength(2);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is repeated with the same owner if the reply took longer than the lease', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 100 }));
    await clock.advance(150);
    store.deliver('acquire');
    await clock.advance(10);
    expect(waiting.value).toBeDefined();
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(1);
    expect(store.acquires).toHaveLength(2);
  });

  it('and then a held reply is a LockTimeoutError', async () => {
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

  it('rejects all waiters at once if a retry cannot succeed', async () => {
    const { clock, locks, store } = faultyLocks();
    store.fail('acquire', new LockUnavailableError('no scripts here', { permanent: true }));
    const waiting = [outcome(locks.acquire('goods:300')), outcome(locks.acquire('goods:300'))];
    await clock.advance(0);
    for (const { error } of waiting) expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true });
    expect(store.acquires).toHaveLength(1);
  });
});

describe('a lease', () => {
  it('has the ttlMs of the caller that is granted, not of one that left', async () => {
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

  it('is extended soon if it was requested for another caller, without renew too', async () => {
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

  it('is released if its reply is late and no caller waits', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const trying = outcome(locks.tryAcquire('goods:300', { ttlMs: 500 }));
    await clock.advance(600);
    store.deliver('acquire');
    await clock.advance(0);
    expect(trying.error).toBeInstanceOf(LockUnavailableError);
    expect(store.releases).toMatchObject([{ owner: store.acquires[0]?.owner }]);
  });
});

describe('two resources under one key', () => {
  it('exclude each other, and each lock has its own resource', async () => {
    const { locks } = faultyLocks({ key: () => 'one' });
    const first = await locks.acquire('first');
    const waiting = locks.acquire('second');
    await first.release();
    expect((await waiting).resource).toBe('second');
  });
});

describe('waiting for the first reply', () => {
  it('is not an outage for callers that joined meanwhile', async () => {
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

describe('inspect', () => {
  it('rejects if the store sends no reply', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('inspect');
    const looking = outcome(locks.inspect('goods:300'));
    await clock.advance(1_000);
    expect(looking.error).toBeInstanceOf(LockUnavailableError);
  });
});

describe('behind a request that no caller waits for', () => {
  const behind = async (waitMs: number, held = false) => {
    const all = faultyLocks();
    if (held) await all.stranger.take(KEY);
    const stop = new AbortController();
    all.store.hold('acquire');
    outcome(all.locks.acquire('goods:300', { signal: stop.signal }));
    stop.abort();
    return { ...all, next: outcome(all.locks.acquire('goods:300', { waitMs })) };
  };

  it.each([0, 5])('waitMs: %i does not end before there is a reply', async (waitMs) => {
    const { next, store, clock } = await behind(waitMs);
    await clock.advance(100);
    expect(next).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    expect(next.value).toBeDefined();
  });

  it.each([0, 5])('a caller with waitMs: %i is refused once the lock is known to be held', async (waitMs) => {
    const { next, store, clock } = await behind(waitMs, true);
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(0);
    expect(next.error).toBeInstanceOf(LockTimeoutError);
  });

  it.each([0, 5])('a caller with waitMs: %i waits for one request of a silent store', async (waitMs) => {
    const { next, clock } = await behind(waitMs);
    await clock.advance(999);
    expect(next).toEqual({});
    await clock.advance(waitMs + 1);
    expect(next.error).toBeInstanceOf(LockUnavailableError);
  });
});

describe('a queue of thousands of local waiters', () => {
  const LENGTH = 2_000;

  /**
   * Returns how often the clock is read for each of `length` callers, with as many callers of a rival if there is one.
   */
  async function readings(length: number, withRival: boolean): Promise<number> {
    const clock = new RecordingClock();
    const store = new MemoryStore(clock);
    const options = { clock, store: () => store, fairness: 'strict' as const, waitMs: 600_000, maxWaiting: Infinity };
    const [locks, rival] = [createTestLocks(options), createTestLocks(options)];
    const first = await rival.acquire('goods:300');
    const all = Array.from({ length }, () => locks.using('goods:300', () => undefined));
    if (withRival) all.push(...Array.from({ length }, () => rival.using('goods:300', () => undefined)));
    await clock.advance(0);
    clock.reads = 0;
    await first.release();
    await Promise.all(all);
    return clock.reads / all.length;
  }

  it.each([false, true])('is not scanned for each grant (another instance in the queue: %j)', async (withRival) => {
    expect(await readings(LENGTH, withRival)).toBeLessThan(LENGTH / 20);
  });
});

describe('a caller behind an unanswered request of callers that have left', () => {
  it.each([1, 3])('waits no longer than its waitMs (%i callers)', async (count) => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    store.hold('acquire');
    const left = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(5_000);
    expect(left.error).toBeInstanceOf(LockUnavailableError);
    const later = Array.from({ length: count }, () => outcome(locks.acquire('goods:300', { waitMs: 1_500 })));
    await clock.advance(5_000);
    for (const { error } of later) expect(error).toBeInstanceOf(LockUnavailableError);
  });
});
