import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { outcome } from '../../support/async.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';
import { InvoiceNumbers } from './one-time-ids.js';
import { SupplierClient } from './suppliers.js';

let redis: Redis;

beforeAll(() => {
  redis = new Redis(testRedisUrl(), { keyPrefix: uniquePrefix() });
});
afterAll(() => redis.disconnect());

/** Locks whose callers never time out, however busy the machine is. */
const patientLocks = () => createTestLocks({ clock: new ManualClock() });

const times = <T>(count: number, call: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, call));

describe('the recipe for suppliers', () => {
  class Recorder extends SupplierClient {
    readonly sentAt: number[] = [];
    constructor(private readonly clock: ManualClock) {
      super();
    }
    protected override async send(): Promise<string> {
      this.sentAt.push(this.clock.now());
      return 'ordered';
    }
  }

  it('sends five requests a second', async () => {
    const clock = new ManualClock();
    const supplier = withLocks(new Recorder(clock), createTestLocks({ clock }));
    const all = outcome(times(12, () => supplier.search('acme', 'screws')));
    for (let step = 0; step < 40 && all.value === undefined; step += 1) await clock.advance(100);
    expect(all).toEqual({ value: Array.from({ length: 12 }, () => 'ordered') });
    const { sentAt } = supplier;
    expect(sentAt.filter((at) => at < 1_000)).toHaveLength(5);
    // No window of a second has a sixth request.
    for (const [i, at] of sentAt.slice(5).entries()) expect(at - sentAt[i]).toBeGreaterThanOrEqual(1_000);
  });

  it('lets five requests run at a time', async () => {
    let [inside, most] = [0, 0];
    class Slow extends SupplierClient {
      protected override async send(): Promise<string> {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside -= 1;
        return 'ordered';
      }
    }
    const supplier = withLocks(new Slow(), patientLocks());
    await times(20, () => supplier.order('acme', 'screws'));
    expect(most).toBe(5);
  });
});

describe('the recipe for numbers', () => {
  afterEach(() => redis.del('invoices:2026', '{invoices:2026}|opened'));

  it('gives out each number once, and none for a failed invoice', async () => {
    const numbers = new InvoiceNumbers(patientLocks(), redis);
    const print = async (number: number) => `invoice ${number}`;
    expect((await times(5, () => numbers.next(2026, print))).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5]);
    await expect(numbers.next(2026, () => Promise.reject(new Error('no paper')))).rejects.toThrow('no paper');
    expect(await numbers.next(2026, print)).toBe(6);
  });

  it('gives no number to a late holder', async () => {
    const numbers = new InvoiceNumbers(patientLocks(), redis);
    const later = new RedisFence(redis, 'invoices:2026');
    const overtaken = async () => {
      await later.open(Number.MAX_SAFE_INTEGER);
      return 'late';
    };
    await expect(numbers.next(2026, overtaken)).rejects.toThrow(StaleFenceError);
    expect(await redis.llen('invoices:2026')).toBe(0);
  });
});
