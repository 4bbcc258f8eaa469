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
  LockParam,
  LockScope,
  LockService,
  memory,
  RedisLockModule,
} from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { closeApps, startApp } from './support/app.js';
import { Room } from './support/room.js';
import { Foreign } from './support/wrappers.js';

type Decoration = () => unknown;

/** Returns what loads a class whose method has these decorators, the first one on top. */
const withMethod =
  (method: (...args: never[]) => unknown, ...decorators: readonly unknown[]): Decoration =>
  () => {
    class GoodsService {
      readonly goods = 300;
    }
    const { prototype } = GoodsService;
    Object.defineProperty(prototype, 'buy', { value: method, configurable: true, writable: true });
    // What the compiler makes of decorators.
    const descriptor = Object.getOwnPropertyDescriptor(prototype, 'buy') as PropertyDescriptor;
    const apply = (given: PropertyDescriptor, decorate: unknown): PropertyDescriptor =>
      ((decorate as MethodDecorator)(prototype, 'buy', given) as PropertyDescriptor | undefined) ?? given;
    Object.defineProperty(prototype, 'buy', decorators.reduceRight(apply, descriptor));
    return GoodsService;
  };

/** The same for a method with the parameters `id` and `size`. */
const onBuy = (...decorators: readonly unknown[]): Decoration =>
  withMethod(async (id: number, size: string) => size + id, ...decorators);

type Failure = typeof LockConfigError | typeof LockKeyError;

