import { describe, expect, it } from '@jest/globals';
import { fitted, printable, printableJson, widthOf } from '../../../lib/cli/printable.js';

/** Texts that a terminal may interpret, hide or reorder, each with what is shown. */
const HOSTILE: readonly (readonly [name: string, text: string, shown: string])[] = [
  ['a line break', 'a\nb', String.raw`a\u{a}b`],
  ['a carriage return', 'a\rb', String.raw`a\u{d}b`],
  ['a color', '\u001b[31mred', String.raw`\u{1b}[31mred`],
  ['the one-byte start of a sequence', '\u009b31m', String.raw`\u{9b}31m`],
  ['a title of the window', '\u001b]0;x\u0007', String.raw`\u{1b}]0;x\u{7}`],
  ['a bidi override', 'goods:\u202egnp', String.raw`goods:\u{202e}gnp`],
  ['a bidi isolate', '\u2066x\u2069', String.raw`\u{2066}x\u{2069}`],
  ['a character without width', 'a\u200bb', String.raw`a\u{200b}b`],
  ['a separator of lines', 'a\u2028b', String.raw`a\u{2028}b`],
  ['a no-break space', 'a\u00a0b', String.raw`a\u{a0}b`],
  ['half a character', 'a\ud800b', String.raw`a\u{d800}b`],
  ['an unassigned character', 'a\u{e0080}b', String.raw`a\u{e0080}b`],
  ['a backslash', String.raw`a\u{a}b`, String.raw`a\\u{a}b`],
  ['many combining marks', 'a\u0301\u0301\u0301', String.raw`a\u{301}\u{301}\u{301}`],
];

describe('printable()', () => {
  it.each(HOSTILE)('escapes %s', (_name, text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  it.each(['goods:300', 'order/5 <b>&amp;</b> "x"', 'größe:1', 'orden\u0303o', '商品:300', 'товар', '🛒:1'])(
    'leaves %j as it is',
    (text) => {
      expect(printable(text)).toBe(text);
    },
  );

  it('shows two different texts differently', () => {
    const shown = HOSTILE.map(([, text]) => printable(text));
    expect(new Set(shown).size).toBe(HOSTILE.length);
  });
});

describe('printableJson()', () => {
  it.each(HOSTILE)('is harmless and means the same for %s', (_name, text) => {
    const json = printableJson({ resource: text });
    expect(json).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
    expect(JSON.parse(json)).toEqual({ resource: text });
  });
});

describe('widths', () => {
  it.each([
    ['goods', 5],
    ['größe', 5],
    ['o\u0303', 1],
    ['商品', 4],
    ['🛒', 2],
    ['ｆｕｌｌ', 8],
    ['ﾊﾝｶｸ', 4],
  ])('of %j is %i', (text, width) => {
    expect(widthOf(text)).toBe(width);
  });

  it.each([
    ['goods:300', 9, 'goods:300'],
    ['goods:300', 6, 'goods…'],
    ['商品:300', 4, '商…'],
    ['goods', 1, '…'],
    ['goods', 0, ''],
  ])('%j in %i columns is %j', (text, width, shown) => {
    expect(fitted(text, width)).toBe(shown);
  });
});
