import { describe, expect, it } from '@jest/globals';
import { compileGlob, escapeGlob, literalStart } from '../../../lib/keys/glob.js';

const matches = (glob: string, text: string): boolean | undefined => compileGlob(glob)?.(text);

describe('a glob', () => {
  it.each([
    ['goods:*', 'goods:300', true],
    ['goods:*', 'goods:', true],
    ['goods:*', 'good:300', false],
    ['*', '', true],
    ['**', 'x', true],
    ['', '', true],
    ['', 'x', false],
    ['g?ods', 'goods', true],
    ['g?ods', 'gods', false],
    ['?', '😀', true],
    ['*:300', 'goods:300:300', true],
    ['*:300', 'goods:3000', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['[ab]', 'b', true],
    ['[ab]', 'c', false],
    ['[a-c]x', 'bx', true],
    ['[c-a]x', 'bx', true],
    ['[^a-c]', 'd', true],
    ['[^a-c]', 'b', false],
    ['[a-]', '-', true],
    ['[\\]]', ']', true],
    ['[]x', 'x', false],
    ['\\*', '*', true],
    ['\\*', 'x', false],
    ['x\\', 'x\\', true],
    ['Goods', 'goods', false],
  ])('%j matches %j: %s', (glob, text, expected) => {
    expect(matches(glob, text)).toBe(expected);
  });

  it.each(['[', '[ab', 'goods:[^'])('%j has no end', (glob) => {
    expect(compileGlob(glob)).toBeUndefined();
  });

  it('takes no longer for many wildcards', () => {
    const glob = '*a'.repeat(500);
    expect(matches(`${glob}b`, 'a'.repeat(1_000))).toBe(false);
    expect(matches(glob, 'a'.repeat(1_000))).toBe(true);
  });

  it.each(['goods:300', 'a*b', 'a?[b]^c\\d', '*'])('of the escaped text %j matches it alone', (text) => {
    expect(matches(escapeGlob(text), text)).toBe(true);
    expect(matches(escapeGlob(text), `${text}x`)).toBe(false);
    expect(literalStart(`${escapeGlob(text)}*`)).toBe(text);
  });

  it.each([
    ['goods:*', 'goods:'],
    ['*', ''],
    ['go\\*ds:[1]', 'go*ds:'],
    ['x\\', 'x'],
  ])('%j starts with the text %j', (glob, start) => {
    expect(literalStart(glob)).toBe(start);
  });
});
