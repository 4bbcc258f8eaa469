import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

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

/** Folders of docs/ that have no page of their own: the site's tools, and what they generate. */
const NO_PAGES = new Set(['.vitepress', 'node_modules', 'api', 'repository']);

/** Returns the paths of all pages below a folder, from the root. */
function pagesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NO_PAGES.has(entry.name) ? [] : pagesBelow(path);
    return entry.name.endsWith('.md') ? [relative(root, path)] : [];
  });
}

/** The pages that users read. */
export const pages: readonly Page[] = ['README.md', ...pagesBelow(join(root, 'docs'))].map(page);

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
