// How placeholders find the parameters of a method.
import { Body, createParamDecorator, Param, ParseIntPipe, Query, Req } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { describe, expect, it, jest } from '@jest/globals';
import { CurrentLock, LockConfigError, Locked, LockKeyError, LockParam } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { Foreign, Proxied } from './support/wrappers.js';

const User = createParamDecorator((data: string) => data);
const SYMBOL = Symbol('buy');

const locks = createTestLocks();
/** Returns the resource that the method has locked. */
const locked = async (..._parameters: unknown[]) => locks.current()?.resource;

/** Decorates a method of a class that is loaded. */
function decorate(template: string, target: object, key = 'buy'): void {
  const descriptor = Object.getOwnPropertyDescriptor(target, key) as PropertyDescriptor;
  (Locked(template) as MethodDecorator)(target, key, descriptor);
  Object.defineProperty(target, key, descriptor);
}

class Goods {
  helper = () => ({ inWrapper: (id: string) => id });

  @Locked('g:<count>:<id>')
  anyOrder(id: string, count: number) {
    return locked(id, count);
  }

  @Locked('g:<id>')
  async besidePatterns({ n }: { n?: number }, id: string, ...rest: number[]) {
    return locked(n, id, rest);
  }

  @Locked('g:<id>')
  [SYMBOL](id: string) {
    return locked(id);
  }

  @Locked('g:<id>')
  @Foreign()
  inWrapper(wrong: string, id: string) {
    return locked(wrong, id);
  }

  @Locked('g:<id>')
  @Proxied()
  @Foreign()
  inProxy(a: string, b: string, id: string) {
    return locked(a, b, id);
  }

  @Locked('<id>')
  lockParamFirst(id: string, @Param('id') a: string, @LockParam('id') b: string) {
    return locked(id, a, b);
  }

  @Locked('<id>')
  routeNext(id: string, @Param('id') a: string) {
    return locked(id, a);
  }

  @Locked('<id>:<x-key>')
  twoNames(id: string, @LockParam('x-key') @LockParam('y') a: string) {
    return locked(id, a);
  }

  @Locked('<goods-id>:<size>:<body>')
  http(@Param('goods-id', ParseIntPipe) a: number, @Query('size') b: string, @Body() body: string, @Req() c: unknown) {
    return locked(a, b, body, c);
  }

  @Locked('<id>')
  rpc(a: string, @Payload('id') b: string) {
    return locked(a, b);
  }

  @Locked('g:<b>')
  besideCustom(@User('id') a: string, b: string) {
    return locked(a, b);
  }

  @Locked('g:<a>')
  bothByTheirSource(@Param('id') a: string, @Query('id') b: string) {
    return locked(a, b);
  }

  @Locked('g:<id>')
  bothDecided(@Param('id') a: string, @LockParam('id') @Query('id') b: string) {
    return locked(a, b);
  }

  @Locked('g:<id>')
  bothOnOne(x: string, @Param('id') @Query('id') a: string) {
    return locked(x, a);
  }

  @Locked('g:<5>')
  beyond(id: string) {
    return locked(id);
  }
}

describe('a placeholder', () => {
  const goods = withLocks(new Goods(), locks);

  it.each<[method: Exclude<keyof Goods, 'helper'>, args: unknown[], resource: string]>([
    ['anyOrder', ['7', 3], 'g:3:7'],
    ['besidePatterns', [{}, '7', 1], 'g:7'],
    [SYMBOL, ['5'], 'g:5'],
    ['inWrapper', ['x', '7'], 'g:7'],
    ['inProxy', ['x', 'y', '8'], 'g:8'],
    ['lockParamFirst', ['source', 'route', 'lock'], 'lock'],
    ['routeNext', ['source', 'route'], 'route'],
    ['twoNames', ['source', 'other'], 'source:other'],
    ['http', [1, 2, 3, 4], '1:2:3'],
    ['rpc', ['x', 'rpc'], 'rpc'],
    ['besideCustom', [1, 2], 'g:2'],
    ['bothByTheirSource', [1, 2], 'g:1'],
    ['bothDecided', [1, 2], 'g:2'],
    ['bothOnOne', [1, 2], 'g:2'],
  ])('finds its parameter: %p', async (method, args, resource) => {
    expect(await Reflect.apply(goods[method], goods, args)).toBe(resource);
  });

  it('beyond the arguments of a call is refused at the call', async () => {
    await expect(goods.beyond('a')).rejects.toThrow("Goods.beyond: <5> in 'g:<5>' is undefined");
  });

  it('finds a parameter of a class that was compiled to ES5', async () => {
    const source = `function Goods() {} Goods.prototype.buy = function (n, id) { return current(n, id); }; return Goods;`;
    // oxlint-disable-next-line no-implied-eval -- the compiler of the tests writes no such class
    const Es5 = new Function('current', source)(locked) as new () => { buy(n: number, id: number): Promise<string> };
    decorate('g:<id>', Es5.prototype as object);
    expect(await withLocks(new Es5(), locks).buy(1, 2)).toBe('g:2');
  });
});

