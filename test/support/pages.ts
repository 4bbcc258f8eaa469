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

/** Returns the text below a heading of the second or third level, up to the next heading of any level. */
export function sectionOf(path: string, heading: string): string {
  const { text } = page(path);
  const sections = text.split(/\n#{2,3} /).slice(1);
  const section = sections.find((each) => each.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${path} has no section ${heading}.`);
  return section.slice(heading.length + 1);
}

/** Returns the commands that a text lists in code marks, in lower case. */
export function commandsIn(text: string): readonly string[] {
  return [...text.matchAll(/`([A-Z]+)`/g)].map(([, command]) => command.toLowerCase());
}
