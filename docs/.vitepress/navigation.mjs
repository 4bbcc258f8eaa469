// What the sidebar shows. A test checks that every page is here once.
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { docs } from './repository.mjs';

const { modules } = createRequire(import.meta.url)('../../tools/entry-points.cjs');

/** The pages by group, each by its file, and by a text that is not its first heading. */
const GROUPS = [
  ['Start', ['introduction', 'quick-start']],
  ['Locks', ['keys', 'modes', 'transactions', ['errors', 'Errors and HTTP'], 'configuration', 'leader-election']],
  [
    'How it works',
    [['guarantees', 'Guarantees, and what a lock cannot promise'], 'algorithms', 'topologies', 'fencing'],
  ],
  ['Watching', ['observability', 'live-state', 'board', 'cli']],
  ['Testing and cost', ['testing', 'performance']],
  ['In production', [['production', 'Checklist'], 'deployments', 'permissions', 'upgrading']],
  ['Recipes', ['recipes/']],
  ['Moving from …', ['moving/']],
  ['Help', ['troubleshooting']],
];

/** Returns the first heading of a page, without its marks of code. */
function headingOf(page) {
  const [, heading] = /^# (.+)$/m.exec(readFileSync(join(docs, `${page}.md`), 'utf8')) ?? [];
  if (heading === undefined) throw new Error(`docs/${page}.md has no heading of the first level.`);
  return heading.replaceAll('`', '');
}

const pagesBelow = (folder) => {
  const names = readdirSync(join(docs, folder)).filter((name) => name.endsWith('.md'));
  const isIndex = (name) => name === 'index.md';
  return names
    .toSorted((a, b) => Number(isIndex(b)) - Number(isIndex(a)) || a.localeCompare(b))
    .map((name) => `${folder}${name.replace(/\.md$/, '')}`);
};

/** A name that ends in a slash is a folder, which may be missing. A page of that name, without the slash, comes first. */
function itemsOf(entry) {
  const [page, text] = Array.isArray(entry) ? entry : [entry];
  if (!page.endsWith('/')) return [{ text: text ?? headingOf(page), link: `/${page}` }];
  const inDocs = readdirSync(docs);
  const name = page.slice(0, -1);
  const pages = [
    ...(inDocs.includes(`${name}.md`) ? [name] : []),
    ...(inDocs.includes(name) ? pagesBelow(page) : []),
  ];
  return pages.map((one) => ({ text: headingOf(one), link: `/${one.replace(/\/index$/, '/')}` }));
}

const api = {
  text: 'API reference',
  collapsed: true,
  items: Object.keys(modules).map((specifier) => ({ text: specifier, link: `/api/${specifier}` })),
};

/** Groups without a page are left out. */
export const sidebar = [
  ...GROUPS.map(([text, entries]) => ({ text, items: entries.flatMap(itemsOf) })).filter(({ items }) => items.length > 0),
  api,
];