describe('a placeholder that names no parameter', () => {
  class Refused {
    buy(@Param('id') goodsId: string, { n }: { n?: number }, @LockParam('size') _s: string) {
      return [goodsId, n, _s];
    }

    none({ n }: { n?: number }) {
      return n;
    }

    custom(@User('id') a: string, b: string, @CurrentLock() lock: unknown) {
      return [a, b, lock];
    }

    both(@Param('id') a: string, @Query('id') b: string) {
      return [a, b];
    }
  }
  const { prototype } = Refused;

  const advice =
    "Refused.buy: <nope> in 'g:<nope>' names no parameter. Names that can be bound: size, id, goodsId, _s. Minifiers " +
    "rename parameters. Put @LockParam('nope') or @Param('nope') on the parameter, write its index, <0>, or give " +
    '@Locked a function';

  it.each<[template: string, method: keyof Refused, message: string]>([
    ['g:<nope>', 'buy', advice],
    ['g:<nope>', 'none', 'No parameter has a name that can be bound.'],
    ['g:<id>', 'custom', "Refused.custom: <id> in 'g:<id>' names no parameter. Names that can be bound: a, b."],
    ['g:<lock>', 'custom', 'names no parameter'],
    ['g:<id>', 'both', "Refused.both: <id> in 'g:<id>' means two parameters: more than one of Nest's decorators is"],
    ['g:<id', 'buy', "Refused.buy: template 'g:<id'"],
  ])('is refused when the class is loaded: %s of %s', (template, method, message) => {
    expect(() => decorate(template, prototype, method)).toThrow(LockKeyError);
    expect(() => decorate(template, prototype, method)).toThrow(message);
  });

  it('is refused if its name is in the source of a wrapper only', () => {
    const name = 'buy';
    class Computed {
      [name](other: string, id: string) {
        return [other, id];
      }
    }
    Object.defineProperty(Computed.prototype, 'buy', { value: (id: string) => id, configurable: true });
    expect(() => decorate('g:<id>', Computed.prototype)).toThrow(LockKeyError);
  });

  it('is refused for a bound function, which has no source', () => {
    expect(() => decorate('g:<id>', { buy: Array.prototype.push.bind([]) })).toThrow('Object.buy: <id>');
  });

  it('is refused if the class cannot be parsed', () => {
    class Unknown {
      @Foreign()
      buy(@Param('goods') goodsId: string, @LockParam('size') size: string) {
        return [goodsId, size];
      }
    }
    const source = jest.spyOn(Function.prototype, 'toString').mockImplementation(function (this: unknown) {
      return this === Unknown ? 'class Unknown { @syntax of tomorrow }' : 'function (id) {}';
    });
    try {
      expect(() => decorate('g:<id>', Unknown.prototype)).toThrow(
        "Unknown.buy: <id> in 'g:<id>' names no parameter. Names that can be bound: size, goods.",
      );
    } finally {
      source.mockRestore();
    }
  });
});

describe('an overriding method', () => {
  class Base {
    @Locked('<id>')
    buy(@LockParam('id') a: string, @Param('goods') b: string, @CurrentLock() lock?: unknown) {
      return locked(a, b, lock);
    }
  }
  class Plain extends Base {
    @Locked('<goods>:<lock>')
    override async buy(b: string, a: string, lock: unknown) {
      return `${await locked()} ${b} ${a} ${String(lock)}`;
    }
  }

  it('inherits only the route names, by which Nest resolves its arguments', async () => {
    expect(await withLocks(new Plain(), locks).buy('x', 'y', 'z')).toBe('y:z x y z');
    class Refused extends Base {
      override buy(b: string, a: string) {
        return super.buy(a, b);
      }
    }
    expect(() => decorate('<id>', Refused.prototype)).toThrow('names no parameter');
  });

  it('does not change the names of the base', async () => {
    expect(await withLocks(new Base(), locks).buy('x', 'y')).toBe('x');
  });
});

describe('@LockParam and @CurrentLock', () => {
  class Empty {
    buy() {}
  }

  it.each(['', '0', '1a', 'a.b', 'a b', '<id>', 'a:b', undefined])('@LockParam(%j) is refused', (name) => {
    const load = () => LockParam(name as string)(Empty.prototype, 'buy', 0);
    expect(load).toThrow(LockKeyError);
    expect(load).toThrow(/^Empty\.buy: @LockParam\(/);
  });

  it('are refused on constructors, and two parameters of one name', () => {
    expect(() => LockParam('id')(Empty, undefined, 0)).toThrow(LockKeyError);
    expect(() => CurrentLock()(Empty, undefined, 0)).toThrow(LockConfigError);
    LockParam('id')(Empty.prototype, 'buy', 0);
    expect(() => LockParam('id')(Empty.prototype, 'buy', 1)).toThrow(
      "Empty.buy: two parameters are named @LockParam('id')",
    );
  });
});
