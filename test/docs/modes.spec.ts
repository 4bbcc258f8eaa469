import { describe, expect, it } from '@jest/globals';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { LedgerService } from './assert-held.js';
import { ReportService } from './cron.js';
import { OrderService, StockService } from './lock-scope.js';
import { AccountsService } from './multi-lock.js';
import { CatalogueService } from './shared-mode.js';

describe('the page on modes', () => {
  it('has shared locks and permits that work', async () => {
    const catalogue = withLocks(new CatalogueService());
    expect(await Promise.all([catalogue.read('1'), catalogue.replace('1'), catalogue.order('2')])).toEqual([
      'the goods of 1',
      'the goods of 1',
      'ordered from 2',
    ]);
  });

  it('has several locks that work', async () => {
    const accounts = withLocks(new AccountsService(createTestLocks()));
    const there = Array.from({ length: 5 }, () => accounts.transfer(1, 2, 10));
    const back = Array.from({ length: 3 }, () => accounts.transfer(2, 1, 10));
    await Promise.all([...there, ...back]);
    expect(await accounts.total([2, 3])).toBe(20);
    expect(await accounts.closeAll([1, 2])).toEqual([expect.any(Number), expect.any(Number)]);
    expect(await accounts.total([1, 2])).toBe(0);
  });

  it('has an assertion in work that needs the lock of its caller', async () => {
    const locks = createTestLocks();
    const ledger = withLocks(new LedgerService(locks), locks);
    expect(await ledger.deposit(1, 50)).toBe('50 cents are booked under a token');
    await expect(ledger.book(1, 50)).rejects.toThrow('account:1 is not held here');
  });

  it('has a lock scope that works', async () => {
    const locks = createTestLocks();
    const orders = new OrderService(withLocks(new StockService(), locks), locks);
    expect(await orders.order('1', '2')).toEqual([9, 9]);
    await orders.move('1', async () => {
      expect(await locks.inspect('goods:1')).not.toBeNull();
    });
    expect(await locks.inspect('goods:1')).toBeNull();
  });

  it('has a cron job that runs once', async () => {
    const locks = createTestLocks({ clock: new ManualClock() });
    const [one, other] = [withLocks(new ReportService(), locks), withLocks(new ReportService(), locks)];
    await one.hourly();
    await other.hourly();
    expect(await locks.tryAcquire('report')).toBeNull();
  });
});
