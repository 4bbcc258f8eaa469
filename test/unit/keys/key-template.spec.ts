import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { LockKeyError } from '../../../lib/common/errors.js';
import { compileTemplate, encodeValue, parseTemplate, resource } from '../../../lib/keys/key-template.js';
import { createKeyFactory } from '../../../lib/keys/resource-key.js';
import { randomFrom } from '../../support/random.js';

const where = 'GoodsController.buy';
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const encode = (value: unknown) => encodeValue(value, () => 'here');

function renderAll(template: string, names: Record<string, number>, ...args: unknown[]): string | readonly string[] {
  const parsed = parseTemplate(template, where);
  const indexes = parsed.placeholders.map(({ parameter: at }) => (typeof at === 'number' ? at : names[at]));
  return compileTemplate(parsed, indexes, where)(args);
}

function render(template: string, names: Record<string, number>, ...args: unknown[]): string {
  const one = renderAll(template, names, ...args);
  if (typeof one === 'string') return one;
  throw new Error(`several resources: ${one.join(', ')}`);
}

describe('encodeValue', () => {
  it.each<[unknown, string]>([
    ['300', '300'],
    ['0300', '0300'],
    [300, '300'],
    [-0, '0'],
    [0.5, '0.5'],
    [1e21, '1e+21'],
    [10n ** 20n, '100000000000000000000'],
    [true, 'true'],
    [false, 'false'],
    ['käse', 'käse'],
    ['😀', '😀'],
    ['a-b_c.d~e!f$g&h\'i(j)k*l+m,n;o=p?q@r[s]t^u`v/w\\x"y#z', 'a-b_c.d~e!f$g&h\'i(j)k*l+m,n;o=p?q@r[s]t^u`v/w\\x"y#z'],
    ['%:{}<>|', '%25%3A%7B%7D%3C%3E%7C'],
    [' \t\n\u00a0\u2028', '%20%09%0A%C2%A0%E2%80%A8'],
    ['\u0000\u007f\u0085', '%00%7F%C2%85'],
    ['\ud800', '%uD800'],
  ])('encodes %j as %s', (value, text) => {
    expect(encode(value)).toBe(text);
  });

  it('replaces a text over 128 bytes of UTF-8 by its SHA-256', () => {
    expect(encode('x'.repeat(128))).toBe('x'.repeat(128));
    expect(encode('ä'.repeat(64))).toBe('ä'.repeat(64));
    expect(encode('x'.repeat(129))).toBe(`%sha256-${sha256('x'.repeat(129))}`);
    expect(encode('ä'.repeat(65))).toBe(`%sha256-${sha256('ä'.repeat(65))}`);
    expect(encode(':'.repeat(43))).toBe(`%sha256-${sha256('%3A'.repeat(43))}`);
    expect(encode(10n ** 200n)).toMatch(/^%sha256-[0-9a-f]{64}$/);
  });

  it('encodes the hash of a long value differently from that value', () => {
    const long = encode('x'.repeat(129));
    expect(encode(long)).not.toBe(long);
    expect(encode(sha256('x'.repeat(129)))).not.toBe(long);
  });

  class OrderDto {
    id = 1;
  }
  it.each<[unknown, string]>([
    [undefined, 'undefined'],
    [null, 'null'],
    ['', 'an empty string'],
    [NaN, 'NaN'],
    [-Infinity, '-Infinity'],
    [Symbol('s'), 'a symbol'],
    [() => 1, 'a function'],
    [[1], 'an array'],
    [{}, 'a plain object'],
    [Object.create(null), 'an object without a class'],
    [new OrderDto(), 'an object of class OrderDto'],
    [new Date(), 'an object of class Date'],
    [new String('x'), 'an object of class String'],
    [Promise.resolve('x'), 'a Promise'],
  ])('refuses %p', (value, found) => {
    expect(() => encode(value)).toThrow(LockKeyError);
    expect(() => encode(value)).toThrow(`here is ${found}. A lock's key needs`);
  });
});

