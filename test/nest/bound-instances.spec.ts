import { Inject, Injectable, Module, Scope } from '@nestjs/common';
import { ContextIdFactory, ModuleRef, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { bindLocks, CurrentLock, type Lock, Locked, LockService, memory, RedisLockModule } from 'nestjs-redis-lock';
import { createTestLocks, RedisLockTestingModule, withLocks } from 'nestjs-redis-lock/testing';
import { closeApps, startApp } from './support/app.js';

class Catalogue {
  readonly goods = new Set<number>();
}

/** No class of Nest: factories and values make it. */
class Stock {
  constructor(readonly catalogue: Catalogue) {}

  @Locked('goods:<id>')
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }

  @Locked('report:<id>', { name: 'reports' })
  async report(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }
}

class SubStock extends Stock {}

const inject = [Catalogue];
const make = (catalogue: Catalogue): Stock => new Stock(catalogue);
const makeLater = async (catalogue: Catalogue): Promise<Stock> => {
  await new Promise((resolve) => setImmediate(resolve));
  return new SubStock(catalogue);
};

/** Nest makes it once for each user. */
@Injectable()
class Shop {
  constructor(
    @Inject('transient') readonly stock: Stock,
    @Inject('list') readonly list: Stock[],
  ) {}
}

const providers = [
  Catalogue,
  Shop,
  { provide: Stock, useFactory: make, inject },
  { provide: 'later', useFactory: makeLater, inject },
  { provide: 'value', useValue: new Stock(new Catalogue()) },
  { provide: 'alias', useExisting: 'value' },
  { provide: 'transient', useFactory: make, inject, scope: Scope.TRANSIENT },
  { provide: 'request', useFactory: make, inject: [Catalogue, REQUEST], scope: Scope.REQUEST },
  { provide: 'request later', useFactory: makeLater, inject: [Catalogue, REQUEST], scope: Scope.REQUEST },
  { provide: 'list', useFactory: (catalogue: Catalogue) => [make(catalogue)], inject },
  { provide: 'frozen', useFactory: () => Object.freeze(make(new Catalogue())) },
];

const start = () =>
  startApp({
    lockModules: () => [
      RedisLockModule.forRoot({ store: memory(), prefix: 'main_' }),
      RedisLockModule.forRoot({ store: memory(), prefix: 'reports_', name: 'reports' }),
    ],
    providers,
  });

const BOTH = ['7 {main_goods}:7', '7 {reports_report}:7'];
const callBoth = (stock: Stock): Promise<unknown[]> => Promise.all([stock.buy(7), stock.report(7)]);

afterEach(closeApps);

