// What the site needs of the pages, without building it. `site.slow.spec.ts` builds it and looks at it in a browser.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { slotOfTag } from '../../lib/redis/slots.js';
import { page, pages, root } from '../support/pages.js';

const IMAGES = join(root, 'docs/images');
const inDocs = pages.filter(({ path }) => path.startsWith('docs/') && path !== 'docs/index.md');

interface SidebarItem {
  readonly text: string;
  readonly link?: string;
  readonly items?: readonly SidebarItem[];
}

/** Returns what a module of the site exports. Jest does not load ES modules. */
function exportOf(module: string, name: string): unknown {
  const url = pathToFileURL(join(root, 'docs/.vitepress', module)).href;
  const code = `import { ${name} } from ${JSON.stringify(url)}; console.log(JSON.stringify(${name}))`;
  return JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' }));
}

/** Returns the first paragraph below the title of a page. Empty if something else stands there. */
function openingOf(text: string): string {
  const [, opening = ''] = /^# .+\n\n([A-Z`[][^]*?)\n\n/m.exec(text) ?? [];
  return opening;
}

describe('the site', () => {
  it('has every page in its sidebar once', () => {
    const groups = exportOf('navigation.mjs', 'sidebar') as readonly SidebarItem[];
    const links = groups.flatMap((group) => [group, ...(group.items ?? [])]).flatMap(({ link }) => link ?? []);
    const ofPages = links.filter((link) => !link.startsWith('/api/'));
    const paths = ofPages.map((link) => `docs${link.endsWith('/') ? `${link}index` : link}.md`);
    expect(paths.toSorted()).toEqual(inDocs.map(({ path }) => path).toSorted());
  });

  it('has a page for each file of the repository that it shows', () => {
    const shown = exportOf('repository.mjs', 'REPOSITORY_PAGES') as Record<string, string>;
    for (const path of Object.values(shown)) expect(page(path).text).toMatch(/^# /m);
  });

  it.each(inDocs)('begins with a paragraph, not with a section: $path', ({ text }) => {
    expect(openingOf(text)).toMatch(/\.$/);
  });
});

const pictures = readdirSync(IMAGES)
  .filter((name) => name.endsWith('.svg'))
  .map((name) => ({ name, svg: readFileSync(join(IMAGES, name), 'utf8') }));

/** Returns the classes that a style sheet gives colours. */
function coloured(css: string): readonly string[] {
  const rules = [...css.matchAll(/([.\w]+) \{[^}]*(?:fill|stroke): #/g)].map(([, selector]) => selector);
  return [...new Set(rules)].toSorted();
}

describe('the pictures', () => {
  it.each(pictures)('has colours for light and dark: $name', ({ svg }) => {
    const [, light = '', dark = ''] =
      /<style>([^]*?)@media \(prefers-color-scheme: dark\) \{([^]*)\}\s*<\/style>/.exec(svg) ?? [];
    expect(coloured(light)).toContain('.page');
    expect(coloured(dark)).toEqual(coloured(light));
  });

  it.each(pictures)('is on a page, with a text in its place: $name', ({ name }) => {
    const uses = pages.flatMap(({ text }) => [...text.matchAll(/!\[([^\]]*)\]\(images\/([\w-]+\.svg)\)/g)]);
    const texts = uses.filter(([, , file]) => file === name).map(([, alt]) => alt);
    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) expect(text.length).toBeGreaterThan(40);
  });

  it('shows the slots that these keys have', () => {
    const svg = readFileSync(join(IMAGES, 'cluster-slots.svg'), 'utf8');
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, text]) => text);
    const keys = texts.flatMap((text, i) => (text.startsWith('{') ? [i] : []));
    expect(keys).toHaveLength(8);
    for (const i of keys) {
      const [, tag = ''] = /^\{(.*?)\}/.exec(texts[i]) ?? [];
      expect([texts[i + 1], texts[i + 2]]).toEqual([tag, String(slotOfTag(tag))]);
    }
  });
});
