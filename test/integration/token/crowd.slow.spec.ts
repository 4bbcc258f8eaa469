import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, LockTimeoutError } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';

const CROWD = 200_000;
const READERS = 20_000;

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

describe('200,000 callers of one lock in one process', () => {
  it('are refused at once beyond 1,000, and those are served', async () => {
    const holder = await here.holder();
    const locks = here.instance();
    let [served, refused] = [0, 0];
    const onRefused = (error: unknown): void => {
      if (error instanceof LockTimeoutError && error.isQueueFull && error.waitingHere === 1_000) refused += 1;
    };
    const calls: Promise<void>[] = [];
    while (calls.length < CROWD) {
      calls.push(locks.using('goods:300', { waitMs: 600_000 }, () => void (served += 1)).catch(onRefused));
      // The holder's lease is renewed meanwhile.
      if (calls.length % 1_000 === 0) await new Promise(setImmediate);
    }
    expect((await locks.inspect('goods:300'))?.waitingHere).toBe(1_000);
    await here.queueOf(1);
    expect([served, refused]).toEqual([0, CROWD - 1_000]);
    await holder.release();
    await Promise.all(calls);
    expect([served, refused]).toEqual([1_000, CROWD - 1_000]);
  });
});

// The first lease of a lock that is handed off lasts 1.2 s, which a busy machine may need to serve all readers.
describe('20,000 readers of one process, on a clock that stands still', () => {
  needWallClocks();

  it('wait, and are served together', async () => {
    const stopped = await StoppedContention.start();
    const holder = await stopped.holder();
    const readers = stopped.instance();
    const options = { mode: 'shared', waitMs: 600_000 } as const;
    const reading = Array.from({ length: READERS }, () => readers.acquire('goods:300', options));
    await stopped.clock.advanceUntil('they wait', async () => (await stopped.queueLength()) === 1);
    await holder.release();
    const locks: Lock[] = await stopped.clock.until(Promise.all(reading));
    const released = Promise.all(locks.map((lock) => lock.release()));
    expect(await released).toEqual(locks.map(() => true));
    await stopped.clear();
    await stopped.close();
  });
});
