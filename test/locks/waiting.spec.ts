import type { AcquireReply } from '../../lib/contract/store.js';
import { answer } from '../../lib/contract/reply-listener.js';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { type Lock, type LockOptions, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { outcome } from '../support/async.js';
import type { FaultyStore } from '../support/faulty-store.js';
import { keptBy } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';
import { RecordingClock } from '../support/recording-clock.js';

describe('waiting in one process', () => {
  it("sends one acquire loop's requests for all waiters", async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = Array.from({ length: 50 }, () => outcome(locks.acquire('goods:300', { waitMs: Infinity })));
    await clock.advance(0);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(60_000);
    // One request in half a second, for all fifty waiters together.
    expect(store.acquires.length).toBeGreaterThan(50);
    expect(store.acquires.length).toBeLessThan(130);
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
  it('is repeated by the same owner soon after the server has fallen silent, but not before', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 10_000 }));
    await clock.advance(1_099);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(101);
    expect(store.acquires).toHaveLength(2);
    await clock.advance(3_800);
    expect(store.acquires).toHaveLength(5);
    expect(waiting).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(1);
    expect(store.releases).toEqual([]);
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
    // A release could overtake the request.
    expect(store.releases).toEqual([]);
    store.deliver('acquire');
    await clock.advance(0);
    expect(store.releases).toMatchObject([{ owner: store.acquires[0].owner }]);
    expect(await stranger.take(KEY)).toBe(true);
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(1);
    expect(keptBy(locks)).toBe(0);
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
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 30_000, waitMs: 60_000 }));
    await clock.advance(600);
    expect(left.error).toBeInstanceOf(LockTimeoutError);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect((waiting.value as Lock).expiresInMs).toBeGreaterThan(29_000);
  });

  it('is extended soon if it was requested for another caller', async () => {
    const { clock, locks, store, memory } = faultyLocks();
    store.hold('acquire');
    const abort = new AbortController();
    outcome(locks.acquire('goods:300', { ttlMs: 400, signal: abort.signal }));
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 30_000 }));
    const short = outcome(locks.acquire('goods:300', { ttlMs: 60 }));
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

  it.each([0, 5])('waitMs: %i does not end before there is a reply, whatever it is', async (waitMs) => {
    for (const isHeld of [false, true]) {
      const { next, store, clock } = await behind(waitMs, isHeld);
      await clock.advance(100);
      expect(next).toEqual({});
      store.deliver('acquire');
      await clock.advance(0);
      expect(next.error instanceof LockTimeoutError ? 'held' : next.value?.held).toBe(isHeld ? 'held' : true);
    }
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
  it.each([false, true])('is not scanned for each grant (another instance in the queue: %j)', async (withRival) => {
    const length = 2_000;
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
    expect(clock.reads / all.length).toBeLessThan(length / 20);
  });
});

const timeoutOf = async (call: Promise<unknown>): Promise<LockTimeoutError> => {
  const error: unknown = await call.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LockTimeoutError);
  return error as LockTimeoutError;
};

