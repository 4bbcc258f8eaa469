import { describe, expect, it } from '@jest/globals';
import * as nestCommon from '@nestjs/common';
import * as nestCore from '@nestjs/core';
import * as ioredis from 'ioredis';
import {
  functionParameters as parametersOf,
  methodParameters as parametersIn,
} from '../../../lib/keys/source-parameters.js';

const methodParameters = (source: string, name: string) => parametersIn(source, name)?.names;
const functionParameters = (source: string) => parametersOf(source)?.names;

const isClass = (value: unknown): value is Function => typeof value === 'function' && /^class\b/.test(String(value));

// acorn parses the sources. These are the forms in which a function may be written.
describe('functionParameters', () => {
  it.each<[string, (string | undefined)[]]>([
    ['buy() {}', []],
    ['buy(id, count,) {}', ['id', 'count']],
    ['async buy(id) {}', ['id']],
    ['async *buy(id) {}', ['id']],
    ['static buy(id) {}', ['id']],
    ['set x(value) {}', ['value']],
    ['async(id) {}', ['id']],
    ['class(id) {}', ['id']],
    ['function(id) {}', ['id']],
    ['async function* buy(id) {}', ['id']],
    ['id => id', ['id']],
    ['async id => id', ['id']],
    ['() => (a) => a', []],
    ["'my buy'(id) {}", ['id']],
    ['7(id) {}', ['id']],
    ["[key('a', (b) => b)](id) {}", ['id']],
    ['$buy($id, _x, ünïcode, \\u0069d) {}', ['$id', '_x', 'ünïcode', 'id']],
    ['buy(a = (x, y) => x, b = { c, d }, e) {}', ['a', 'b', 'e']],
    ['buy(/* a, ( */ id /* ) */, // b,\n n) {}', ['id', 'n']],
    // What encloses the function in its file
    ['#hidden(h) { return this.#outer + super.buy(h) }', ['h']],
    ['async (id, lock = open(), where = import.meta.url) => super.buy(id)', ['id', 'lock', 'where']],
    ['buy(id, n) { using lock = open(id); return new.target ?? n }', ['id', 'n']],
    ['function (a, a, package) { with (a) return 010 }', ['a', 'a', 'package']],
    // Patterns have no name. A rest parameter is many
    ['buy({ id }, n) {}', [undefined, 'n']],
    ['buy({ id: { a = ")" } = {} } = {}, [x, ...y], n) {}', [undefined, undefined, 'n']],
    ['buy(id, ...rest) {}', ['id']],
    ['buy(...[a, b]) {}', []],
  ])('%s', (source, names) => {
    expect(functionParameters(source)).toStrictEqual(names);
  });

  it.each([
    ['a bound function', String(Math.max.bind(null))],
    ['a proxy', Function.prototype.toString.call(new Proxy((id: string) => id, {}))],
    ['a builtin', String(Array.prototype.push)],
    ['a class', 'class Goods { constructor(id) {} }'],
    ['nothing', ''],
    ['no function', '{ a: 1 }'],
  ])('returns undefined for %s', (_, source) => {
    expect(functionParameters(source)).toBeUndefined();
  });
});

describe('methodParameters', () => {
  const source = `class Goods extends mixin({ buy(wrong1) {} }, class { buy(wrong2) {} }) {
    static #secret = { buy(wrong3) { return "}" } };
    field = (a, b) => { return { buy(x) {} } };
    static { this.buy = function (wrong4) {}; }
    constructor(buyer) { super(); }
    // buy(wrong5) {}
    before(a) { buy(a); return { buy(wrong6) {} }; }
    async buy(id, { count } = { count: 1 }) { if (id) { return 1 } /}/.test(id); }
    static buy(staticId) {}
    static async *restock(a, b) {}
    get price() { return 1 / 2 }
    set price(value) {}
    static(s) {} async(t) {}
    'two words'(q) {}
    ["computed"](c) {}
    [Symbol.iterator](wrong7) {}
    [buy](wrong8) {}
    #buy(wrong9) { return super.buy(this.#outer) }
    42(n) {}
    twice(first) {}
    twice(second) {}
  }`;

  it.each<[string, (string | undefined)[] | undefined]>([
    ['constructor', ['buyer']],
    ['before', ['a']],
    ['buy', ['id', undefined]],
    ['price', ['value']],
    ['static', ['s']],
    ['async', ['t']],
    ['two words', ['q']],
    ['computed', ['c']],
    ['42', ['n']],
    ['twice', ['second']],
    ['restock', undefined],
    ['field', undefined],
    ['test', undefined],
    ['Symbol.iterator', undefined],
    ['', undefined],
  ])('%s in the body of its class has %j', (name, names) => {
    expect(methodParameters(source, name)).toStrictEqual(names);
  });

  it.each(['function Goods() { buy(id) {} }', 'function Object() { [native code] }', '', 'class A { buy(id) { "'])(
    'returns undefined for %j',
    (text) => {
      expect(methodParameters(text, 'buy')).toBeUndefined();
    },
  );

  it('reads minified code', () => {
    const minified = 'class a{static b=1;c=/}/;d(e){if(e)/}/.test(e);return{e}}async f(g,{h:i}){}j(){}}';
    expect(['f', 'd', 'j'].map((name) => methodParameters(minified, name))).toEqual([['g', undefined], ['e'], []]);
  });
});

describe('in real code', () => {
  const classes = [nestCommon, nestCore, ioredis].flatMap((module) =>
    (Object.values(module) as unknown[]).filter(isClass),
  );
  const methods = classes.flatMap((owner) =>
    Object.entries(Object.getOwnPropertyDescriptors(owner.prototype as object))
      .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
      .map(([name, { value }]) => ({ owner, name, method: value as Function })),
  );

  it('the source of a class gives the same names as that of its methods', () => {
    // A function that a decorator or an assignment put there is not in the class under this name.
    const own = methods.filter(({ name, method }) => new RegExp(`^(async )?\\*?${name}\\(`).test(String(method)));
    for (const { owner, name, method } of own) {
      const names = methodParameters(String(owner), name);
      expect([owner.name, name, names]).toEqual([owner.name, name, functionParameters(String(method))]);
      expect(names?.length).toBeGreaterThanOrEqual(method.length);
    }
    expect(own.length).toBeGreaterThan(300);
  });

  it("the source of a class gives the names that a decorator's wrapper hides", () => {
    const error: unknown = Reflect.get(nestCommon.Logger.prototype, 'error');
    expect(functionParameters(String(error))).toEqual([]);
    expect(methodParameters(String(nestCommon.Logger), 'error')).toEqual(['message']);
  });
});

it.each<[string, number[]]>([
  ['buy(id, { n } = {}, [m = 1], region = "eu") {}', [1, 3]],
  ['(id = 1, ...rest) => id', [0]],
  ['buy() {}', []],
])('finds the parameters with a default value: %s', (source, indexes) => {
  expect([...(parametersOf(source)?.defaults ?? [])]).toEqual(indexes);
});
