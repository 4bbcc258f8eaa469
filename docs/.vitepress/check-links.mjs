// Checks the built site: every link, picture and anchor leads to something that exists. VitePress itself checks links
// between pages only, and no anchors. No request is sent: addresses of other sites are not looked at.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const site = join(import.meta.dirname, 'dist');
const base = process.env['DOCS_BASE'] ?? '/';
const unescape = (text) => text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&');

const pages = readdirSync(site, { recursive: true })
  .filter((path) => path.endsWith('.html'))
  .map((path) => join(site, path));
const read = new Map(pages.map((path) => [path, readFileSync(path, 'utf8')]));
const idsOf = new Map(
  [...read].map(([path, html]) => [path, new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => unescape(id)))]),
);

/** Returns the file that a link leads to. */
function fileOf(path, from) {
  if (path === '') return from;
  const file = path.startsWith('/') ? join(site, path.slice(base.length - 1)) : join(dirname(from), path);
  if (path.endsWith('/') || (existsSync(file) && statSync(file).isDirectory())) return join(file, 'index.html');
  return existsSync(file) ? file : `${file}.html`;
}

/** Returns what is wrong with a link. Undefined if nothing is. */
function problemOf(link, from) {
  if (/^[a-z][a-z\d+.-]*:|^\/\//i.test(link)) return undefined;
  const [path, anchor] = decodeURI(link).split('#');
  const file = fileOf(path, from);
  if (!existsSync(file)) return 'there is no such file';
  if (anchor && idsOf.has(file) && !idsOf.get(file).has(decodeURIComponent(anchor))) return 'there is no such heading';
  return undefined;
}

let links = 0;
const problems = [];
for (const [path, html] of read) {
  const found = new Set(
    [...html.matchAll(/<(?:a|img|link|script|source)\b[^>]*?\s(?:href|src)="([^"]*)"/g)].map(([, link]) => link),
  );
  links += found.size;
  for (const link of found) {
    const problem = problemOf(unescape(link), path);
    if (problem !== undefined) problems.push(`${relative(site, path)}: ${unescape(link)}: ${problem}`);
  }
}
if (pages.length === 0) problems.push(`${site} has no page: build the site first`);
console.log([...problems, `${problems.length} broken of ${links} links on ${pages.length} pages`].join('\n'));
process.exitCode = problems.length === 0 ? 0 : 1;
