import { readdirSync, readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { expect, it } from '@jest/globals';
import { pages } from '../support/pages.js';

/** Languages that a page may show and no test compiles. */
const NOT_COMPILED = ['sh', 'text', ''];

/** The endings of the examples in each of the other languages. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  ts: ['.ts'],
  js: ['.cjs', '.mjs'],
  prisma: ['.prisma'],
};

const files = readdirSync(__dirname, { recursive: true }) as string[];
const read = (path: string): string => readFileSync(join(__dirname, path), 'utf8');

/** The code of all pages is in files below this folder, which are type-checked and run by the specs here. */
const examples = files.filter(
  (path) => Object.values(ENDINGS).flat().includes(extname(path)) && !path.endsWith('.spec.ts'),
);

it('every code block of a page is in an example, and every example is on a page', () => {
  const sources = examples.map(read);
  const shown = new Set<number>();
  for (const { path, text } of pages) {
    for (const [, code] of text.matchAll(/```(?:ts|js|prisma)\n([\s\S]*?)```/g)) {
      const found = sources.findIndex((source) => source.includes(`\n${code}`) || source.startsWith(code));
      if (found < 0) throw new Error(`${path} shows code that no example has:\n${code}`);
      shown.add(found);
    }
  }
  expect(examples.filter((_, i) => !shown.has(i))).toEqual([]);
});

it('every code block of a page is TypeScript that runs, or no program', () => {
  const languages = pages.flatMap(({ text }) => [...text.matchAll(/^ *```(.*)\n[\s\S]*?^ *```$/gm)]);
  const allowed = [...NOT_COMPILED, ...Object.keys(ENDINGS)];
  expect(languages.map(([, language]) => language).filter((one) => !allowed.includes(one))).toEqual([]);
});

it('every example is run by a spec', () => {
  const specs = files.filter((path) => path.endsWith('.spec.ts')).map(read);
  const isRun = (path: string): boolean =>
    specs.some((spec) => spec.includes(`/${basename(path, '.ts')}.js'`) || spec.includes(`/${basename(path)}'`));
  expect(examples.filter((path) => !isRun(path))).toEqual([]);
});
