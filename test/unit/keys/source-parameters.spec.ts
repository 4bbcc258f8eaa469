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

describe('functionParameters', () => {
  it.each<[string, (string | undefined)[]]>([
    ['buy() {}', []],
    ['buy(id) {}', ['id']],
    ['buy(id, count) {}', ['id', 'count']],
    ['buy(id, count,) {}', ['id', 'count']],
    ['async buy(id) {}', ['id']],
    ['*buy(id) {}', ['id']],
    ['async *buy(id) {}', ['id']],
    ['static buy(id) {}', ['id']],
    ['get x() {}', []],
    ['set x(value) {}', ['value']],
    ['async(id) {}', ['id']],
    ['get(id) {}', ['id']],
    ['class(id) {}', ['id']],
    ['function(id) {}', ['id']],
    ['function buy(id) {}', ['id']],
    ['async function* buy(id) {}', ['id']],
    ['id => id', ['id']],
    ['async id => id', ['id']],
    ['async => async', ['async']],
    ['(id, n) => id', ['id', 'n']],
    ['async (id) => (x) => id', ['id']],
    ['() => (a) => a', []],
    ["'my buy'(id) {}", ['id']],
    ['"a(b"(id) {}', ['id']],
    ['7(id) {}', ['id']],
    ["[key('a', (b) => b)](id) {}", ['id']],
    ['async [`a(${b(")")})`](id) {}', ['id']],
    ['$buy($id, _x, ünïcode, a1) {}', ['$id', '_x', 'ünïcode', 'a1']],
    // Default values
    ['buy(id = 1, n = f(a, b), m) {}', ['id', 'n', 'm']],
    ['buy(a = [1, 2], b = { c, d }, e) {}', ['a', 'b', 'e']],
    ['buy(a = ",", b = \')\', c = `,${ `}` + "," },`, d) {}', ['a', 'b', 'c', 'd']],
    ['buy(a = "\\",", b) {}', ['a', 'b']],
    ['buy(a = (x, y) => x, b) {}', ['a', 'b']],
    ['buy(a = function (x, y) { return x / y }, b) {}', ['a', 'b']],
    ['buy(a = /[/,)]\\/,/g, b = 4 / 2, c = a / b, d = x++ / 2, e) {}', ['a', 'b', 'c', 'd', 'e']],
    ['buy(a = b[0] / 2, c = ")".length / 2, d = {}.x / f(",") / 1, e) {}', ['a', 'c', 'd', 'e']],
    ['buy(a = {} / 2, b = 4 / 2, c) {}', ['a', 'b', 'c']],
    ['buy(a = typeof /,/, b = x.return / 2, c = "/", d) {}', ['a', 'b', 'c', 'd']],
    ['buy(a = class { m(x, y) {} }, b) {}', ['a', 'b']],
    ['buy(a = (cov().b[0][0]++, 1), b) {}', ['a', 'b']],
    ['buy(a = b ?? c?.d, e = f ? .5 : 1, g) {}', ['a', 'e', 'g']],
    // What encloses the function in its file
    ['#hidden(h) { return this.#outer + super.buy(h) }', ['h']],
    ['async (id, lock = open(), where = import.meta.url) => super.buy(id)', ['id', 'lock', 'where']],
    ['buy(id, n) { using lock = open(id); return new.target ?? n }', ['id', 'n']],
    ['function (a, a, package, \\u0069d) { with (a) return 010 }', ['a', 'a', 'package', 'id']],
    // Comments
    ['buy(/* a, ( */ id /* ) */, // b,\n n) {}', ['id', 'n']],
    ['/* buy(x) */ buy /* ( */ (id) {}', ['id']],
    ['buy(a = 1 /* , b */ / 2, c) {}', ['a', 'c']],
    ['buy(a = /\\/\\*/, b) {}', ['a', 'b']],
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
    field = (a, b) => { return /[}"/]/.test(a) ? \`\${ { buy(x) {} }.buy(\`}\`) }}\` : '}' };
    ratio = this.total / 2; other = 3 / 1;
    'quoted' = 1
    bare
    assigned = function () { buy(1) }
    last = { a: 1 }
    static { this.buy = function (wrong4) {}; }
    constructor(buyer) { super(); if (buyer) /}buy[(]/.test(buyer); }
    // buy(wrong5) {}
    /* buy(wrong6) {} */
    before(a) { buy(a); return { buy(wrong7) {} }; }
    async buy(id, { count } = { count: 1 }) { if (id) { return 1 } /}/.test(id); }
    static buy(staticId) {}
    static async *restock(a, b) {}
    get price() { return 1 / 2 }
    set price(value) {}
    static(s) {} async(t) {} get(u) {} set(v) {} accessor(w) {}
    *generate(g) {};
    async
    *lines(l) {}
    'two words'(q) {}
    ["computed"](c) {}
    handler = () => { this.run() }
    afterHandler(h) {}
    [Symbol.iterator](wrong8) {}
    #hidden(h) {}
    42(n) {}
    in(i) {}
    twice(first) {}
    twice(second) {}
    divided(d) { const o = { a: 1 } / 2; const s = a++ / 2 + b[0] / f() / "/"; return \`a\` / 2 }
    after(z) {}
  }`;

  it.each<[string, (string | undefined)[]]>([
    ['constructor', ['buyer']],
    ['before', ['a']],
    ['buy', ['id', undefined]],
    ['price', ['value']],
    ['static', ['s']],
    ['async', ['t']],
    ['get', ['u']],
    ['set', ['v']],
    ['accessor', ['w']],
    ['generate', ['g']],
    ['lines', ['l']],
    ['two words', ['q']],
    ['computed', ['c']],
    ['42', ['n']],
    ['in', ['i']],
    ['afterHandler', ['h']],
    ['twice', ['second']],
    ['divided', ['d']],
    ['after', ['z']],
  ])('finds %s in the body of its class', (name, names) => {
    expect(methodParameters(source, name)).toStrictEqual(names);
  });

  it('finds no static method', () => {
    expect(methodParameters(source, 'restock')).toBeUndefined();
  });

  it('ignores fields, nested functions, calls and comments', () => {
    for (const name of [
      'field',
      'ratio',
      'bare',
      'assigned',
      'test',
      'if',
      'iterator',
      'Symbol.iterator',
      'super',
      '',
    ]) {
      expect(methodParameters(source, name)).toBeUndefined();
    }
  });

  it.each([
    'function Goods() { buy(id) {} }',
    'function Object() { [native code] }',
    '',
    'class',
    'class A { buy(id) { "',
  ])('returns undefined for %j', (text) => {
    expect(methodParameters(text, 'buy')).toBeUndefined();
  });

  it('reads a class that needs the code around it', () => {
    const inner = `class Inner extends Outer {
      [await key()](wrong) {}
      where = import.meta.url
      buy(id) { return super.buy(this.#outer, id) }
      #buy(wrong) {}
      get [Symbol.toStringTag]() { return new.target }
    }`;
    expect(methodParameters(inner, 'buy')).toEqual(['id']);
  });

  it('reads minified code', () => {
    const minified = 'class a{static b=1;c=/}/;d(e){if(e)/}/.test(e);return{e}}async f(g,{h:i}){}j(){}}';
    expect(methodParameters(minified, 'f')).toEqual(['g', undefined]);
    expect(methodParameters(minified, 'd')).toEqual(['e']);
    expect(methodParameters(minified, 'j')).toEqual([]);
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
