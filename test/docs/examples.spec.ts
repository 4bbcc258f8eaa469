import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

const root = join(__dirname, '../..');
const pages = ['README.md', ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith('.md'),
);

/** The code of all pages lives in files below this folder, which are type-checked, and run by the specs here. */
const examples = (readdirSync(__dirname, { recursive: true }) as string[]).filter(
  (path) => path.endsWith('.ts') && !path.endsWith('.spec.ts'),
);

it('there is no TypeScript on a page that is not in a file of test/docs, and no file that is on no page', () => {
  const files = examples.map((name) => readFileSync(join(__dirname, name), 'utf8'));
  const shown = new Set<number>();
  for (const path of pages) {
    const page = readFileSync(join(root, path), 'utf8');
    for (const [, code] of page.matchAll(/```ts\n([\s\S]*?)```/g)) {
      const found = files.findIndex((file) => file.includes(`\n${code}`) || file.startsWith(code));
      if (found < 0) throw new Error(`${path} shows code that no file has:\n${code}`);
      shown.add(found);
    }
  }
  expect(examples.filter((_, i) => !shown.has(i))).toEqual([]);
});
