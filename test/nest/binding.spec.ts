import 'reflect-metadata';
import { Injectable, Scope, SetMetadata } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Observable, of } from 'rxjs';
import ts from 'typescript';
import {
  bindLocks,
  CurrentLock,
  getLockServiceToken,
  type Lock,
  LockConfigError,
  Locked,
  type LockedOptions,
  LockKeyError,
  LockScope,
  LockService,
  memory,
  RedisLockModule,
} from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { closeApps, startApp } from './support/app.js';
import { stack } from './support/goods-controller.js';
import { Room } from './support/room.js';
import { Foreign } from './support/wrappers.js';

/** Returns what loads a class whose method `buy(id, size)` has these decorators, the first one on top. */
const onBuy =
  (...decorators: readonly unknown[]) =>
  (): unknown => {
    class GoodsService {
      @stack(...decorators)
      async buy(id: number, size: string): Promise<string> {
        return size + id;
      }
    }
    return GoodsService;
  };

/** Returns what decorates this member of a class. */
const onMember =
  (decorator: unknown, member: PropertyDescriptor, isStatic = false) =>
  (): unknown => {
    class GoodsService {
      readonly goods = 300;
    }
    return (decorator as MethodDecorator)(isStatic ? GoodsService : GoodsService.prototype, 'buy', member);
  };
const generator = { value: async function* buy() {} };

describe('a mistake in a decorator', () => {
  it.each<[message: string | RegExp, load: () => unknown, type?: typeof LockConfigError | typeof LockKeyError]>([
    ['GoodsService.buy: there is a second @Locked', onBuy(Locked('goods:<id>'), Locked('shop'))],
    ['GoodsService.buy: there is a second @Locked', onBuy(Locked('goods:<id>'), Foreign(), Locked('shop'))],
    ['GoodsService.buy: there is a second @LockScope', onBuy(LockScope(), LockScope())],
    [/^GoodsService\.buy: .*static/, onMember(Locked('goods'), { value: async () => undefined }, true)],
    [/^GoodsService\.buy: .*generator/, onMember(Locked('goods'), generator)],
    [/^GoodsService\.buy: .*generator/, onMember(LockScope(), generator)],
    [/^GoodsService\.buy: .*above a method/, onMember(Locked('goods'), { get: () => 1 })],
    [/^GoodsService\.buy: the list of @Locked is an empty array: there is nothing/, onBuy(Locked([])), LockKeyError],
    [/GoodsService\.buy/, onBuy(Locked('goods:{}:<id>')), LockKeyError],
    ['@Locked of GoodsService.buy: ttlMs is 1; expected', onBuy(Locked('goods', { ttlMs: 1 }))],
    [
      /^@Locked of GoodsService\.buy: unknown option ttl; expected ttlMs, .*, name, onBusy, onUnavailable\.$/,
      onBuy(Locked('goods', { ttl: 1000 } as LockedOptions)),
    ],
    [
      '@Locked of GoodsService.buy: mode and permits are both set; use only one of them.',
      onBuy(Locked('goods', { mode: 'shared', permits: 2 })),
    ],
    [
      '@Locked of GoodsService.buy: minHoldMs is 10000; expected at most maxHoldMs, which is 5000.',
      onBuy(Locked('goods', { minHoldMs: 10_000, maxHoldMs: 5_000 })),
    ],
    [
      '@Locked of GoodsService.buy: onUnavailable is "run"; expected "throw", "skip" or a function',
      onBuy(Locked('goods', { onUnavailable: 'run' as 'skip' })),
    ],
    ['@LockScope of GoodsService.buy: unknown option onlost', onBuy(LockScope({ onlost: 'ignore' } as object))],
    [/onLost is .*no.*; expected/, onBuy(LockScope({ onLost: 'no' as never }))],
  ])('throws when the class is loaded: %s', (message, load, type = LockConfigError) => {
    expect(load).toThrow(type);
    expect(load).toThrow(message);
  });
});

describe('a standard decorator', () => {
  it.each<[string, unknown]>([
    ['@Locked', Locked('goods:<id>')],
    ['@LockScope', LockScope()],
  ])('is refused with the names of the compiler options: %s', (name, decorator) => {
    const source = `class GoodsService { @decorator async buy(id) {} }`;
    const { outputText } = ts.transpileModule(source, { compilerOptions: { target: ts.ScriptTarget.ES2022 } });
    // oxlint-disable-next-line no-implied-eval -- a class as a compiler without the option emits it
    const define = new Function('decorator', outputText) as (given: unknown) => void;
    expect(() => define(decorator)).toThrow(LockConfigError);
    expect(() => define(decorator)).toThrow(
      new RegExp(`^buy: ${name} was called as a standard decorator.*"experimentalDecorators": true.*tsconfig\\.json`),
    );
  });
});

