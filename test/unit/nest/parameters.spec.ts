import { Body, createParamDecorator, Param, ParseIntPipe, Query, Req } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { describe, expect, it, jest } from '@jest/globals';
import { LockConfigError, LockKeyError } from '../../../lib/common/errors.js';
import { bindTemplate, CurrentLock, currentLockIndexes, LockParam, lockParams } from '../../../lib/nest/parameters.js';

type Method = (...args: never[]) => unknown;

/** Binds as `@Locked` does, and keeps what a call with the arguments would lock. */
function Bound(template: string, calls: string[], ...args: unknown[]): MethodDecorator {
  return (target, propertyKey, descriptor) => {
    calls.push(bindTemplate(template, target, propertyKey, descriptor.value as unknown as Method)(args) as string);
  };
}

/** What a method of another decorator looks like. */
function Wrapped(): MethodDecorator {
  return (_target, _key, descriptor) => {
    const original = descriptor.value as unknown as Method;
    descriptor.value = function (this: unknown, ...inner: never[]) {
      return original.apply(this, inner);
    } as never;
  };
}

const ByProxy = (): MethodDecorator => (_target, _key, descriptor) => {
  descriptor.value = new Proxy(descriptor.value as object, {}) as never;
};

class Empty {
  buy() {}
}

const User = createParamDecorator((data: string) => data);

function bindTo(target: object, name: string, template: string) {
  return bindTemplate(template, target, name, Reflect.get(target, name) as Method);
}

function errorOf(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('did not throw');
}