describe('a template', () => {
  it.each<[string, unknown[], string]>([
    ['goods', [], 'goods'],
    ['goods:<id>', ['300'], 'goods:300'],
    ['goods:{<id>}', ['300'], 'goods:{300}'],
    ['goods:{300}', [], 'goods:{300}'],
    ['<id>', ['300'], '300'],
    ['<id>:<id>', [3], '3:3'],
    ['u:<user.id>', [0, { id: 7 }], 'u:7'],
    ['u:<user.address.zip>', [0, { address: { zip: '1:2' } }], 'u:1%3A2'],
    ['u:<user.items.1.id>', [0, { items: [{}, { id: 9 }] }], 'u:9'],
    ['u:<0>:<1.id>', ['a', { id: 'b' }], 'u:a:b'],
    ['h:<x-tenant>', ['a', 'b', 't'], 'h:t'],
    ['a-<id>.lock', ['7'], 'a-7.lock'],
  ])('%s of %j is %s', (template, args, expected) => {
    expect(render(template, { id: 0, user: 1, 'x-tenant': 2 }, ...args)).toBe(expected);
  });

  it('reads getters and inherited properties', () => {
    class User {
      get id() {
        return 5;
      }
    }
    expect(render('<u.id>', { u: 0 }, new User())).toBe('5');
  });

  it.each<[string, RegExp]>([
    ['', /is empty/],
    ['goods:<id', /'<' at position 6 that is never closed/],
    ['goods:<a<b>', /'<' at position 6/],
    ['a:<b>:c>', /'>' at position 7 without/],
    ['goods:<>', /empty '<>' at position 6/],
    ['goods:< id >', /'< id >' at position 6, which is not a path/],
    ['goods:<a..b>', /not a path/],
    ['goods:<.a>', /not a path/],
    ['goods:<a.>', /not a path/],
    ['goods:<items[0]>', /not a path.*<items\.0\.id>/],
    ['goods:<01>', /not a path/],
    ['goods:<-1>', /not a path/],
    ['goods:<{id}>', /not a path/],
    ['goods|<id>', /'\|' at position 5/],
    ['my goods', /" " at position 2: no whitespace/],
    ['goods\n', /"\\n" at position 5/],
    ['goods:${id}', /'\$\{' at position 6.*<id>/],
    ['goods:{}', /an empty pair of braces/],
    ['goods:{<id>', /never closed/],
    ['goods:<id>}', /'\}' without/],
    ['{a}:{<id>}', /more than one pair/],
    ['<a><b>', /<a> and <b> with nothing between/],
    ['<a>-<b>', /<a> and <b> with only '-' between/],
  ])('%j is refused', (template, message) => {
    expect(() => parseTemplate(template, where)).toThrow(LockKeyError);
    expect(() => parseTemplate(template, where)).toThrow(message);
    expect(() => parseTemplate(template, where)).toThrow(`${where}: template '${template}'`);
  });

  it.each([[undefined], [['a', 'b']], [7]])('%p is refused', (template) => {
    expect(() => parseTemplate(template as unknown as string, where)).toThrow(LockKeyError);
  });

  it('names the method, the placeholder and the kind of value, never the value', () => {
    expect(() => render('goods:<id>', { id: 0 })).toThrow("GoodsController.buy: <id> in 'goods:<id>' is undefined.");
    expect(() => render('goods:<3>', {}, 'a')).toThrow("<3> in 'goods:<3>' is undefined.");
    expect(() => render('goods:<u.id>', { u: 0 }, { id: {} })).toThrow("<u.id> in 'goods:<u.id>' is a plain object.");
    expect(() => render('<u.a.id>', { u: 0 }, {})).toThrow("cannot be read: what should have 'id' is undefined");
    expect(() => render('<u.a>', { u: 0 }, null)).toThrow("cannot be read: what should have 'a' is null");
    expect(() => render('<u.id>', { u: 0 }, 'abc')).toThrow("<u.id> in '<u.id>' is undefined.");
  });
});

describe('a spread placeholder', () => {
  it.each<[string, unknown[], string[]]>([
    ['goods:<...a>:<b>', [[3, 'a:b'], 'L'], ['goods:3:L', 'goods:a%3Ab:L']],
    ['goods:<...a.ids>', [{ ids: [1] }], ['goods:1']],
    ['goods:<...0>', [[7]], ['goods:7']],
    ['goods:<...1.0.ids>', [0, [{ ids: ['x', 'y'] }]], ['goods:x', 'goods:y']],
    ['goods:{<...a>}', [[1, 2]], ['goods:{1}', 'goods:{2}']],
  ])('%s of %j gives one resource for each element', (template, args, expected) => {
    expect(renderAll(template, { a: 0, b: 1 }, ...args)).toEqual(expected);
  });

  it('takes a value that is not an array as an array of one', () => {
    expect(renderAll('goods:<...a>', { a: 0 }, '7')).toEqual(['goods:7']);
  });

  const refused = (template: string, ...args: unknown[]) => {
    try {
      return `taken as ${String(renderAll(template, { a: 0, b: 1 }, ...args))}`;
    } catch (error) {
      return error instanceof LockKeyError ? error.message : `no LockKeyError: ${String(error)}`;
    }
  };

  it('is refused if its array is empty or has a bad value', () => {
    expect(refused('x:<...a>', [])).toBe(
      "GoodsController.buy: <...a> in 'x:<...a>' is an empty array: there is nothing to lock.",
    );
    expect(refused('x:<...a>', [1, undefined])).toContain("<...a> in 'x:<...a>' is undefined");
    // eslint-disable-next-line no-sparse-arrays
    expect(refused('x:<...a>', [1, , 2])).toContain('is undefined');
    expect(refused('x:<...a>', [[1]])).toContain('is an array');
    expect(refused('x:<...a.id>', [{ id: 1 }])).toContain('is undefined');
    expect(refused('x:<...a>', undefined)).toContain('is undefined');
    expect(refused('x:<...a>', new Set([1]))).toContain('is an object of class Set');
  });

  it('may occur once in a template', () => {
    expect(refused('x:<...a>:<...b>', [1], [2])).toBe(
      "GoodsController.buy: template 'x:<...a>:<...b>' has <...a> and <...b>. One placeholder of a template may be " +
        'spread.',
    );
    expect(refused('x:<...a>:<b>', [1], [2])).toContain("<b> in 'x:<...a>:<b>' is an array");
  });

  it.each(['<...>', '<... a>', '<..a>', '<....a>', '<a...b>', '<a...>', '<......a>'])('%s is refused', (text) => {
    expect(() => parseTemplate(`goods:${text}`, where)).toThrow('which is not a path');
  });
});

