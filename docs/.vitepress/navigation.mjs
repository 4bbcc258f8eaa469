// What the sidebar shows. A test checks that every page is here once.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { docs } from './repository.mjs';

const { modules } = createRequire(import.meta.url)('../../tools/entry-points.cjs');

/** The pages by group, each by its file. Its text is its first heading. */
const GROUPS = [
  [
    'Locks',
    [
      'quick-start',
      'configuration',
      'read-write-semaphores',
      'cron-once',
      'transactions',
      'fencing',
      'testing',
      'standalone',
    ],
  ],
  ['Redis', ['which-redis', 'redis-down', 'guarantees']],
  ['Production', ['production', 'observability']],
  ['Help', ['troubleshooting', 'moving']],
];

/** Folders of pages, each with the text of its group. Such a group is above the last one. */
const FOLDERS = [['Recipes', 'recipes']];

/** Returns the first heading of a page, without its marks of code. */
function headingOf(page) {
  const [, heading] = /^# (.+)$/m.exec(readFileSync(join(docs, `${page}.md`), 'utf8')) ?? [];
  if (heading === undefined) throw new Error(`docs/${page}.md has no heading of the first level.`);
  return heading.replaceAll('`', '');
}

const pagesIn = (folder) =>
  readdirSync(join(docs, folder))
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .map((name) => name.replace(/\.md$/, ''));

const itemOf = (page) => ({ text: headingOf(page), link: `/${page}` });

/** Returns the group of a folder. Its index is the link of the group. Undefined if the folder does not exist. */
function folderGroup(text, folder) {
  if (!existsSync(join(docs, folder))) return undefined;
  const items = pagesIn(folder).map((name) => itemOf(`${folder}/${name}`));
  return {
    text,
    ...(existsSync(join(docs, folder, 'index.md')) && { link: `/${folder}/` }),
    collapsed: true,
    items: items.toSorted((a, b) => a.text.localeCompare(b.text)),
  };
}

/** Returns the groups, without pages that do not exist. A page that no group names is in the last one. */
function groupsOfPages() {
  const rest = new Set(pagesIn('.'));
  rest.delete('index');
  const groups = GROUPS.map(([text, entries]) => {
    return { text, items: entries.filter((page) => rest.delete(page)).map(itemOf) };
  });
  groups.at(-1).items.push(...[...rest].toSorted().map(itemOf));
  return groups;
}

const api = {
  text: 'API reference',
  link: '/api/',
  collapsed: true,
  items: Object.keys(modules).map((specifier) => ({ text: specifier, link: `/api/${specifier}` })),
};

const pages = groupsOfPages();
const folders = FOLDERS.map(([text, folder]) => folderGroup(text, folder)).filter((group) => group !== undefined);

export const sidebar = [...pages.slice(0, -1), ...folders, ...pages.slice(-1), api];
