import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, LockTimeoutError } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';

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
    expect(locks.local().waiting).toHaveLength(1_000);
    await here.queueOf(1);
    expect([served, refused]).toEqual([0, CROWD - 1_000]);
    await holder.release();
    await Promise.all(calls);
    expect([served, refused]).toEqual([1_000, CROWD - 1_000]);
  });

  it('wait as readers up to 50,000, and are served together', async () => {
    const holder = await here.holder();
    const readers = here.instance();
    const options = { mode: 'shared', waitMs: 600_000 } as const;
    const reading = Array.from({ length: READERS }, () => readers.acquire('goods:300', options));
    await here.queueOf(1);
    await holder.release();
    const locks: Lock[] = await Promise.all(reading);
    expect(await Promise.all(locks.map((lock) => lock.release()))).toEqual(locks.map(() => true));
  });
});
