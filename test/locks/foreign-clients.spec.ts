import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { JitteredClock } from '../support/jittered-clock.js';
import { faultyLocks, KEY } from '../support/locks.js';

const WORK_MS = 20;
const SECONDS = 30;

/** Instances of this library, and clients of another one that poll the same key. */
function besideForeign() {
  const { clock, memory, neighbour } = faultyLocks({ waitMs: 60_000 }, undefined, undefined, new JitteredClock());
  const { table } = memory;
  const state = { isOver: false, requests: 0 };
  const pause = (ms: number): Promise<void> => new Promise((resolve) => clock.schedule(ms, resolve));

  /** SET NX: the other library knows no queue. */
  const take = (owner: string): boolean => {
    if (table.living(KEY).length > 0) return false;
    const { queue } = table.rows.get(KEY) ?? { queue: [] };
    const holder = { owner, mode: 'exclusive', token: 1, expiresAt: clock.now() + 10_000 } as const;
    table.rows.set(KEY, { holders: [holder], queue });
    return true;
  };
  const client = async (owner: string, everyMs: number, count: () => void): Promise<void> => {
    while (!state.isOver) {
      while (!take(owner)) await pause(everyMs * (0.5 + clock.random()));
      await pause(WORK_MS);
      (table.rows.get(KEY) as { holders: unknown[] }).holders = [];
      count();
      // A round trip, and the loop of the caller.
      await pause(1);
    }
  };
  const start = (): LockService => {
    const { store, locks } = neighbour();
    const acquire = store.acquire.bind(store);
    store.acquire = async (request) => {
      state.requests += 1;
      const reply = await acquire(request);
      const isForeign = table.living(KEY).at(0)?.owner.startsWith('foreign') === true;
      return reply.status === 'held' && isForeign ? { ...reply, holder: undefined, isForeign } : reply;
    };
    return locks;
  };
  const caller = async (locks: LockService, count: (waitedMs: number) => void): Promise<void> => {
    while (!state.isOver) {
      const from = clock.now();
      await locks.using('goods:300', async () => {
        count(clock.now() - from);
        await pause(WORK_MS);
      });
    }
  };
  const run = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 1) await clock.advance(1);
  };
  const end = (): void => void (state.isOver = true);
  const queued = (): number => table.waiting(KEY).length;
  return { take, client, start, caller, run, end, queued, requests: () => state.requests };
}

describe('beside foreign clients that poll', () => {
  it.each([
    [1, 1, 3, 10],
    [1, 2, 3, 10],
    [2, 1, 3, 10],
    [1, 1, 1, 10],
    [1, 1, 3, 100],
    [1, 1, 1, 300],
  ])('%i × %i callers get a fair share beside %i clients that poll every %i ms', async (...numbers) => {
    const [instances, callers, clients, everyMs] = numbers;
    const { client, start, caller, run, end } = besideForeign();
    const theirs = Array.from({ length: clients }, () => 0);
    const ours = Array.from({ length: instances * callers }, () => 0);
    let longestMs = 0;
    theirs.forEach((_, i) => void outcome(client(`foreign-${i}:1`, everyMs, () => (theirs[i] += 1))));
    await run(1);
    const services = Array.from({ length: instances }, start);
    ours.forEach((_, i) => {
      const onGranted = (waitedMs: number): void => {
        ours[i] += 1;
        longestMs = Math.max(longestMs, waitedMs);
      };
      void outcome(caller(services[i % instances], onGranted));
    });
    await run(SECONDS * 1_000);
    end();
    const all = [...ours, ...theirs];
    expect(Math.max(...all) / Math.min(...all)).toBeLessThan(3);
    expect(longestMs).toBeLessThan(1_000);
  });

  it('asks less often, the longer one of them has held the lock', async () => {
    const { take, start, run, requests } = besideForeign();
    take('foreign-0:1');
    const locks = start();
    const acquired = outcome(locks.acquire('goods:300'));
    await run(100);
    const first = requests();
    expect(first).toBeGreaterThan(15);
    await run(5_000);
    const before = requests();
    await run(1_000);
    expect(requests() - before).toBeLessThanOrEqual(40);
    await run(4_000);
    expect(acquired.value).toBeDefined();
  });

  it('joins the queue again 10 s after the last of them', async () => {
    const { client, start, run, end, queued } = besideForeign();
    void outcome(client('foreign-0:1', 10, () => end()));
    await run(1);
    const [locks, others] = [start(), start()];
    expect(await others.tryAcquire('goods:300')).toBeNull();
    const held = await firstOf(locks, run);
    void outcome(others.acquire('goods:300'));
    await run(5_000);
    expect(queued()).toBe(0);
    await run(6_000);
    expect(queued()).toBe(1);
    await held.release();
  });
});

/** Acquires the lock while time passes. */
async function firstOf(locks: LockService, run: (ms: number) => Promise<void>) {
  const acquired = locks.acquire('goods:300');
  await run(200);
  return acquired;
}
