import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { LockOptions } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import type { FaultyStore } from '../support/faulty-store.js';
import { faultyLocks, KEY } from '../support/locks.js';

afterEach(() => void jest.restoreAllMocks());

/** The longest pause of a waiter behind up to 2,000 others, in milliseconds. */
const LONGEST_MS = 2_000;

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

  it('finds a dead holder soon if its first ten instances are frozen', async () => {
    const { clock, waiters } = await longQueue(100, {}, 10_000);
    for (const waiter of waiters.slice(0, 10)) freeze(waiter);
    await clock.advance(10_000 + 600);
    expect(waiters[10].waiting.value).toBeDefined();
  });

  it('joins again after a flush, within the longest pause', async () => {
    const { clock, stranger, memory, waiters } = await longQueue(60);
    await clock.advance(30_000);
    await stranger.steal(KEY);
    await clock.advance(LONGEST_MS);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(waiters.length);
  });

  it('repeats all requests when it is subscribed again', async () => {
    const { clock, waiters, requests } = await longQueue(100);
    for (const { store } of waiters) store.reportSubscribed();
    await clock.advance(0);
    expect(requests()).toBe(200);
  });
});

describe('a waiter behind thousands', () => {
  it('pauses longer, in proportion to its place', async () => {
    const { clock, store, locks } = faultyLocks();
    let requests = 0;
    store.acquire = () => {
      requests += 1;
      return Promise.resolve({ status: 'held', queued: true, remainingMs: undefined, ahead: 20_000 });
    };
    void outcome(locks.acquire('goods:300', { waitMs: 3_600_000 }));
    await clock.advance(120_000);
    // Ten times as many places as a pause of 2 s is for.
    expect(requests).toBeGreaterThan(5);
    expect(requests).toBeLessThan(14);
  });

  it('pauses for 40 s at most', async () => {
    const { clock, store, locks } = faultyLocks();
    jest.spyOn(clock, 'random').mockReturnValue(1 - Number.EPSILON);
    let requests = 0;
    store.acquire = () => {
      requests += 1;
      return Promise.resolve({ status: 'held', queued: true, remainingMs: undefined, ahead: 1_000_000 });
    };
    void outcome(locks.acquire('goods:300', { waitMs: 3_600_000 }));
    await clock.advance(0);
    for (let count = 1; count < 10; count += 1) {
      expect(requests).toBeGreaterThanOrEqual(count);
      await clock.advance(40_000);
    }
  });
});

/** Stops an instance as its host would: it neither receives handoffs nor sends requests. */
function freeze({ store }: { readonly store: FaultyStore }): void {
  store.hold('handoff');
  store.delay('acquire');
  store.delay('release');
}

describe('waiters that are frozen', () => {
  /** Releases the lock. Returns in which order the waiters get it, each for no time, and how long that takes. */
  async function serve({ clock, waiters, stranger }: Awaited<ReturnType<typeof longQueue>>, isFrozen: boolean[]) {
    await clock.advance(30_000);
    waiters.forEach((waiter, i) => isFrozen[i] && freeze(waiter));
    const order: number[] = [];
    let servedAt = 0;
    const from = clock.now();
    await stranger.leave(KEY, 1_200);
    const live = waiters.flatMap(({ waiting }, i) => (isFrozen[i] ? [] : [{ waiting, i }]));
    while (order.length < live.length && clock.now() < from + 60_000) {
      for (const { waiting, i } of live) {
        if (waiting.value === undefined || order.includes(i)) continue;
        order.push(i);
        servedAt = clock.now();
        await waiting.value.release();
      }
      await clock.advance(1);
    }
    return { order, tookMs: servedAt - from, expected: live.map(({ i }) => i) };
  }

  it.each([1, 8, 20, 300])('delay the others by 3 s at most if %i are ahead', async (count) => {
    const queue = await longQueue(count + 3);
    const { order, expected, tookMs } = await serve(
      queue,
      queue.waiters.map((_, i) => i < count),
    );
    expect(order).toEqual(expected);
    expect(tookMs).toBeLessThan(3_000);
  });

  it('delay the others by 3 s at most if every second one is frozen', async () => {
    const queue = await longQueue(40);
    const { order, expected, tookMs } = await serve(
      queue,
      queue.waiters.map((_, i) => i % 2 === 0),
    );
    expect(order).toEqual(expected);
    expect(tookMs).toBeLessThan(3_000);
  });
});
