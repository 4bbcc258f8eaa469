import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { LockLostError, LockTimeoutError } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { Checkout, Orders } from './bench/bench-shop.js';
import { isBusy, isLost, isWithoutRedis } from './bench/bench-test.js';
import { lostAfterItsLease } from './manual-clock.js';
import { byHand, inAModule } from './unit-test.js';
import { wholeApplication } from './whole-application.js';

afterEach(() => {
  jest.useRealTimers();
});

describe('the page on testing', () => {
  it('has a line that makes a whole application lock in memory', async () => {
    process.env['REDIS_URL'] = 'redis://127.0.0.1:1';
    expect(await wholeApplication()).toBe(true);
  });

  it('has unit tests that work', async () => {
    expect(await inAModule()).toBe(true);
    expect(await byHand()).toBe(false);
  });

  it('has a manual clock that ends a lease', async () => {
    expect(await lostAfterItsLease()).toBe(true);
  });

  it('says that fake timers of the test runner do not end a lease', async () => {
    const locks = createTestLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 30_000, renew: false });
    jest.useFakeTimers();
    jest.advanceTimersByTime(60_000);
    lock.assertHeld();
    expect(await locks.inspect('goods:300')).not.toBeNull();
    expect(await lock.release()).toBe(true);
  });

  it('has a bench for locks that are busy, lost and unavailable', async () => {
    await expect(isBusy()).rejects.toThrow(LockTimeoutError);
    await expect(isLost()).rejects.toThrow(LockLostError);
    expect(await isWithoutRedis()).toEqual([undefined, ['unavailable', 'requested', 'unavailable']]);
    expect(await withLocks(new Checkout(new Orders())).pay(7)).toBe('paid');
  });
});