describe('an array in any other placeholder', () => {
  it.each(['goods:<a>', 'goods:<a.ids>', 'goods:<0>'])('is refused: %s', (template) => {
    const args = template.includes('ids') ? [{ ids: ['1', '2'] }] : [['1', '2']];
    const placeholder = template.slice('goods:<'.length, -1);
    expect(() => render(template, { a: 0 }, ...args)).toThrow(
      `<${placeholder}> in '${template}' is an array. A lock's key needs a non-empty string, a finite number, a ` +
        `bigint or a boolean. <...${placeholder}> locks each element.`,
    );
  });
});

describe('the array of a spread placeholder', () => {
  it('is read once', () => {
    let reads = 0;
    const cart = {
      get ids() {
        reads += 1;
        return reads === 1 ? [1, 2] : 'changed';
      },
    };
    expect(renderAll('goods:<...cart.ids>', { cart: 0 }, cart)).toEqual(['goods:1', 'goods:2']);
  });
});

describe('resource`…`', () => {
  it('encodes values as a template does', () => {
    for (const id of ['300', 300, 5n, true, 'a:b', 'ä{}|', 'x'.repeat(500)]) {
      expect(resource`goods:${id}`).toBe(render('goods:<id>', { id: 0 }, id));
    }
    expect(resource`goods`).toBe('goods');
    expect(resource`a:${1}:{${'b'}}`).toBe('a:1:{b}');
  });

  it('names the value that it refuses', () => {
    const id = undefined as unknown as string;
    expect(() => resource`a:${1}:${id}`).toThrow('Value 2 of resource`a:${…}:${…}` is undefined.');
    expect(() => resource`a:${1}${2}`).toThrow('nothing between them');
    expect(() => resource`a:${1}-${2}`).toThrow(LockKeyError);
  });
});

describe('random values', () => {
  const pieces = 'a,1,-,:,%,%3A,{,},<,>,|, ,\n,ä,\ud800,\udc00,😀,/,%u'.split(',');
  const next = randomFrom(7);
  const random = (below: number): number => Math.floor(next() * below);
  const value = () => {
    const text = Array.from({ length: 1 + random(4) }, () => pieces[random(pieces.length)]).join('');
    return random(12) === 0 ? text.repeat(60) : text;
  };
  const toKey = createKeyFactory({ prefix: 'lock_', hashTag: 'family' });
  const toWholeKey = createKeyFactory({ prefix: 'lock_', hashTag: 'resource' });

  it.each(['g:<0>:<1>', 'g:<0>-x:<1>', 'g:{<0>}<1>', 'g:<0>{x}<1>.lock', 'g:<1>:a<0>'])(
    'in %s give different resources',
    (template) => {
      const seen = new Map<string, string>();
      const parsed = parseTemplate(template, where);
      const indexes = parsed.placeholders.map(({ parameter }) => Number(parameter));
      const compiled = compileTemplate(parsed, indexes, where);
      for (let run = 0; run < 20_000; run += 1) {
        const pair = [value(), value()];
        const text = compiled(pair) as string;
        // Compared as Redis sees it: half a surrogate pair becomes U+FFFD on the wire.
        const wire = Buffer.from(text).toString();
        const id = JSON.stringify(pair);
        if ((seen.get(wire) ?? id) !== id) throw new Error(`${id} and ${seen.get(wire)} both give ${wire}`);
        seen.set(wire, id);
      }
      expect(seen.size).toBeGreaterThan(5_000);
    },
  );

  it('never change the segments, the family or the slot of a resource', () => {
    const changed: object[] = [];
    for (let run = 0; run < 4_000; run += 1) {
      const pair = [value(), value()];
      const plain = render('goods:<0>:<1>', {}, ...pair);
      const keeps = {
        segments: plain.split(':').length === 3,
        family: toKey(plain) === `{lock_goods}${plain.slice('goods'.length)}`,
        resource: toWholeKey(plain) === `{lock_${plain}}`,
        slot: /^lock_goods:\{300\}:[^{}:|\s]+$/.test(toKey(render('goods:{300}:<0>', {}, pair[0]))),
        braces: /^lock_goods:\{[^{}:|\s]+\}$/.test(toKey(render('goods:{<0>}', {}, pair[0]))),
      };
      if (Object.values(keeps).includes(false)) changed.push({ pair, ...keeps });
    }
    expect(changed).toEqual([]);
  });
});