describe('an instance that Nest did not make from a class', () => {
  it.each([
    ['useFactory', Stock],
    ['an asynchronous factory', 'later'],
    ['useValue', 'value'],
    ['useExisting', 'alias'],
  ])('gets the services that its methods name: %s', async (_kind, token) => {
    const app = await start();
    expect(await callBoth(app.nest.get<Stock>(token))).toEqual(BOTH);
  });

  it.each(['transient', 'request', 'request later'])('gets them if it is made later: %s', async (token) => {
    const app = await start();
    const [one, other] = [
      await app.nest.resolve<Stock>(token, ContextIdFactory.create()),
      await app.nest.resolve<Stock>(token, ContextIdFactory.create()),
    ];
    expect(one).not.toBe(other);
    expect(await callBoth(one)).toEqual(BOTH);
    expect(await callBoth(other)).toEqual(BOTH);
  });

  it('gets them if it is injected as a transient provider', async () => {
    const app = await start();
    expect(await callBoth(app.nest.get(Shop).stock)).toEqual(BOTH);
  });

  it('gets them from ModuleRef.create()', async () => {
    const app = await start();
    expect(await callBoth(await app.nest.get(ModuleRef).create(SubStock))).toEqual(BOTH);
  });

  it('gets them in a testing module that is only compiled', async () => {
    const imports = [RedisLockTestingModule.forRoot(), RedisLockTestingModule.forRoot({ name: 'reports' })];
    const module = await Test.createTestingModule({ imports, providers }).compile();
    for (const token of [Stock, 'value']) {
      expect(await module.get<Stock>(token).buy(7)).toMatch(/^7 /);
    }
    await module.close();
  });

  it('belongs to the application that started last', async () => {
    await start();
    const stock = (await start()).nest.get<Stock>('value');
    expect(await callBoth(stock)).toEqual(BOTH);
    await closeApps();
    await expect(stock.buy(7)).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
    expect(await callBoth((await start()).nest.get<Stock>('value'))).toEqual(BOTH);
  });

  it('keeps the service that bindLocks() or withLocks() has given it', async () => {
    const locks = createTestLocks({ prefix: 'own_' });
    const stock = bindLocks(withLocks(new Stock(new Catalogue()), locks, 'reports'), locks);
    const lockModules = () => ['default', 'reports'].map((name) => RedisLockModule.forRoot({ store: memory(), name }));
    const app = await startApp({ lockModules, providers: [{ provide: Stock, useValue: stock }] });
    expect(await callBoth(app.nest.get(Stock))).toEqual(['7 {own_goods}:7', '7 {own_report}:7']);
  });

  it('gets the service that Nest would inject in its module', async () => {
    const locksOf = (prefix: string, isGlobal: boolean) =>
      RedisLockModule.forRoot({ store: memory(), prefix, isGlobal });
    @Module({ imports: [locksOf('feature_', false)], exports: [RedisLockModule] })
    class FeatureLocks {}
    @Module({ imports: [FeatureLocks], providers: [{ provide: Stock, useFactory: () => make(new Catalogue()) }] })
    class Feature {}
    const app = await startApp({ lockModules: () => [locksOf('global_', true)], imports: [Feature] });
    expect(await app.nest.get(Stock).buy(7)).toBe(`7 {feature_goods}:7`);
  });

  it('gets a service that its module itself provides', async () => {
    const own = { provide: LockService, useValue: createTestLocks({ prefix: 'own_' }) };
    @Module({ providers: [own, { provide: Stock, useFactory: () => make(new Catalogue()) }] })
    class Feature {}
    const lockModules = () => [RedisLockModule.forRoot({ store: memory(), prefix: 'global_', isGlobal: true })];
    const app = await startApp({ lockModules, imports: [Feature] });
    expect(await app.nest.get(Stock).buy(7)).toBe('7 {own_goods}:7');
  });

  it.each([
    ['in a list', (shop: Shop) => shop.list[0]],
    ['made by hand', (shop: Shop) => new Stock(shop.stock.catalogue)],
  ])('has an error that says what to do, until it is bound: %s', async (_kind, stockOf) => {
    const app = await start();
    const stock = stockOf(app.nest.get(Shop));
    await expect(stock.buy(7)).rejects.toMatchObject({
      code: 'LOCK_CONFIG',
      message: expect.stringMatching(/Stock\.buy is @Locked.*bindLocks\(instance, locks\)/),
    });
    expect(await bindLocks(stock, app.nest.get(LockService)).buy(7)).toBe('7 {main_goods}:7');
  });

  it('has that error if it is frozen', async () => {
    const app = await start();
    await expect(app.nest.get<Stock>('frozen').buy(7)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
  });
});

describe('bindLocks()', () => {
  it('refuses what is neither an instance, a lock service nor a name', () => {
    const locks = createTestLocks();
    const stock = new Stock(new Catalogue());
    expect(() => bindLocks(7 as never, locks)).toThrow(/bindLocks\(\): the instance is 7; expected an object/);
    expect(() => bindLocks(stock, {} as never)).toThrow(/the lock service is a plain object; expected a LockService/);
    expect(() => bindLocks(stock, locks, '')).toThrow(/bindLocks\(\): name is ""/);
  });
});
