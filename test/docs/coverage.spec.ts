import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { pages } from '../support/pages.js';
import { blocks, languagesOf } from './blocks.js';

/** Languages that a page may show and no test compiles. */
const NOT_COMPILED = ['sh', 'text', 'js', ''];

const specs = readdirSync(__dirname)
  .filter((name) => name.endsWith('.spec.ts'))
  .map((name) => readFileSync(join(__dirname, name), 'utf8'))
  .join('\n');

it('every block of code on a page is TypeScript that tests compile, or no program', () => {
  const languages = pages.flatMap(({ text }) => languagesOf(text));
  expect(languages.filter((language) => ![...NOT_COMPILED, 'ts'].includes(language))).toEqual([]);
});

it('a test runs every block of TypeScript that is on a page', () => {
  const isRun = ({ page, names }: (typeof blocks)[number]): boolean =>
    names.length === 0
      ? specs.includes(`runBlock('${page}'`)
      : names.some((name) => new RegExp(`'${page}',[^)]*'${name}'`).test(specs));
  // The quick start imports its own blocks.
  const imported = blocks.flatMap(({ page, code }) =>
    [...code.matchAll(/import \{ (\w+)[^}]*\} from '\.\//g)].map(([, name]) => `${page} ${name}`),
  );
  const isImported = ({ page, names }: (typeof blocks)[number]): boolean =>
    names.some((name) => imported.includes(`${page} ${name}`));
  const others = blocks.filter((block) => !isRun(block) && !isImported(block));
  expect(others.map(({ page, names }) => `${page}: ${names.join()}`)).toEqual([]);
});
