import 'reflect-metadata';
import { SetMetadata } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import {
  CurrentLock,
  Locked,
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
        buy(id: number): number {
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
        static buy(): void {}
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
        swap(from: number, to: number): number {
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
        buy(id: number, size: string): string {
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
        buy(id: number, { of: size }: { of: { height: number } }): number {
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
        buy({ id, size }: { id: number; size: number }): number {
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
        buy(@CurrentLock() lock: unknown): unknown {
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
        buy(id: number): number {
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
        buy(@LockParam('id') a: number, @LockParam('id') b: number): number {
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
        buy(): void {}
      }
      return GoodsService;
    },
  ],
  [
    'an unknown option',
    LockConfigError,
    /^@Locked of GoodsService\.buy: there is no option ttl; there are ttlMs, .*, name, onBusy, onUnavailable\.$/,
    () => {
      class GoodsService {
        @Locked('goods', { ttl: 1000 } as LockedOptions)
        buy(): void {}
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
        buy(): void {}
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
        buy(): void {}
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
      buy(id: number, size: string): string {
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
      sell(id: number, _size: string): number {
        return id;
      }
    }
    expect(GoodsService).toBeDefined();
  });

  it('compiles with every other result, because handlers may return it', () => {
    class GoodsService {
      @Locked('goods')
      never(): never {
        throw new Error('sold out');
      }

      @Locked('goods')
      // oxlint-disable-next-line no-explicit-any -- compiles, too
      any(): any {}

      @Locked('goods')
      unknown(): unknown {
        return undefined;
      }

      @Locked('goods')
      boolean(): boolean {
        return true;
      }

      @Locked('goods')
      list(): number[] {
        return [];
      }
    }
    expect(GoodsService).toBeDefined();
  });
});