describe('@Locked', () => {
  it('keeps the name, length and metadata of the method', () => {
    class GoodsService {
      @SetMetadata('above', 1)
      @Locked('goods:<id>')
      @SetMetadata('below', 2)
      async buy(id: number, size: string): Promise<string> {
        return size + id;
      }
    }
    const buy = Object.getOwnPropertyDescriptor(GoodsService.prototype, 'buy')?.value as () => unknown;
    expect([buy.name, buy.length]).toEqual(['buy', 2]);
    expect([Reflect.getMetadata('above', buy), Reflect.getMetadata('below', buy)]).toEqual([1, 2]);
    expect(Reflect.getMetadata('design:paramtypes', GoodsService.prototype, 'buy')).toEqual([Number, String]);
  });
});

describe('what compiles', () => {
  /** Returns a method as the decorators of a class get it. */
  const method = <M>(): TypedPropertyDescriptor<M> => ({});

  it('is a key function that has the parameters of the method, or fewer', () => {
    const types = (): void => {
      // @ts-expect-error -- the method takes a number
      Locked((id: string) => `goods:${id}`)({}, 'buy', method<(id: number) => Promise<number>>());
      Locked((id: number) => `goods:${id}`)({}, 'buy', method<(id: number, size: string) => Promise<number>>());
    };
    expect(types).toBeDefined();
  });

  it('is a method that returns a promise or an Observable', () => {
    const types = (): void => {
      const locked = Locked('goods');
      locked({}, 'buy', method<() => never>());
      // oxlint-disable-next-line no-explicit-any -- compiles, too
      locked({}, 'buy', method<() => any>());
      locked({}, 'buy', method<() => PromiseLike<number>>());
      locked({}, 'buy', method<<V>(value: V) => Promise<V>>());
      locked({}, 'buy', method<() => Observable<number>>());
      locked({}, 'buy', method<{ (id: number): Promise<number>; (id: string): Promise<string> }>());
      // @ts-expect-error -- its callers would get a promise
      locked({}, 'buy', method<() => boolean>());
      // @ts-expect-error -- a busy lock would be an unhandled rejection
      locked({}, 'buy', method<() => void>());
      // @ts-expect-error -- either a promise or a value
      locked({}, 'buy', method<() => Promise<number> | number>());
      // @ts-expect-error -- runs when somebody loops over it
      locked({}, 'buy', method<() => AsyncGenerator<number>>());
    };
    expect(types).toBeDefined();
  });

  it('is a method of a class with a type parameter', () => {
    class GoodsService<T extends Promise<number>> {
      @Locked('goods:<value>')
      generic(value: T): T {
        return value;
      }
    }
    expect(GoodsService).toBeDefined();
  });

  it('is a method whose result can be what onBusy or onUnavailable returns', () => {
    const types = (): void => {
      // @ts-expect-error -- the call may return undefined
      Locked('goods', { onBusy: 'skip' })({}, 'buy', method<() => Promise<string>>());
      // @ts-expect-error -- the call may return a number
      Locked('goods', { onUnavailable: async () => 5 })({}, 'buy', method<() => Promise<string>>());
      const either = { onBusy: 'skip', onUnavailable: (error: Error) => error.message } as const;
      Locked('goods', either)({}, 'buy', method<() => Promise<string | undefined>>());
      const stream = { onBusy: () => of('busy'), onUnavailable: () => 'down' };
      Locked('goods', stream)({}, 'buy', method<() => Observable<string>>());
      Locked('goods', { onBusy: 'skip' })({}, 'buy', method<() => Promise<void>>());
      Locked('goods', { onBusy: 'throw' })({}, 'buy', method<() => Promise<string>>());
    };
    expect(types).toBeDefined();
  });
});

@Injectable()
class Stock {
  readonly room = new Room();

  @Locked('goods:<id>')
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }

  @Locked('report:<id>', { name: 'reports' })
  async report(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }

  @Locked('goods:<id>')
  async stay(id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }

  @Locked('goods:<id>')
  watch(id: number): Observable<number> {
    return of(id);
  }
}

afterEach(closeApps);

describe('an instance that Nest did not make from a class', () => {
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

  const refused = {
    code: 'LOCK_CONFIG',
    message: expect.stringMatching(
      /Stock\.\w+ is @Locked.*useFactory.*useValue.*`new`, to bindLocks\(instance, locks\).*withLocks\(\)/,
    ),
  };

  it.each([
    ['useFactory', Stock],
    ['useValue', 'value'],
  ])('has an error that says what to do, until it is bound: %s', async (_kind, token) => {
    const app = await start();
    const stock = app.nest.get<Stock>(token);
    await expect(stock.buy(7)).rejects.toMatchObject(refused);
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

  it('rejects each call and runs no method if it was made with new', async () => {
    const stock = new Stock();
    await expect(stock.stay(1)).rejects.toMatchObject(refused);
    await expect(Reflect.apply(stock['stay'], undefined, [1])).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    expect(() => stock.watch(1)).toThrow(/withLocks/);
    expect(stock.room.visits).toBe(0);
  });

  it('gets a service from withLocks() in a unit test', async () => {
    const stock = withLocks(new Stock());
    const { room } = stock;
    const calls = [stock.stay(1), stock.stay(1)];
    (await room.next()).leave();
    (await room.next()).leave();
    expect(await Promise.all(calls)).toEqual([1, 1]);
    expect(room.most).toBe(1);
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