describe('bindTemplate', () => {
  it('refuses names of a wrapper in place of a method with a computed name', () => {
    const name = 'buy';
    class Goods {
      [name](other: string, id: string) {
        return [other, id];
      }
    }
    Object.defineProperty(Goods.prototype, 'buy', { value: (id: string) => id });
    expect(errorOf(() => bindTo(Goods.prototype, 'buy', 'g:<id>'))).toBeInstanceOf(LockKeyError);
  });

  it('binds names of the source', () => {
    const calls: string[] = [];
    class Goods {
      @Bound('g:<count>:<id>', calls, '7', 3)
      buy(id: string, count: number) {
        return [id, count];
      }
      @Bound('g:<id>', calls, {}, '7', 1)
      async order({ n }: { n?: number }, id: string, ...rest: number[]) {
        return [n, id, rest];
      }
      @Bound('g:<user.id>:<1.0>', calls, { id: 'u' }, ['x'])
      restock(user: { id: string }, list: string[]) {
        return [user, list];
      }
      @Bound('g:<id>', calls, 5)
      *[Symbol.iterator](id?: string) {
        yield id;
      }
      @Bound('report', calls)
      report() {}
    }
    expect(Goods).toBeDefined();
    expect(calls.toSorted()).toEqual(['g:3:7', 'g:5', 'g:7', 'g:u:x', 'report']);
  });

  it('binds by index, even without names', () => {
    const calls: string[] = [];
    class Goods {
      @Bound('g:<1>:<0.id>', calls, { id: 4 }, 'a')
      buy(...args: unknown[]) {
        return args;
      }
    }
    expect(calls).toEqual(['g:a:4']);
    const beyond = bindTo(Goods.prototype, 'buy', 'g:<5>');
    expect(() => beyond(['a'])).toThrow("Goods.buy: <5> in 'g:<5>' is undefined");
  });

  it('reads the names of a wrapped method from its class', () => {
    const calls: string[] = [];
    class Goods {
      helper = () => ({
        buy(id: string) {
          return id;
        },
      });

      @Bound('g:<id>', calls, 'x', '7')
      @Wrapped()
      buy(wrong: string, id: string) {
        return [wrong, id];
      }
      @Bound('g:<id>', calls, 'x', 'y', '8')
      @ByProxy()
      @Wrapped()
      order(a: string, b: string, id: string) {
        return [a, b, id];
      }
    }
    expect(Goods).toBeDefined();
    expect(calls).toEqual(['g:7', 'g:8']);
  });

  it('prefers @LockParam, then route decorators, then the source', () => {
    const calls: string[] = [];
    class Goods {
      @Bound('<id>', calls, 'source', 'route', 'lock')
      first(id: string, @Param('id') a: string, @LockParam('id') b: string) {
        return [id, a, b];
      }
      @Bound('<id>', calls, 'source', 'route')
      second(id: string, @Param('id') a: string) {
        return [id, a];
      }
      @Bound('<id>:<x-key>', calls, 'source', 'other')
      third(id: string, @LockParam('x-key') @LockParam('y') a: string) {
        return [id, a];
      }
    }
    expect(Goods).toBeDefined();
    expect(calls).toEqual(['lock', 'route', 'source:other']);
  });

  it('binds the names of HTTP, RPC and WebSocket decorators, not those without a name', () => {
    const calls: string[] = [];
    class Goods {
      @Bound('<goods-id>:<size>:<body>', calls, 1, 2, 3, 4)
      http(
        @Param('goods-id', ParseIntPipe) a: number,
        @Query('size') b: string,
        @Body() body: string,
        @Req() c: unknown,
      ) {
        return [a, b, body, c];
      }
      @Bound('<id>', calls, 'x', 'rpc')
      rpc(a: string, @Payload('id') b: string) {
        return [a, b];
      }
    }
    expect(Goods).toBeDefined();
    expect(calls).toEqual(['1:2:3', 'rpc']);
  });

  it('does not bind custom decorators, nor a parameter with @CurrentLock', () => {
    class Goods {
      custom(@User('id') a: string, b: string, @CurrentLock() lock: unknown) {
        return [a, b, lock];
      }
    }
    const message = errorOf(() => bindTo(Goods.prototype, 'custom', 'g:<id>')).message;
    expect(message).toContain("Goods.custom: <id> in 'g:<id>' names no parameter. Names that can be bound: a, b.");
    expect(() => bindTo(Goods.prototype, 'custom', 'g:<lock>')).toThrow('names no parameter');
    expect(bindTo(Goods.prototype, 'custom', 'g:<b>')([1, 2])).toBe('g:2');
  });

  it('refuses a name of two route decorators, unless @LockParam has it', () => {
    class Goods {
      both(@Param('id') a: string, @Query('id') b: string) {
        return [a, b];
      }
      decided(@Param('id') a: string, @LockParam('id') @Query('id') b: string) {
        return [a, b];
      }
      same(x: string, @Param('id') @Query('id') a: string) {
        return [x, a];
      }
    }
    const bind = (name: 'both' | 'decided' | 'same', template = 'g:<id>') => bindTo(Goods.prototype, name, template);
    expect(() => bind('both')).toThrow(/Goods\.both: <id> in 'g:<id>' means two parameters.*@LockParam\('id'\)/);
    expect(bind('both', 'g:<a>')([1, 2])).toBe('g:1');
    expect(bind('decided')([1, 2])).toBe('g:2');
    expect(bind('same')([1, 2])).toBe('g:2');
  });

  it('lists the names that can be bound, and what to do with minified code', () => {
    class Goods {
      buy(@Param('id') goodsId: string, { n }: { n?: number }, @LockParam('size') _s: string) {
        return [goodsId, n, _s];
      }
      none({ n }: { n?: number }) {
        return n;
      }
    }
    const say = (name: 'buy' | 'none') => errorOf(() => bindTo(Goods.prototype, name, 'g:<nope>'));
    expect(say('buy')).toBeInstanceOf(LockKeyError);
    expect(say('buy').message).toContain(
      'Names that can be bound: size, id, goodsId, _s. Minifiers rename parameters. ' +
        "Put @LockParam('nope') or @Param('nope') on the parameter, write its index, <0>, or give @Locked a function",
    );
    expect(say('none').message).toContain('No parameter has a name that can be bound.');
  });

  it('reads no names of a bound function', () => {
    const target = { buy: Array.prototype.push.bind([]) as Method };
    expect(() => bindTemplate('g:<id>', target, 'buy', target.buy)).toThrow('Object.buy: <id>');
    expect(bindTemplate('g:<id>', {}, 'buy', (id: string) => id)([3])).toBe('g:3');
  });

  it('refuses a name if the class cannot be parsed', () => {
    class Goods {
      @Wrapped()
      buy(@Param('goods') goodsId: string, @LockParam('size') size: string) {
        return [goodsId, size];
      }
    }
    const source = jest.spyOn(Function.prototype, 'toString').mockImplementation(function (this: unknown) {
      return this === Goods ? 'class Goods { @syntax of tomorrow }' : 'function (id) {}';
    });
    try {
      const message = errorOf(() => bindTo(Goods.prototype, 'buy', 'g:<id>')).message;
      expect(message).toContain(
        "Goods.buy: <id> in 'g:<id>' names no parameter. Names that can be bound: size, goods.",
      );
      expect(source).toHaveBeenCalledTimes(1);
    } finally {
      source.mockRestore();
    }
  });

  it('binds methods of ES5 classes', () => {
    const es5 =
      'function Goods() {} Goods.prototype.buy = function (n, id) { return [n, id]; }; return Goods.prototype;';
    // oxlint-disable-next-line no-implied-eval -- the compiler of the tests writes no such class
    expect(bindTo(new Function(es5)() as object, 'buy', 'g:<id>')([1, 2])).toBe('g:2');
  });

  it('names the method in the error of a template', () => {
    expect(() => bindTemplate('g:<id', Empty.prototype, 'buy', () => 1)).toThrow("Empty.buy: template 'g:<id'");
  });
});

