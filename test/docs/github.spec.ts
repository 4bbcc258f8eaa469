// What can be checked of .github without `npm run lint:workflows`.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { root } from '../support/pages.js';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const files = (folder: string) =>
  readdirSync(join(root, folder)).map((name) => ({ name, text: read(join(folder, name)) }));
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

describe.each(files('.github/workflows'))('the workflow $name', ({ text }) => {
  it('pins every action to a commit', () => {
    const used = [...text.matchAll(/uses: (.*)$/gm)].map(([, action]) => action);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((action) => !/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action ?? ''))).toEqual([]);
  });

  it('runs scripts that exist', () => {
    const named = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, script = '']) => script);
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
  });
});

it.each(files('.github/ISSUE_TEMPLATE'))('the form $name links to pages that exist', ({ text }) => {
  const paths = Array.from(text.matchAll(/\.\.\/blob\/main\/([^)#]+)/g), ([, path = '']) => path);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
