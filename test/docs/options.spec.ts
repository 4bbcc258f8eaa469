import { describe, expect, it } from '@jest/globals';
import { optionsAt } from '../../lib/options/option-table.js';
import { page, sectionOf } from '../support/pages.js';

interface Row {
  readonly default: string | number | boolean | undefined;
}

const { text } = page('docs/configuration.md');
const ofModule = { ...optionsAt('module'), ...optionsAt('extras') };
const ofLock = optionsAt('lock');
const allOptions = { ...ofModule, ...ofLock };

/** The defaults that are computed. */
const COMPUTED: Readonly<Record<string, string>> = {
  store: 'token()',
  identity: 'host name and pid',
};

/** Returns an option as the page on configuration names it: with a mark if the module does not take it. */
function markOf(option: string): string {
  return option in ofModule ? option : `${option} ◦`;
}

describe('the page on configuration', () => {
  it.each([
    ['Options of the module', Object.keys(ofModule).filter((option) => !(option in ofLock))],
    ['Options of a call', Object.keys(ofLock)],
  ])('lists each option once, with its mark and its default: %s', (heading, options) => {
    const rows = [...sectionOf('docs/configuration.md', heading).matchAll(/^\| `(\w+)`( ◦)? *\| `?([^|`]*?)`? *\|/gm)];
    const listed = rows.map(([, name, mark = '', value]) => [name + mark, value]);
    const expected = options.map((name) => [
      markOf(name),
      COMPUTED[name] ?? String((allOptions as Readonly<Record<string, Row>>)[name]?.default ?? 'none'),
    ]);
    expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(expected));
    expect(listed).toHaveLength(expected.length);
  });

  it('has sections for options only', () => {
    const explained = [...text.matchAll(/^### `(\w+)`$/gm)].map(([, name]) => name);
    expect(explained).not.toEqual([]);
    expect(Object.keys(allOptions)).toEqual(expect.arrayContaining(explained));
  });
});

it('the section on the board explains every option', () => {
  const board = sectionOf('docs/observability.md', 'The board');
  const options = ['route', 'guards', 'unprotected', 'allowRelease', 'hosts', 'name', 'imports'];
  expect([...board.matchAll(/^- `(\w+)`: /gm)].map(([, option]) => option)).toEqual(options);
});