describe('an overriding method', () => {
  class Base {
    buy(@LockParam('id') a: string, @Param('goods') b: string, @CurrentLock() lock: unknown) {
      return [a, b, lock];
    }
  }
  class Plain extends Base {
    override buy(b: string, a: string, lock: unknown) {
      return super.buy(a, b, lock);
    }
  }

  it('inherits only the route names, by which Nest resolves its arguments', () => {
    const bind = (template: string) => bindTo(Plain.prototype, 'buy', template);
    expect(bind('<goods>')(['x', 'y'])).toBe('y');
    expect(bind('<lock>')(['x', 'y', 'z'])).toBe('z');
    expect(() => bind('<id>')).toThrow('names no parameter');
    expect(currentLockIndexes(Plain.prototype, 'buy')).toEqual([]);
  });

  it('does not change the names of the base', () => {
    expect(bindTo(Base.prototype, 'buy', '<id>')(['x', 'y'])).toBe('x');
    expect(currentLockIndexes(Base.prototype, 'buy')).toEqual([2]);
  });
});

describe('@LockParam and @CurrentLock', () => {
  it('keep the indexes of a method', () => {
    class Goods {
      buy(a: string, @LockParam('id') b: string, @CurrentLock() c: unknown) {
        return [a, b, c];
      }
    }
    expect([...lockParams(Goods.prototype, 'buy')]).toEqual([['id', 1]]);
    expect(currentLockIndexes(Goods.prototype, 'buy')).toEqual([2]);
    expect(currentLockIndexes(Goods.prototype, 'other')).toEqual([]);
  });

  it("do not change Nest's metadata of the parameters", () => {
    class Goods {
      buy(@CurrentLock() lock: unknown, @Param('id') id: string) {
        return [lock, id];
      }
    }
    const known = Reflect.getMetadata('__routeArguments__', Goods, 'buy') as Record<string, { index: number }>;
    expect(Object.values(known).map(({ index }) => index)).toEqual([1]);
  });

  it.each(['', '0', '1a', 'a.b', 'a b', '<id>', 'a:b', undefined])('@LockParam(%j) is refused', (name) => {
    const decorate = () => LockParam(name as string)(Empty.prototype, 'buy', 0);
    expect(errorOf(decorate)).toBeInstanceOf(LockKeyError);
    expect(errorOf(decorate).message).toMatch(/^Empty\.buy: @LockParam\(/);
  });

  it('are refused on constructors, and two parameters of one name', () => {
    class Goods {
      buy() {}
    }
    expect(() => LockParam('id')(Goods, undefined, 0)).toThrow(LockKeyError);
    expect(() => CurrentLock()(Goods, undefined, 0)).toThrow(LockConfigError);
    LockParam('id')(Goods.prototype, 'buy', 0);
    expect(() => LockParam('id')(Goods.prototype, 'buy', 1)).toThrow(
      "Goods.buy: two parameters are named @LockParam('id')",
    );
  });
});
