import { readdirSync, readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { expect, it } from '@jest/globals';
import { page, pages, root } from '../support/pages.js';

/** Languages that a page may show and no test compiles. */
const NOT_COMPILED = ['sh', 'text', ''];

/** The endings of the examples in each of the other languages. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  ts: ['.ts'],
  js: ['.cjs', '.mjs'],
  prisma: ['.prisma'],
};

/** Returns the files below a folder, with their paths from the root. */
function filesOf(folder: string): readonly string[] {
  const inFolder = readdirSync(join(root, folder), { recursive: true }) as string[];
  return inFolder.map((path) => join(folder, path));
}
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The specs of `test:recipes` are beside its examples. They need packages that are not installed here. */
const specs = [...filesOf('test/docs'), ...filesOf('labs/recipes/tests')].filter((path) =>
  /\.(spec|test)\.ts$/.test(path),
);
const GENERATED = 'labs/recipes/examples/prisma/generated/';

/** The code of all pages is in these files, which are type-checked and run by the specs. */
const examples = [...filesOf('test/docs'), ...filesOf('labs/recipes/examples')].filter(
  (path) =>
    Object.values(ENDINGS).flat().includes(extname(path)) && !specs.includes(path) && !path.startsWith(GENERATED),
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

// Users paste this code into applications of `nest new`, whose ESLint configuration refuses needless `async`.
it.each(['README.md', 'docs/index.md', 'docs/quick-start.md'])('the linter refuses needless async in %s', (path) => {
  const { overrides } = JSON.parse(read('.oxlintrc.json')) as { overrides: { files: string[]; rules: object }[] };
  const strict = overrides.filter(({ rules }) => 'typescript/require-await' in rules).flatMap(({ files }) => files);
  const blocks = [...page(path).text.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code);
  const shown = examples.filter((example) => blocks.some((code) => read(example).includes(code)));
  expect(shown.length).toBeGreaterThan(0);
  expect(shown.filter((example) => !strict.some((glob) => example.startsWith(glob.replace('**', ''))))).toEqual([]);
});

it('every code block of a page is TypeScript that runs, or no program', () => {
  const languages = pages.flatMap(({ text }) => [...text.matchAll(/^ *```(.*)\n[\s\S]*?^ *```$/gm)]);
  const allowed = [...NOT_COMPILED, ...Object.keys(ENDINGS)];
  expect(languages.map(([, language]) => language).filter((one) => !allowed.includes(one))).toEqual([]);
});

it('every example is run by a spec', () => {
  const texts = [...specs.map(read), read('labs/recipes/run.mjs'), read('labs/recipes/tests/pino-app.ts')];
  const isRun = (path: string): boolean =>
    texts.some((text) => text.includes(`/${basename(path, '.ts')}.js'`) || text.includes(`/${basename(path)}'`));
  expect(examples.filter((path) => !isRun(path))).toEqual([]);
});
