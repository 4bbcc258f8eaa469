import 'reflect-metadata';
import { SetMetadata } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Observable, of } from 'rxjs';
import ts from 'typescript';
import {
  CurrentLock,
  Locked,
  type LockedDecorator,
  LockConfigError,
  LockKeyError,
  type LockedOptions,
  LockParam,
  LockScope,
} from 'nestjs-redis-lock';

type Decoration = () => unknown;

const cases: [string, typeof LockConfigError | typeof LockKeyError, RegExp, Decoration][] = [
  [
    'two @Locked on one method',
    LockConfigError,
    /^GoodsService\.buy: there is a second @Locked/,
    () => {
      class GoodsService {
        @Locked('goods:<id>')
        @Locked('shop')
        async buy(id: number): Promise<number> {
          return id;
        }
      }
      return GoodsService;
    },
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
    'a generator',
    LockConfigError,
    /^GoodsService\.buy: .*generator/,
    () => {
      class GoodsService {
        // @ts-expect-error -- does not compile
        @Locked('goods')
        *buy(): Generator<number> {
          yield 1;
        }
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
    /^GoodsService\.swap: the list of @Locked is an empty array: there is nothing to lock/,
    () => {
      class GoodsService {
        @Locked([])
        async swap(from: number, to: number): Promise<number> {
          return from + to;
        }
      }
      return GoodsService;
    },
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
    'a placeholder for a destructured parameter',
    LockKeyError,
    /^GoodsService\.buy: <size\.height> .* names no parameter\. .*destructured parameter: write <1\.of\.height>\.$/,
    () => {
      class GoodsService {
        @Locked('goods:<size.height>')
        async buy(id: number, { of: size }: { of: { height: number } }): Promise<number> {
          return size.height * id;
        }
      }
      return GoodsService;
    },
  ],
  [
    'a name that a destructured parameter does not have',
    LockKeyError,
    /^GoodsService\.buy: <dto\.id> .*Parts of destructured parameters: <0\.id>, <0\.size>\./,
    () => {
      class GoodsService {
        @Locked('goods:<dto.id>')
        async buy({ id, size }: { id: number; size: number }): Promise<number> {
          return size * id;
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
  [
    'a template with a mistake',
    LockKeyError,
    /GoodsService\.buy/,
    () => {
      class GoodsService {
        @Locked('goods:{}:<id>')
        async buy(id: number): Promise<number> {
          return id;
        }
      }
      return GoodsService;
    },
  ],
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
    () => {
      class GoodsService {
        @Locked('goods', { ttlMs: 1 })
        async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    'an unknown option',
    LockConfigError,
    /^@Locked of GoodsService\.buy: there is no option ttl \(did you mean ttlMs\?\); there are ttlMs, .*, name, onBusy, onUnavailable\.$/,
    () => {
      class GoodsService {
        @Locked('goods', { ttl: 1000 } as LockedOptions)
        async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    'a minHoldMs that is longer than maxHoldMs',
    LockConfigError,
    /^@Locked of GoodsService\.buy: minHoldMs is 10000; expected at most maxHoldMs, which is 5000\.$/,
    () => {
      class GoodsService {
        @Locked('goods', { minHoldMs: 10_000, maxHoldMs: 5_000 })
        async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    'an unknown onBusy',
    LockConfigError,
    /^@Locked of GoodsService\.buy: onBusy is "wait"; expected "throw", "skip" or a function/,
    () => {
      class GoodsService {
        @Locked('goods', { onBusy: 'wait' as 'skip' })
        async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    'an unknown onUnavailable',
    LockConfigError,
    /^@Locked of GoodsService\.buy: onUnavailable is "run"; expected "throw", "skip" or a function/,
    () => {
      class GoodsService {
        @Locked('goods', { onUnavailable: 'run' as 'skip' })
        async buy(): Promise<void> {}
      }
      return GoodsService;
    },
  ],
  [
    '@LockScope: a second one',
    LockConfigError,
    /^GoodsService\.buy: there is a second @LockScope/,
    () => {
      class GoodsService {
        @LockScope()
        @LockScope()
        buy(): void {}
      }
      return GoodsService;
    },
  ],
  [
    '@LockScope: a generator',
    LockConfigError,
    /^GoodsService\.buy: .*generator/,
    () => {
      class GoodsService {
        @LockScope()
        async *buy(): AsyncGenerator<number> {
          yield 1;
        }
      }
      return GoodsService;
    },
  ],
  [
    '@LockScope: an accessor',
    LockConfigError,
    /^GoodsService\.goods: .*above a method/,
    () => {
      class GoodsService {
        @LockScope()
        get goods(): number {
          return 1;
        }
      }
      return GoodsService;
    },
  ],
  [
    '@LockScope: an unknown option',
    LockConfigError,
    /^@LockScope of GoodsService\.buy: there is no option onlost/,
    () => {
      class GoodsService {
        @LockScope({ onlost: 'ignore' } as object)
        buy(): void {}
      }
      return GoodsService;
    },
  ],
  [
    '@LockScope: an option that is not allowed',
    LockConfigError,
    /onLost is .*no.*; expected/,
    () => {
      class GoodsService {
        @LockScope({ onLost: 'no' as never })
        buy(): void {}
      }
      return GoodsService;
    },
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

  it('does not compile with both mode and permits, and throws at decoration', () => {
    const load = (): unknown => {
      class GoodsService {
        // @ts-expect-error -- a semaphore has no mode
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

  it("compiles with a key function for a class's type parameter, and as a decorator of the team", () => {
    interface HasId {
      readonly id: string;
    }
    const ofTeam = (): LockedDecorator => Locked('team');
    class Crud<T extends HasId> {
      @Locked((dto: HasId) => `item:${dto.id}`)
      async save(dto: T): Promise<T> {
        return dto;
      }

      @ofTeam()
      async list(): Promise<T[]> {
        return [];
      }
    }
    expect(Crud).toBeDefined();
  });
});
