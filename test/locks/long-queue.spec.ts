import { describe, expect, it } from '@jest/globals';
import type { LockOptions } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

/** The longest pause of a waiter behind many others, in milliseconds. */
const LONGEST_MS = 40_000;

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
  it('repeats its requests rarely, except for the first eight', async () => {
    const { clock, waiters } = await longQueue(70);
    await clock.advance(120_000);
    const counts = waiters.map(({ count }) => count());
    for (const count of counts.slice(0, 8)) expect(count).toBeGreaterThan(120);
    // With 40 s between two requests, after the first pause of any length up to 40 s.
    for (const count of counts.slice(51)) expect(count).toBeLessThan(6);
    expect(counts.slice(51).every((count) => count > 2)).toBe(true);
    expect(counts).toEqual(counts.toSorted((a, b) => b - a));
  });

  it('finds a dead holder as soon as its lease has ended', async () => {
    const { clock, waiters, requests } = await longQueue(100, {}, 10_000);
    await clock.advance(10_000);
    expect(waiters[0].waiting.value).toBeUndefined();
    const before = requests();
    await clock.advance(12);
    expect(waiters[0].waiting.value).toBeDefined();
    // The others look later, one after the other.
    expect(requests() - before).toBeLessThanOrEqual(8);
  });

  it('finds a dead holder soon if its first ten instances are frozen', async () => {
    const { clock, waiters } = await longQueue(100, {}, 10_000);
    for (const { store } of waiters.slice(0, 10)) {
      store.hold('handoff');
      store.delay('acquire');
      store.delay('release');
    }
    await clock.advance(10_000 + 10 * (262 + 500));
    expect(waiters[10].waiting.value).toBeDefined();
  });

  it('joins again after a flush, within the longest pause', async () => {
    const { clock, stranger, memory, waiters } = await longQueue(60);
    await clock.advance(30_000);
    await stranger.steal(KEY);
    await clock.advance(LONGEST_MS);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(waiters.length);
  });

  it('joins again after a flush while most of the waiting is still left', async () => {
    const { clock, stranger, memory, waiters } = await longQueue(100, { waitMs: 20_000 });
    await stranger.steal(KEY);
    await clock.advance(15_000);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(waiters.length);
  });

  it('repeats all requests when it is subscribed again', async () => {
    const { clock, waiters, requests } = await longQueue(100);
    for (const { store } of waiters) store.reportSubscribed();
    await clock.advance(0);
    expect(requests()).toBe(200);
  });
});

describe('a waiter far behind', () => {
  it('repeats often once few instances stand before it', async () => {
    const { clock, waiters, stranger } = await longQueue(60);
    const [last] = waiters.slice(-1);
    await clock.advance(100_000);
    await stranger.leave(KEY);
    for (const { waiting } of waiters.slice(0, -2)) {
      await clock.advance(100);
      await waiting.value?.release();
    }
    await clock.advance(LONGEST_MS);
    const before = last.count();
    await clock.advance(10_000);
    expect(last.count() - before).toBeGreaterThan(9);
  });

  it('finds its lost handoff soon if its instance knows how fast the queue moves', async () => {
    const { clock, waiters, stranger } = await longQueue(60);
    const [last] = waiters.slice(-1);
    const serveAll = async (): Promise<void> => {
      for (const { waiting } of waiters.slice(0, -1)) {
        await clock.advance(50);
        await waiting.value?.release();
      }
      await clock.advance(50);
    };
    await stranger.leave(KEY);
    await serveAll();
    await last.waiting.value?.release();
    await stranger.take(KEY);
    for (const each of waiters) each.waiting = outcome(each.locks.acquire('goods:300', { waitMs: 3_600_000 }));
    await clock.advance(0);
    last.store.hold('handoff');
    await stranger.leave(KEY);
    await serveAll();
    // It has waited for 3 s. Without that knowledge it would repeat its request after 20 s.
    await clock.advance(3_000);
    expect(last.waiting.value).toBeDefined();
  });
});

describe('eight waiters that are frozen', () => {
  it('delay the one behind them by about 3 s', async () => {
    const { clock, waiters, stranger } = await longQueue(9);
    await clock.advance(30_000);
    // They neither receive handoffs nor send requests.
    for (const { store } of waiters.slice(0, 8)) {
      store.hold('handoff');
      store.delay('acquire');
      store.delay('release');
    }
    await stranger.leave(KEY, 1_200);
    await clock.advance(1_200 + 7 * 262 + 12);
    expect(waiters[8].waiting.value).toBeDefined();
  });
});