describe('maxWaiting', () => {
  it('refuses the caller beyond 1,000 at once, and serves all others', async () => {
    const { clock, locks } = faultyLocks();
    const holder = await locks.acquire('goods:300');
    const served: number[] = [];
    const using = Array.from({ length: 1_000 }, (_, i) =>
      locks.using('goods:300', { waitMs: 60_000 }, () => void served.push(i)),
    );
    const error = await timeoutOf(locks.acquire('goods:300', { waitMs: 60_000 }));
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', isQueueFull: true, waitingHere: 1_000, elapsedMs: 0 });
    expect(error.message).toContain('1000 callers of this instance (maxWaiting: 1000) wait.');
    expect(error.publicMessage).toBe(
      'goods:300 is locked by others: refused at once, because too many callers wait for it.',
    );
    await holder.release();
    await clock.advance(1_000);
    await Promise.all(using);
    expect(served).toHaveLength(1_000);
    expect(keptBy(locks)).toBe(0);
  });

  it('is an option of the module and of a call, and Infinity means no limit', async () => {
    const { locks } = faultyLocks({ maxWaiting: 2 });
    await locks.acquire('goods:300');
    const waiting = [1, 2].map(() => outcome(locks.acquire('goods:300')));
    expect((await timeoutOf(locks.acquire('goods:300'))).waitingHere).toBe(2);
    expect((await timeoutOf(locks.acquire('goods:300', { maxWaiting: 1 }))).message).toContain('(maxWaiting: 1)');
    const more = [3, Infinity].map((maxWaiting) => outcome(locks.acquire('goods:300', { maxWaiting })));
    await Promise.resolve();
    expect([...waiting, ...more].map(({ error }) => error)).toEqual([undefined, undefined, undefined, undefined]);
    expect((await locks.inspect('goods:300'))?.waitingHere).toBe(4);
  });

  it.each([0, 1.5, -1, NaN])('is a whole number from 1 up, and not %d', async (maxWaiting) => {
    const call = faultyLocks().locks.acquire('goods:300', { maxWaiting });
    await expect(call).rejects.toThrow(`maxWaiting is ${maxWaiting}; expected`);
  });

  it('makes tryAcquire return null, and refuses lists of locks, and none of them stays locked', async () => {
    const { clock, locks, memory } = faultyLocks({ maxWaiting: 1 });
    const holder = await locks.acquire('goods:300');
    const waiter = outcome(locks.acquire('goods:300'));
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    for (const list of [
      ['goods:300', 'goods:301'],
      ['goods:299', 'goods:300'],
    ])
      expect((await timeoutOf(locks.acquire(list))).isQueueFull).toBe(true);
    for (const id of [299, 301]) expect(await memory.inspect(`{lock_goods}:${id}`)).toBeNull();
    await holder.release();
    await clock.advance(0);
    await waiter.value?.release();
    expect(keptBy(locks)).toBe(0);
  });

  it.each(['throughput', 'strict'] as const)('counts 50 readers as one caller, with fairness: %s', async (fairness) => {
    const { clock, locks } = faultyLocks({ maxWaiting: 2, fairness });
    const writer = await locks.acquire('goods:300');
    const readers = Array.from({ length: 100 }, () => outcome(locks.acquire('goods:300', { mode: 'shared' })));
    expect((await timeoutOf(locks.acquire('goods:300', { mode: 'shared' }))).waitingHere).toBe(100);
    const next = outcome(locks.acquire('goods:300'));
    await writer.release();
    await clock.advance(1_000);
    expect(readers.every(({ value }) => value !== undefined)).toBe(true);
    await Promise.all(readers.flatMap(({ value }) => value?.release() ?? []));
    await clock.advance(1_000);
    await next.value?.release();
    expect(keptBy(locks)).toBe(0);
  });

  it('names the resource if the store has sent no reply yet', async () => {
    const { clock, locks, store } = faultyLocks({ maxWaiting: 1, unavailableAfterMs: 60_000 });
    store.hold('acquire');
    const first = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(0);
    store.reportUnreachable(new Error('connect ECONNREFUSED'));
    const message = expect.stringContaining('goods:300 could not be locked: the store has sent no reply yet');
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE', message });
    expect(first.error).toBeUndefined();
  });
});

describe('the error of a busy lock', () => {
  it('names the others that wait here and the places before them', async () => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    const far = neighbour().locks;
    const ahead = outcome(far.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    const patient = [1, 2].map(() => outcome(locks.acquire('goods:300', { waitMs: 600_000 })));
    const error = timeoutOf(locks.acquire('goods:300', { waitMs: 3_000 }));
    await clock.advance(4_000);
    expect(await error).toMatchObject({ isQueueFull: false, waitingHere: 2, queuedAhead: 1 });
    expect((await error).message).toContain('2 callers of this instance wait, behind 1 other in the queue.');
    expect([ahead, ...patient].map(({ error: refused }) => refused)).toEqual([undefined, undefined, undefined]);
  });

  it.each([
    [0, '(waitMs: 3000).'],
    [1, '1 waits in the queue.'],
    [2, '2 wait in the queue.'],
  ])('counts those of other instances in the queue: %d', async (count, sentence) => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    for (let i = 0; i < count; i += 1) outcome(neighbour().locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    const error = timeoutOf(locks.acquire('goods:300', { waitMs: 3_000 }));
    await clock.advance(4_000);
    expect((await error).message.endsWith(sentence)).toBe(true);
  });
});

afterEach(() => void jest.restoreAllMocks());

/** Returns that many instances that wait for `goods:300` while a stranger holds it. */
async function longQueue(length: number, options: LockOptions = {}, leaseMs?: number) {
  const all = faultyLocks();
  await all.stranger.take(KEY, leaseMs);
  const waiters = Array.from({ length }, () => {
    const { locks, store } = all.neighbour();
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 3_600_000, ...options }));
    return { locks, store, waiting, count: () => store.acquires.length };
  });
  await all.clock.advance(0);
  const requests = (): number => waiters.reduce((total, { count }) => total + count(), 0);
  return { ...all, waiters, requests };
}

