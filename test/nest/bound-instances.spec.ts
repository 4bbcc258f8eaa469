import { Injectable, Scope } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  bindLocks,
  CurrentLock,
  getLockServiceToken,
  type Lock,
  Locked,
  LockService,
  memory,
  RedisLockModule,
} from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { closeApps, startApp } from './support/app.js';

@Injectable()
class Stock {
  @Locked('goods:<id>')
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }

  @Locked('report:<id>', { name: 'reports' })
  async report(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }
}

const start = () =>
  startApp({
    lockModules: () => [
      RedisLockModule.forRoot({ store: memory(), prefix: 'main_' }),
      RedisLockModule.forRoot({ store: memory(), prefix: 'reports_', name: 'reports' }),
    ],
    providers: [
      { provide: Stock, useFactory: () => new Stock() },
      { provide: 'value', useValue: new Stock() },
      {
        provide: 'bound',
        useFactory: (locks: LockService) => bindLocks(new Stock(), locks),
        inject: [LockService],
        scope: Scope.REQUEST,
      },
    ],
  });

afterEach(closeApps);

describe('an instance that Nest did not make from a class', () => {
  it.each([
    ['useFactory', Stock],
    ['useValue', 'value'],
  ])('has an error that says what to do, until it is bound: %s', async (_kind, token) => {
    const app = await start();
    const stock = app.nest.get<Stock>(token);
    await expect(stock.buy(7)).rejects.toMatchObject({
      code: 'LOCK_CONFIG',
      message: expect.stringMatching(/Stock\.buy is @Locked.*a factory, a value.*bindLocks\(instance, locks\)/),
    });
    const { locks, nest } = app;
    expect(await bindLocks(stock, locks).buy(7)).toBe('7 {main_goods}:7');
    const reports = nest.get<LockService>(getLockServiceToken('reports'));
    expect(await bindLocks(stock, reports, 'reports').report(7)).toBe('7 {reports_report}:7');
  });

  it('can be bound by its factory, for each request', async () => {
    const app = await start();
    const [one, other] = [await app.nest.resolve<Stock>('bound'), await app.nest.resolve<Stock>('bound')];
    expect(one).not.toBe(other);
    expect(await Promise.all([one.buy(7), other.buy(8)])).toEqual(['7 {main_goods}:7', '8 {main_goods}:8']);
  });

  it('has both services if ModuleRef.create() makes it from a class', async () => {
    const app = await start();
    const stock = await app.nest.get(ModuleRef).create(Stock);
    expect([await stock.buy(7), await stock.report(7)]).toEqual(['7 {main_goods}:7', '7 {reports_report}:7']);
  });
});

describe('bindLocks()', () => {
  it('refuses what is neither an instance, a lock service nor a name', () => {
    const locks = createTestLocks();
    const stock = new Stock();
    expect(() => bindLocks(7 as never, locks)).toThrow(/bindLocks\(\): the instance is 7; expected an object/);
    expect(() => bindLocks(Object.freeze(new Stock()), locks)).toThrow(/expected an object/);
    expect(() => bindLocks(stock, {} as never)).toThrow(/the lock service is a plain object; expected a LockService/);
    expect(() => bindLocks(stock, locks, '')).toThrow(/bindLocks\(\): name is ""/);
  });
});
