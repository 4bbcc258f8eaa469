import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const root = join(__dirname, '../..');

/** A Markdown page of the documentation, with its path from the root. */
export interface Page {
  readonly path: string;
  readonly text: string;
}

/** Returns one page. */
export function page(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

const inDocs = ['docs', 'docs/recipes'].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
);

/** The pages that users read. */
export const pages: readonly Page[] = ['README.md', ...inDocs].map(page);

/** Returns the text below a second-level heading, up to the next heading of any level. */
export function sectionOf(path: string, heading: string): string {
  const { text } = page(path);
  const start = text.indexOf(`\n## ${heading}\n`);
  if (start < 0) throw new Error(`${path} has no section ${heading}.`);
  const [section] = text.slice(start + `\n## ${heading}\n`.length).split(/\n#{2,} /);
  return section;
}

/** Returns the commands that a text lists in code marks, in lower case. */
export function commandsIn(text: string): readonly string[] {
  return [...text.matchAll(/`([A-Z]+)`/g)].map(([, command]) => command.toLowerCase());
}
