/** What a caller's own code throws when it is called: it has to come out unchanged. */
export class CallbackError extends Error {}

/** The reason of the signals among the garbage. */
export const ABORT_REASON = Symbol('the reason of a signal');

/** A text that no error may contain. */
export const SECRET = 'opensesame';

/** A value, and what a failing case prints in its place. */
export interface Garbage {
  readonly label: string;
  readonly value: unknown;
}

function throwCalled(): never {
  throw new CallbackError('called');
}

/** A class of the caller's own. */
class Given {
  readonly given = 1;
}

function cyclic(): object {
  const ring: Record<string, unknown> = {};
  ring.self = ring;
  return ring;
}

/** Every kind of value that no type allows. Each is made again. */
const KINDS: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  true: () => true,
  NaN: () => Number.NaN,
  '-0': () => -0,
  '-1': () => -1,
  '1.5': () => 1.5,
  '60': () => 60,
  Infinity: () => Infinity,
  '2^53': () => 2 ** 53,
  bigint: () => 5n,
  'large bigint': () => 10n ** 400n,
  'empty string': () => '',
  text: () => 'x',
  template: () => 'goods:<id>',
  'a list of two': () => ['goods:1', 'orders:2'],
  'huge string': () => 'x'.repeat(100_000),
  'huge list': () => Object.assign([], { length: 2 ** 32 - 1 }),
  'lone surrogate': () => 'goods:\ud800',
  'control character': () => 'goods:\u0000',
  braces: () => '{}{',
  bar: () => 'a|b',
  'URL with a password': () => `http://joe:${SECRET}@host`,
  'URL with a slash in its password': () => `http://:${SECRET}/x@host/0`,
  'URL with a password behind it': () => `http://host?password=${SECRET}`,
  symbol: () => Symbol('x'),
  function: () => () => 1,
  'asynchronous function': () => async () => 'x',
  'function that throws': () => throwCalled,
  'function that rejects': () => () => Promise.reject(new CallbackError('called')),
  class: () => Given,
  'empty list': () => [],
  'list of holes': () => Array(3),
  'list of lists': () => [[1], [null]],
  'list of objects': () => [{}],
  Map: () => new Map([['ttlMs', 1]]),
  Set: () => new Set(['x']),
  WeakMap: () => new WeakMap(),
  Date: () => new Date(0),
  RegExp: () => /x/,
  Error: () => new Error('given'),
  Buffer: () => Buffer.from('x'),
  Promise: () => Promise.resolve('x'),
  'boxed string': () => Object('x') as unknown,
  'class instance': () => new Given(),
  'null prototype': () => Object.create(null) as unknown,
  'cyclic object': cyclic,
  constructor: () => ({ constructor: 1 }),
  'class name that is data': () => ({ constructor: { name: SECRET } }),
  toString: () => ({ toString: 1, valueOf: 1 }),
  __proto__: () => JSON.parse('{ "__proto__": { "ttlMs": 1 } }') as unknown,
  password: () => ({ password: SECRET, url: `redis://:${SECRET}@host` }),
  'name that is a URL': () => ({ [`redis://:${SECRET}@host`]: 1 }),
  'huge name': () => ({ ['x'.repeat(100_000)]: 1 }),
  // oxlint-disable-next-line unicorn/no-thenable -- garbage
  'thenable that throws': () => Object.defineProperty({}, 'then', { get: throwCalled, enumerable: true }),
  'signal without listeners': () => ({ aborted: false, throwIfAborted: () => undefined }),
  'aborted signal': () => AbortSignal.abort(ABORT_REASON),
};

const NAMES = Object.keys(KINDS);

/** Makes garbage. Repeatable with the same random numbers. */
export class GarbageMaker {
  constructor(private readonly random: () => number) {}

  /** Returns an item of a list. */
  oneOf<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)];
  }

  /** Returns any value. */
  any(): Garbage {
    const label = this.oneOf(NAMES);
    return { label, value: KINDS[label]?.() };
  }

  /** Returns one of the allowed values in one of two cases, otherwise any value. */
  either(...allowed: readonly unknown[]): Garbage {
    if (this.random() < 0.5) return this.any();
    const value = this.oneOf(allowed);
    return { label: `allowed ${typeof value}`, value };
  }

  /** Returns options with some of the names and any values, or any value in their place. */
  options(names: readonly string[]): Garbage {
    if (this.random() < 0.3) return this.any();
    const chosen = names.filter(() => this.random() < 1.5 / names.length);
    const entries = chosen.map((name) => [name, this.any()] as const);
    return {
      label: `{ ${entries.map(([name, { label }]) => `${name}: ${label}`).join(', ')} }`,
      value: Object.fromEntries(entries.map(([name, { value }]) => [name, value])),
    };
  }
}
