import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockLostError, type LockService, runInLockScope } from 'nestjs-redis-lock';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';

const CALLS = 12;

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** A stock whose sales are visible to others after their commit only. */
class Stock {
  sold = 0;

  /** Sells one under a lock that ends before the commit, as a locked method does that a transaction calls. */
  async sell(locks: LockService): Promise<void> {
    const sold = await locks.using('goods:300', { waitMs: 30_000 }, () => this.sold + 1);
    await new Promise<void>((resolve) => here.clock.schedule(20, resolve));
    this.sold = sold;
  }
}

describe('a commit after the lock has ended', () => {
  it('loses updates without a scope', async () => {
    const [locks, stock] = [here.instance(), new Stock()];
    const sales = Array.from({ length: CALLS }, () => stock.sell(locks));
    await here.clock.until(Promise.all(sales));
    expect(stock.sold).toBe(1);
  });

  it('loses none in scopes, in two instances', async () => {
    const [services, stock] = [[here.instance(), here.instance()], new Stock()];
    const sales = Array.from({ length: CALLS }, (_, i) => runInLockScope(() => stock.sell(services[i % 2])));
    await here.clock.until(Promise.all(sales));
    expect(stock.sold).toBe(CALLS);
    expect(await services[0].inspect('goods:300')).toBeNull();
  });

  it('is after the loss of the lock if the key is deleted meanwhile', async () => {
    const locks = here.instance({ ttlMs: 1_500 });
    const sale = runInLockScope(async (scope) => {
      await locks.using('goods:300', () => undefined);
      // Renewed: it outlasts its lease.
      await here.clock.advance(2_000);
      expect(await here.admin.exists(here.key)).toBe(1);
      scope.assertHeld();
      await here.admin.del(here.key);
      await here.clock.advanceUntil('the scope is aborted', () => scope.signal.aborted);
      scope.assertHeld();
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await here.admin.exists(here.key)).toBe(0);
  });
});
