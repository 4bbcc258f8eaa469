import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  type FamilyOptions,
  Locked,
  LockConfigError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import {
  createTestBench,
  createTestLocks,
  ManualClock,
  type TestingOptions,
  withLocks,
} from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { eventually, outcome } from '../support/async.js';

const start = (families: unknown, options: TestingOptions = {}): LockService =>
  createTestLocks({ ...options, families: families as RedisLockModuleOptions['families'] });

/** Returns the lease of a lock as the store has it. */
async function leaseOf(locks: LockService, resource: string): Promise<number | undefined> {
  const info = await locks.inspect(resource);
  return info?.expiresInMs;
}

describe('families', () => {
  let clock: ManualClock;

  beforeEach(() => {
    Logger.overrideLogger(false);
    clock = new ManualClock();
  });

  it('have defaults between those of a call and those of the module', async () => {
    const locks = start({ goods: { ttlMs: 10_000 } }, { ttlMs: 20_000, clock });
    const leases = (resource: string, ttlMs?: number) =>
      locks.using(resource, { ttlMs }, () => leaseOf(locks, resource));
    expect(await leases('goods:1')).toBe(10_000);
    expect(await leases('goods')).toBe(10_000);
    expect(await leases('goods:1', 5_000)).toBe(5_000);
    expect(await leases('goodies:1')).toBe(20_000);
    expect(await leases('order:1')).toBe(20_000);
  });

  it('apply to every way to lock', async () => {
    const locks = start({ goods: { ttlMs: 10_000 } }, { clock });
    const seen: (number | undefined)[] = [];
    const look = async (): Promise<unknown> => seen.push(await leaseOf(locks, 'goods:1'));
    class Shop {
      @Locked('goods:<id>')
      async buy(id: number): Promise<number> {
        await look();
        return id;
      }

      @Locked((id: number) => `goods:${id}`)
      async sell(id: number): Promise<number> {
        await look();
        return id;
      }
    }
    const shop = withLocks(new Shop(), locks);
    await shop.buy(1);
    await shop.sell(1);
    await locks.using('goods:1', look);
    await using lock = await locks.tryAcquire('goods:1');
    await look();
    await lock?.release();
    const leader = locks.lead('goods:1', { onElected: () => void look() });
    await eventually('the leader has looked', () => seen.length === 5);
    await leader.close();
    expect(seen).toEqual(Array.from({ length: 5 }, () => 10_000));
  });

  it('apply to several locks if all are of one family', async () => {
    const locks = start({ goods: { ttlMs: 10_000 } }, { clock });
    await locks.using(['goods:1', 'goods:2'], async () => expect(await leaseOf(locks, 'goods:2')).toBe(10_000));
    await locks.using(['goods:1', 'order:1'], async () => expect(await leaseOf(locks, 'goods:1')).toBe(30_000));
  });

  it('take the template that begins with a placeholder as the family', async () => {
    const families = { '<tenant>:report': { ttlMs: 10_000 }, acme: { ttlMs: 5_000 } };
    const locks = start(families, { clock });
    class Reports {
      @Locked('<tenant>:report')
      async run(tenant: string): Promise<number | undefined> {
        return leaseOf(locks, `${tenant}:report`);
      }
    }
    expect(await withLocks(new Reports(), locks).run('acme')).toBe(10_000);
    await locks.using('acme:report', async () => expect(await leaseOf(locks, 'acme:report')).toBe(5_000));
  });

  it('are those of the resource with a `key` function', async () => {
    const locks = start({ goods: { ttlMs: 10_000 } }, { clock, key: () => 'order:1' });
    await locks.using('goods:1', async () => expect(await leaseOf(locks, 'goods:1')).toBe(10_000));
  });

  it('have a waitMs', async () => {
    const locks = start({ goods: { waitMs: 0 } }, { clock });
    await locks.acquire('goods:1');
    await locks.acquire('order:1');
    await expect(locks.acquire('goods:1')).rejects.toThrow(LockTimeoutError);
    const waiting = outcome(locks.acquire('order:1'));
    await clock.advance(4_900);
    expect(waiting).toEqual({});
    await clock.advance(200);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
  });

  it('say what happens to a call of a @Locked method that gets no lock', async () => {
    const onBusy = function (this: unknown, error: LockTimeoutError, ...args: never[]) {
      return [this, error.resource, args];
    };
    const locks = start({ goods: { waitMs: 0, onBusy }, order: { waitMs: 0, onBusy: 'skip' } }, { clock });
    class Shop {
      @Locked('goods:<id>')
      async buy(id: number): Promise<unknown> {
        return id;
      }

      @Locked('goods:<id>', { onBusy: 'throw' })
      async sell(id: number): Promise<unknown> {
        return id;
      }

      @Locked('order:<id>')
      async order(id: number): Promise<unknown> {
        return id;
      }
    }
    const shop = withLocks(new Shop(), locks);
    await locks.acquire('goods:1');
    await locks.acquire('order:1');
    expect(await shop.buy(1)).toEqual([shop, 'goods:1', [1]]);
    expect(await shop.order(1)).toBeUndefined();
    await expect(shop.sell(1)).rejects.toThrow(LockTimeoutError);
    await expect(locks.acquire('goods:1')).rejects.toThrow(LockTimeoutError);
  });

  it('say what happens to a call of a @Locked method without Redis', async () => {
    const bench = createTestBench({ families: { price: { onUnavailable: ({ code }) => code } } });
    class Prices {
      @Locked('price:<id>')
      async price(id: number): Promise<unknown> {
        return id;
      }

      @Locked('price:<id>', { onUnavailable: 'throw' })
      async exact(id: number): Promise<unknown> {
        return id;
      }
    }
    const prices = withLocks(new Prices(), bench.locks);
    bench.unavailable();
    expect(await prices.price(1)).toBe('LOCK_UNAVAILABLE');
    await expect(prices.exact(1)).rejects.toThrow(LockUnavailableError);
    await expect(bench.locks.acquire('price:1')).rejects.toThrow(LockUnavailableError);
  });

  it('limit the lease after a release by force', async () => {
    const locks = start({ goods: { ttlMs: 10_000 } }, { clock });
    const forceRelease = jest.spyOn(locks.engine, 'forceRelease');
    await locks.forceRelease('goods:1');
    await locks.forceRelease('order:1');
    expect(forceRelease.mock.calls.map(([, leaseMs]) => leaseMs)).toEqual([10_000, 30_000]);
  });

  it('make options of a method possible that the options of the module refuse', async () => {
    const locks = start({ goods: { maxHoldMs: 60_000 } }, { maxHoldMs: 10_000, clock });
    class Shop {
      @Locked('goods:<id>', { minHoldMs: 20_000 })
      async buy(id: number): Promise<string> {
        return `bought ${id}`;
      }

      @Locked('order:<id>', { minHoldMs: 20_000 })
      async order(id: number): Promise<string> {
        return `ordered ${id}`;
      }
    }
    const shop = withLocks(new Shop(), locks);
    expect(await shop.buy(1)).toBe('bought 1');
    await expect(shop.order(1)).rejects.toThrow('minHoldMs is 20000; expected at most maxHoldMs, which is 10000');
  });

  const wrong: [what: string, families: unknown, message: string][] = [
    ['no object', ['goods'], 'families is'],
    ['a resource', { 'goods:300': {} }, '"goods:300" is not a family; expected the first segment of resources'],
    ['an empty name', { '': {} }, 'expected the first segment of resources'],
    ['no options', { goods: 10_000 }, 'families of RedisLockModule: goods is 10000; expected an object like'],
    ['an unknown option', { goods: { ttl: 1 } }, 'families of RedisLockModule: goods: there is no option ttl'],
    ['a wrong value', { goods: { ttlMs: 1 } }, 'families of RedisLockModule: goods: ttlMs is 1; expected'],
    ['an option of one call', { goods: { permits: 2 } }, 'there is no option permits'],
    ['a wrong onBusy', { goods: { onBusy: 'wait' } }, '"throw", "skip" or a function'],
    ['times that do not fit', { goods: { minHoldMs: 5, maxHoldMs: 4 } }, 'goods: minHoldMs is 5; expected at most'],
  ];

  it.each(wrong)('are refused at start for %s', (_what, families, message) => {
    expect(() => start(families)).toThrow(LockConfigError);
    expect(() => start(families)).toThrow(message);
  });

  it('are refused at start for a lease that the store does not have', () => {
    const families = { goods: { ttlMs: 1_500 } };
    expect(() => LockRuntime.start({ store: timestamp({ unit: 's' }), families })).toThrow(LockConfigError);
  });

  it('may be undefined, and may have any name', async () => {
    const families: Record<string, FamilyOptions | undefined> = { goods: undefined, constructor: { ttlMs: 10_000 } };
    const locks = start(families, { clock });
    await locks.using('constructor:1', async () => expect(await leaseOf(locks, 'constructor:1')).toBe(10_000));
    await locks.using('toString:1', async () => expect(await leaseOf(locks, 'toString:1')).toBe(30_000));
  });

  it.each([undefined, {}, { goods: undefined }])('cost a call one comparison if there are none: %j', (families) => {
    const locks = start(families);
    const get = (): never => {
      throw new Error('the resource was read');
    };
    expect(locks.defaultsOf(new Proxy([], { get }))).toBe(locks.defaultsOf('goods:1'));
  });
});
