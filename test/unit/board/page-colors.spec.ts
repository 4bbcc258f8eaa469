import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

const style = readFileSync(join(__dirname, '../../../lib/board/assets/board.css'), 'utf8');
const [, light = '', dark = ''] = style.split(':root {');

/** Returns the colours of a scheme by name. */
function colorsOf(text: string): Record<string, string> {
  const found = text.matchAll(/^ *--([\w-]+): (#\w+);/gm);
  return Object.fromEntries([...found].map(([, name, value]) => [name, value]));
}

/** Returns the relative luminance of a colour, as WCAG defines it. */
function luminanceOf(color: string): number {
  const digits = color.length === 4 ? color.replaceAll(/[\da-f]/g, '$&$&') : color;
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return share <= 0.040_45 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrastOf(one: string, other: string): number {
  const [high = 0, low = 0] = [luminanceOf(one), luminanceOf(other)].toSorted((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

const SCHEMES = { light: colorsOf(light), dark: colorsOf(dark) };
const TEXTS = [
  ...['text', 'muted', 'blue', 'good', 'warn', 'bad'].map((text) => [text, 'card']),
  ...['text', 'muted'].map((text) => [text, 'page']),
  ['warn', 'warn-back'],
  ['bad', 'bad-back'],
];

describe.each(Object.entries(SCHEMES))('the colours of the board: %s', (_, colors) => {
  it.each(TEXTS)('%s on %s can be read (WCAG AA)', (text, back) => {
    expect(contrastOf(colors[text], colors[back])).toBeGreaterThanOrEqual(4.5);
  });

  it.each([
    ['focus', 'card'],
    ['focus', 'page'],
    ['bar', 'rail'],
    ['pale', 'card'],
    ['strong', 'pale'],
  ])('%s differs from %s', (one, other) => {
    expect(contrastOf(colors[one], colors[other])).toBeGreaterThanOrEqual(3);
  });
});