describe('a long queue', () => {
  it('repeats its requests half as often as the first eight do', async () => {
    const { clock, waiters } = await longQueue(20);
    await clock.advance(120_000);
    const counts = waiters.map(({ count }) => count());
    for (const count of counts.slice(0, 8)) expect(count).toBeGreaterThan(120);
    for (const count of counts.slice(8)) expect(count).toBeLessThan(100);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(60);
  });

  it('finds a dead holder as soon as its lease has ended', async () => {
    const { clock, waiters, requests } = await longQueue(100, {}, 10_000);
    await clock.advance(10_000);
    expect(waiters[0].waiting.value).toBeUndefined();
    const before = requests();
    await clock.advance(12);
    expect(waiters[0].waiting.value).toBeDefined();
    // Each of the others is prompted once.
    expect(requests() - before).toBeLessThanOrEqual(107);
  });

  it('finds a dead holder 250 ms later for each of its first instances that is frozen', async () => {
    const { clock, waiters } = await longQueue(100, {}, 10_000);
    for (const waiter of waiters.slice(0, 10)) freeze(waiter);
    await clock.advance(10_000 + 10 * 250);
    expect(waiters[10].waiting.value).toBeUndefined();
    await clock.advance(10 * 20);
    expect(waiters[10].waiting.value).toBeDefined();
  });

  it('joins again after a flush, within the longest pause', async () => {
    const { clock, stranger, memory, waiters } = await longQueue(60);
    await clock.advance(30_000);
    await stranger.steal(KEY);
    await clock.advance(2_000);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(waiters.length);
  });
});

describe('a waiter behind thousands', () => {
  function waitBehind(ahead: number) {
    const { clock, store, locks } = faultyLocks();
    const state = { requests: 0 };
    store.acquire = (_request, listener) => {
      state.requests += 1;
      const reply = { status: 'held', queued: true, remainingMs: undefined, ahead } as const;
      answer<AcquireReply>(listener, Promise.resolve(reply));
    };
    outcome(locks.acquire('goods:300', { waitMs: 3_600_000 }));
    return { clock, state };
  }

  it('pauses longer, in proportion to its place', async () => {
    const { clock, state } = waitBehind(20_000);
    await clock.advance(120_000);
    // Ten times as many places as a pause of 2 s is for.
    expect(state.requests).toBeGreaterThan(5);
    expect(state.requests).toBeLessThan(14);
  });

  it('pauses for 40 s at most', async () => {
    const { clock, state } = waitBehind(1_000_000);
    jest.spyOn(clock, 'random').mockReturnValue(1 - Number.EPSILON);
    await clock.advance(0);
    for (let count = 1; count < 10; count += 1) {
      expect(state.requests).toBeGreaterThanOrEqual(count);
      await clock.advance(40_000);
    }
  });
});

/** Stops an instance as its host would: it neither receives handoffs nor sends requests. */
function freeze({ store }: { readonly store: FaultyStore }): void {
  store.hold('wake');
  store.delay('acquire');
  store.delay('release');
}

describe('waiters that are frozen', () => {
  /** Releases the lock. Returns in which order the waiters get it, each for no time, and how long that takes. */
  async function serve({ clock, waiters, stranger }: Awaited<ReturnType<typeof longQueue>>, frozen: number) {
    await clock.advance(30_000);
    waiters.slice(0, frozen).forEach(freeze);
    const live = waiters.slice(frozen);
    const order: number[] = [];
    const from = clock.now();
    await stranger.leave(KEY, 1_200);
    while (order.length < live.length && clock.now() < from + 120_000) {
      await clock.advance(1);
      for (const [i, { waiting }] of live.entries()) {
        if (waiting.value === undefined || order.includes(i)) continue;
        order.push(i);
        await waiting.value.release();
      }
    }
    return { order, tookMs: clock.now() - from };
  }

  /** Until the next waiter asks, which did not know of the lease of the first one. */
  const FIRST_FROZEN_MS = 1_550;

  it.each([
    [1, 0],
    [8, 260],
    [20, 270],
    // Requests from far behind are spread.
    [100, 450],
  ])('cost the others a short lease each if %i are ahead', async (count, eachMs) => {
    const { order, tookMs } = await serve(await longQueue(count + 3), count);
    expect(order).toEqual([0, 1, 2]);
    expect(tookMs).toBeLessThan(FIRST_FROZEN_MS + (count - 1) * eachMs);
  });
});