const cases: [string, Failure, RegExp, Decoration][] = [
  [
    'two @Locked on one method',
    LockConfigError,
    /^GoodsService\.buy: there is a second @Locked/,
    onBuy(Locked('goods:<id>'), Locked('shop')),
  ],
  [
    'two @Locked with a wrapper without metadata between them',
    LockConfigError,
    /^GoodsService\.buy: there is a second @Locked/,
    onBuy(Locked('goods:<id>'), Foreign(), Locked('shop')),
  ],
  [
    'a static method',
    LockConfigError,
    /^GoodsService\.buy: .*static/,
    () => {
      class GoodsService {
        @Locked('goods')
        static async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    'an asynchronous generator',
    LockConfigError,
    /^GoodsService\.buy: .*generator/,
    () => {
      class GoodsService {
        // @ts-expect-error -- does not compile
        @Locked('goods')
        async *buy(): AsyncGenerator<number> {
          yield 1;
        }
      }
      return GoodsService;
    },
  ],
  [
    'an accessor',
    LockConfigError,
    /^GoodsService\.stock: .*above a method/,
    () => {
      class GoodsService {
        @(Locked('goods') as MethodDecorator)
        get stock(): number {
          return 1;
        }
      }
      return GoodsService;
    },
  ],
  [
    'an empty list',
    LockKeyError,
    /^GoodsService\.buy: the list of @Locked is an empty array: there is nothing to lock/,
    onBuy(Locked([])),
  ],
  [
    'a placeholder that names no parameter',
    LockKeyError,
    /^GoodsService\.buy: <ident> in 'goods:<ident>' names no parameter\. Names that can be bound: id, size\./,
    () => {
      class GoodsService {
        @Locked('goods:<ident>')
        async buy(id: number, size: string): Promise<string> {
          return size + id;
        }
      }
      return GoodsService;
    },
  ],
  [
    'a placeholder for a parameter with @CurrentLock',
    LockKeyError,
    /^GoodsService\.buy: <lock>.*names no parameter/,
    () => {
      class GoodsService {
        @Locked('goods:<lock>')
        async buy(@CurrentLock() lock: unknown): Promise<unknown> {
          return lock;
        }
      }
      return GoodsService;
    },
  ],
  ['a template with a mistake', LockKeyError, /GoodsService\.buy/, onBuy(Locked('goods:{}:<id>'))],
  [
    'two parameters with one name',
    LockKeyError,
    /^GoodsService\.buy: two parameters are named @LockParam\('id'\)/,
    () => {
      class GoodsService {
        @Locked('goods:<id>')
        async buy(@LockParam('id') a: number, @LockParam('id') b: number): Promise<number> {
          return a + b;
        }
      }
      return GoodsService;
    },
  ],
  [
    'an option value that is not allowed',
    LockConfigError,
    /^@Locked of GoodsService\.buy: ttlMs is 1; expected/,
    onBuy(Locked('goods', { ttlMs: 1 })),
  ],
  [
    'an unknown option',
    LockConfigError,
    /^@Locked of GoodsService\.buy: unknown option ttl; expected ttlMs, .*, name, onBusy, onUnavailable\.$/,
    onBuy(Locked('goods', { ttl: 1000 } as LockedOptions)),
  ],
  [
    'a minHoldMs that is longer than maxHoldMs',
    LockConfigError,
    /^@Locked of GoodsService\.buy: minHoldMs is 10000; expected at most maxHoldMs, which is 5000\.$/,
    onBuy(Locked('goods', { minHoldMs: 10_000, maxHoldMs: 5_000 })),
  ],
  [
    'an unknown onUnavailable',
    LockConfigError,
    /^@Locked of GoodsService\.buy: onUnavailable is "run"; expected "throw", "skip" or a function/,
    onBuy(Locked('goods', { onUnavailable: 'run' as 'skip' })),
  ],
  [
    '@LockScope: a second one',
    LockConfigError,
    /^GoodsService\.buy: there is a second @LockScope/,
    onBuy(LockScope(), LockScope()),
  ],
  [
    '@LockScope: a generator',
    LockConfigError,
    /^GoodsService\.buy: .*generator/,
    withMethod(async function* buy() {}, LockScope()),
  ],
  [
    '@LockScope: an unknown option',
    LockConfigError,
    /^@LockScope of GoodsService\.buy: unknown option onlost/,
    onBuy(LockScope({ onlost: 'ignore' } as object)),
  ],
  [
    '@LockScope: an option that is not allowed',
    LockConfigError,
    /onLost is .*no.*; expected/,
    onBuy(LockScope({ onLost: 'no' as never })),
  ],
];

describe('@Locked throws at decoration and names the method', () => {
  it.each(cases)('for %s', (_what, type, message, decorate) => {
    let error: unknown;
    try {
      decorate();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(type);
    expect((error as Error).message).toMatch(message);
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

  it('does not compile with a key function that has other parameters', () => {
    class GoodsService {
      // @ts-expect-error -- the method takes a number
      @Locked((id: string) => `goods:${id}`)
      buy(id: number): number {
        return id;
      }

      @Locked((id: number) => `goods:${id}`)
      async sell(id: number, _size: string): Promise<number> {
        return id;
      }
    }
    expect(GoodsService).toBeDefined();
  });

  it('compiles with a promise or an Observable only', () => {
    class GoodsService<T extends Promise<number>> {
      @Locked('goods')
      never(): never {
        throw new Error('sold out');
      }

      @Locked('goods')
      // oxlint-disable-next-line no-explicit-any -- compiles, too
      any(): any {}

      @Locked('goods')
      like(): PromiseLike<number> {
        return Promise.resolve(1);
      }

      @Locked('goods:<value>')
      generic(value: T): T {
        return value;
      }

      @Locked('goods:<value>')
      async method<V>(value: V): Promise<V> {
        return value;
      }

      @Locked('goods')
      observable(): Observable<number> {
        return of(1);
      }

      overloaded(id: number): Promise<number>;
      overloaded(id: string): Promise<string>;
      @Locked('goods:<id>')
      async overloaded(id: number | string): Promise<number | string> {
        return id;
      }

      // @ts-expect-error -- its callers would get a promise
      @Locked('goods')
      inferred() {
        return true;
      }

      // @ts-expect-error -- a busy lock would be an unhandled rejection
      @Locked('goods')
      nothing(): void {}

      // @ts-expect-error -- either a promise or a value
      @Locked('goods')
      union(): Promise<number> | number {
        return 1;
      }
    }
    expect(GoodsService).toBeDefined();
  });

  it('throws at decoration with both mode and permits', () => {
    const load = (): unknown => {
      class GoodsService {
        @Locked((id: number) => `goods:${id}`, { mode: 'shared', permits: 2, onBusy: 'throw' })
        async buy(id: number): Promise<number> {
          return id;
        }
      }
      return GoodsService;
    };
    expect(load).toThrow('@Locked of GoodsService.buy: mode and permits are both set; use only one of them.');
  });

  it('does not compile if the result cannot be what onBusy or onUnavailable returns', () => {
    class GoodsService {
      // @ts-expect-error -- the call may return undefined
      @Locked('goods', { onBusy: 'skip' })
      async skipped(): Promise<string> {
        return 'sold';
      }

      // @ts-expect-error -- the call may return a number
      @Locked('goods', { onUnavailable: async () => 5 })
      async replaced(): Promise<string> {
        return 'sold';
      }

      @Locked('goods', { onBusy: 'skip', onUnavailable: (error) => error.message })
      async either(): Promise<string | undefined> {
        return 'sold';
      }

      @Locked('goods', { onBusy: () => of('busy'), onUnavailable: () => 'down' })
      stream(): Observable<string> {
        return of('sold');
      }

      @Locked('goods', { onBusy: 'skip' })
      async nothing(): Promise<void> {}

      @Locked('goods', { onBusy: 'throw' })
      async thrown(): Promise<string> {
        return 'sold';
      }
    }
    expect(GoodsService).toBeDefined();
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
