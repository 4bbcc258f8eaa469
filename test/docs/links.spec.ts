import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Page, page, pages, root, sectionOf } from '../support/pages.js';

const linked = [
  ...pages,
  page('CONTRIBUTING.md'),
  page('lib/README.md'),
  page('test/README.md'),
  page('CHANGELOG.md'),
  page('SECURITY.md'),
  page('CODE_OF_CONDUCT.md'),
];

/** Returns a heading as an anchor, spelled as GitHub does. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** Returns the anchors of a page. */
function anchorsOf(path: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading));
}

/** Returns whether a file has a test whose name contains these words. A link to a test has them as its anchor. */
function hasTest(path: string, words: string): boolean {
  const text = readFileSync(join(root, path), 'utf8');
  const names = [...text.matchAll(/(['"`])(.+?)\1,\s+(?:async )?\(/g)].map(([, , name]) => anchorOf(name));
  return names.some((name) => name.includes(words));
}

function isBroken(from: string, link: string): boolean {
  const [file, anchor] = link.split('#');
  const path = file === '' ? from : relative(root, join(root, dirname(from), file));
  if (!existsSync(join(root, path))) return true;
  if (anchor === undefined) return false;
  return path.endsWith('.spec.ts') ? !hasTest(path, anchor) : !anchorsOf(path).includes(anchor);
}

/** Returns the number of words, as `wc -w` counts them. */
function wordsOf(text: string): number {
  // The lines of a table and the marks of a list do not count.
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** Returns the lines that the formatter can wrap: no code, no tables, no link definitions. */
function proseOf(text: string): readonly string[] {
  const lines = text.replaceAll(/^```[\s\S]*?^```/gm, '').split('\n');
  return lines.filter((line) => !/^(\||\[|!\[)/.test(line));
}

describe('the pages', () => {
  it('link to files and headings that exist', () => {
    const broken = linked.flatMap(({ path, text }) => {
      const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link);
      return links.filter((link) => !/^https?:/.test(link) && isBroken(path, link)).map((link) => `${path}: ${link}`);
    });
    expect(broken).toEqual([]);
  });

  it('exist under the titles that errors and logs of the package have, with their headings', () => {
    const files = (readdirSync(join(root, 'lib'), { recursive: true }) as string[]).filter((path) =>
      /\.(?:ts|lua|js)$/.test(path),
    );
    const named = files.flatMap((path) => {
      const code = readFileSync(join(root, 'lib', path), 'utf8');
      // The package does not contain docs/, so a path leads nowhere.
      expect(code).not.toMatch(/(?<![\w/])docs\/[\w/-]+\.md/);
      return [...code.matchAll(/"([^"]+)" on the page "([^"]+)"/g)].map(([, heading, title]) => ({ heading, title }));
    });
    const exists = ({ heading, title }: (typeof named)[number]) =>
      pages.some(({ text }) => text.startsWith(`# ${title}\n`) && text.includes(`\n## ${heading}\n`));
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((one) => !exists(one))).toEqual([]);
  });

  it('name commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const workflows = readdirSync(join(root, '.github/workflows')).map((name) => page(`.github/workflows/${name}`));
    const named = [...linked, ...workflows].flatMap(({ text }) =>
      [...text.matchAll(/npm run ([\w:]+)/g)].map(([, script]) => script),
    );
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
  });

  it.each(linked)('wraps at 120 columns: $path', ({ text }) => {
    expect(proseOf(text).filter((line) => line.length > 120)).toEqual([]);
  });

  it('keeps the README at 120 lines and 800 words', () => {
    const { text } = page('README.md');
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(120);
    expect(wordsOf(text)).toBeLessThanOrEqual(800);
  });

  // Twice as many words are read half as often. What a page gains, another loses.
  it('keeps docs/ at 18 pages and 18,000 words, code included', () => {
    const inDocs = pages.filter(({ path }) => path.startsWith('docs/'));
    expect(inDocs.length).toBeLessThanOrEqual(18);
    expect(inDocs.reduce((words, { text }) => words + wordsOf(text), 0)).toBeLessThanOrEqual(18_000);
  });

  it('have the same section in the README and in the guarantees on what a lock cannot promise', () => {
    const [one, other] = ['README.md', 'docs/guarantees.md'].map((path) =>
      sectionOf(path, 'What a Redis lock cannot promise').replaceAll(/\]\([^)]*\)|\s+/g, ' '),
    );
    expect(other.trim()).toBe(one.trim());
  });
});

describe('the page on guarantees', () => {
  const { text } = page('docs/guarantees.md');
  /** Returns the texts of the links of the page to a file. */
  const linksTo = (file: string): readonly string[] =>
    [...text.matchAll(/\[([^\]]+)\]\(\.\.\/([^)#]+)/g)]
      .filter(([, , path]) => path === file)
      .map(([, words]) => words.replaceAll(/\s+/g, ' '));

  it.each(['What is guaranteed', 'What a token promises'])('has evidence for each promise: %s', (heading) => {
    const promises = sectionOf('docs/guarantees.md', heading).split('\n- ').slice(1);
    expect(promises.length).toBeGreaterThan(2);
    expect(promises.filter((promise) => !/\]\(\.\.\/(?:labs|test)\//.test(promise))).toEqual([]);
  });

  it('names injected faults that exist', () => {
    const { text: results } = page('labs/chaos/RESULTS.md');
    const faults = linksTo('labs/chaos/RESULTS.md').filter((name) => name !== 'its results');
    expect(faults.length).toBeGreaterThan(5);
    expect(faults.filter((name) => !results.includes(`\n| ${name} `))).toEqual([]);
  });
});

describe('.github', () => {
  const files = (folder: string): readonly Page[] =>
    readdirSync(join(root, folder)).map((name) => page(`${folder}/${name}`));

  it.each(files('.github/workflows'))('pins every action to a commit: $path', ({ text }) => {
    const used = [...text.matchAll(/uses: (.*)$/gm)].map(([, action = '']) => action);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((action) => !/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
  });

  it.each(files('.github/ISSUE_TEMPLATE'))('links to pages that exist: $path', ({ text }) => {
    const paths = Array.from(text.matchAll(/\.\.\/blob\/main\/([^)#]+)/g), ([, path = '']) => path);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});
