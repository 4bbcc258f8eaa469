import { describe, expect, it } from '@jest/globals';
import { optionsAt } from '../../lib/options/option-table.js';
import { page } from '../support/pages.js';

const { text } = page('docs/configuration.md');
const ofModule = { ...optionsAt('module'), ...optionsAt('extras') };
const ofLock = optionsAt('lock');
const allOptions = { ...ofModule, ...ofLock };

/** The defaults that are computed. */
const COMPUTED: Readonly<Record<string, string>> = {
  store: 'token()',
  identity: 'host name and pid',
};

/** Returns an option as the page on configuration names it, with its mark. */
function markOf(option: string): string {
  if (!(option in ofLock)) return option;
  return `${option} ${option in ofModule ? '•' : '◦'}`;
}

describe('the page on configuration', () => {
  it('lists every option of the module and of a lock, with its mark and its default', () => {
    const rows = [...text.matchAll(/^\| `(\w+)`( [•◦])? *\| `?([^|`]*?)`? *\|/gm)];
    const listed = new Map(rows.map(([, name, mark = '', value]) => [name + mark, value]));
    const expected = Object.entries<{ readonly default: string | number | boolean | undefined }>(allOptions).map(
      ([name, row]) => [markOf(name), COMPUTED[name] ?? String(row.default ?? 'none')] as const,
    );
    expect(listed).toEqual(new Map(expected));
  });

  it('has sections for options only, with their marks', () => {
    const explained = [...text.matchAll(/^### `(\w+)`( [•◦])?$/gm)].map(([, name, mark = '']) => name + mark);
    expect(explained).not.toEqual([]);
    expect(Object.keys(allOptions).map(markOf)).toEqual(expect.arrayContaining(explained));
  });
});

it('the section on the board explains every option', () => {
  const [, board = ''] = page('docs/live-state.md').text.split('\n## The board\n');
  const options = ['route', 'guards', 'unprotected', 'allowRelease', 'hosts', 'name', 'imports'];
  expect([...board.matchAll(/^- `(\w+)`: /gm)].map(([, option]) => option)).toEqual(options);
});
