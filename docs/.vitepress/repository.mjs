// Links of the pages to other files of the repository. On GitHub they work as they are. On the site, some of these
// files are pages, and the others are links to the repository, whose address is `repository` in package.json.
import { readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

// Vite bundles this file, and keeps `import.meta.url` what it is.
export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');
export const docs = join(root, 'docs');

/** Files outside docs/ that are pages of the site: the path of the file by the name of the page. */
export const REPOSITORY_PAGES = {
  readme: 'README.md',
  changelog: 'CHANGELOG.md',
  contributing: 'CONTRIBUTING.md',
  chaos: 'labs/chaos/README.md',
  'chaos-results': 'labs/chaos/RESULTS.md',
  judge: 'labs/chaos/judge/README.md',
  'judge-results': 'labs/chaos/judge/RESULTS.md',
  explorer: 'test/explorer/README.md',
  'benchmark-results': 'labs/bench/results/results.md',
  'fenced-orders': 'sample/fenced-orders/README.md',
  'flash-sale': 'sample/flash-sale/README.md',
};
const pageOf = new Map(
  Object.entries(REPOSITORY_PAGES).flatMap(([name, path]) => {
    const page = `/repository/${name}.md`;
    // Links to a folder lead to its README.
    return path.endsWith('/README.md')
      ? [
          [path, page],
          [dirname(path), page],
        ]
      : [[path, page]];
  }),
);

const { repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Address of the repository in a browser. Undefined as long as package.json does not have it. */
export const repositoryUrl = (repository?.url ?? repository)?.replace(/^git\+/, '').replace(/\.git$/, '');

const isExternal = (link) => /^[a-z][a-z\d+.-]*:|^\/\//i.test(link);
const toPosix = (path) => path.split(sep).join('/');

/**
 * Returns where a link of a page leads on the site. Undefined if it leads to a file of the repository whose address is
 * not known.
 * @param link as the page has it
 * @param folder of the page, an absolute path
 */
export function siteLink(link, folder) {
  if (isExternal(link) || link.startsWith('#') || link.startsWith('/')) return link;
  const [path, anchor] = link.split('#');
  const file = join(folder, decodeURIComponent(path));
  if (!relative(docs, file).startsWith('..')) return link;
  const inRepository = toPosix(relative(root, file)).replace(/\/$/, '');
  const page = pageOf.get(inRepository);
  const hash = anchor === undefined ? '' : `#${anchor}`;
  if (page !== undefined) return page + hash;
  return repositoryUrl === undefined ? undefined : `${repositoryUrl}/blob/main/${inRepository}${hash}`;
}

/** A plugin of markdown-it. Text stays if its link leads to a file of the repository whose address is not known. */
export function repositoryLinks(md) {
  md.core.ruler.push('repository_links', ({ tokens, env }) => {
    const folder = dirname(env.realPath ?? env.path ?? join(docs, 'index.md'));
    for (const { children } of tokens) if (children) relink(children, folder);
  });
}

function relink(tokens, folder) {
  const dropped = [];
  const open = [];
  for (const token of tokens) {
    if (token.type === 'link_open') {
      const link = siteLink(token.attrGet('href') ?? '', folder);
      open.push(link);
      if (link === undefined) dropped.push(token);
      else token.attrSet('href', link);
    } else if (token.type === 'link_close' && open.pop() === undefined) dropped.push(token);
  }
  for (const token of dropped) tokens.splice(tokens.indexOf(token), 1);
}

/** Returns the text of a file with its relative links and pictures made relative to another folder. */
export function moveLinks(text, from, to) {
  return text.replaceAll(/(\]\(|\bsrc(?:set)?=")(?![a-z][a-z\d+.-]*:|[#/])([^)"\s#]+)/gi, (_, before, link) => {
    return before + toPosix(relative(to, join(from, link)));
  });
}
