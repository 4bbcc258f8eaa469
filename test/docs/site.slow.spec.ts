// Builds the site of the documentation and looks at it in Chromium. With WRITE_SCREENSHOTS=1 it writes what it saw into
// .cache/site, to be looked at.
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { onBrowser, startBrowser, Viewer } from '../support/browser.js';
import { root } from '../support/pages.js';
import { serveFolder, type StaticSite } from '../support/static-site.js';

/** The pictures of the pages, by their path. */
const PICTURES = [
  ...readdirSync(join(root, 'docs/images')).map((name) => `docs/images/${name}`),
  'labs/bench/results/chart.svg',
].filter((path) => path.endsWith('.svg'));
const SEEN = join(root, '.cache/site');
const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };

let output = '';
let site: StaticSite | undefined;
let browser: Browser | undefined;
const viewers: Viewer[] = [];

beforeAll(async () => {
  const built = promisify(execFile)('npm', ['run', 'docs:build'], { cwd: root, maxBuffer: 64 << 20 });
  // The link check prints what it finds to stdout.
  ({ stdout: output } = await built.catch((error: { stdout?: string }) => {
    throw new Error(`npm run docs:build failed:\n${error.stdout}`, { cause: error });
  }));
  site = await serveFolder(join(root, 'docs/.vitepress/dist'));
  browser = await startBrowser();
});
afterEach(async () => {
  for (const viewer of viewers.splice(0)) await viewer.close();
});
afterAll(async () => {
  await browser?.close();
  await site?.close();
});

/** Opens a page, and waits until its scripts run. */
async function view(path: string): Promise<Viewer> {
  const viewer = await Viewer.open(browser as Browser, `${site?.url}${path}`);
  viewers.push(viewer);
  await viewer.until(`document.querySelector('#app').__vue_app__`);
  return viewer;
}

/** Keeps a picture of what the browser shows, if that is wanted. */
async function keep(viewer: Viewer, name: string): Promise<void> {
  if (process.env['WRITE_SCREENSHOTS'] !== '1') return;
  mkdirSync(SEEN, { recursive: true });
  await viewer.page.screenshot({ path: join(SEEN, `${name}.png`) });
}

describe('the site in a browser', () => {
  it('has no broken link, picture or anchor', () => {
    expect(output).toMatch(/^0 broken of \d{3,} links on \d{2,} pages$/m);
  });

  it(
    'opens with what it is, and leads to the quick start',
    onBrowser(async () => {
      const viewer = await view('/');
      await keep(viewer, 'front');
      expect((await viewer.texts('h1')).join()).toContain('Distributed locks on Redis for NestJS');
      await viewer.page.click('.VPHero .actions a');
      await viewer.until(`document.querySelector('h1')?.innerText.includes('Quick start')`);
      await keep(viewer, 'quick-start');
      expect(await viewer.texts('.VPSidebar .is-active .text')).toContain('Quick start');
      expect(viewer.problems).toEqual([]);
    }),
  );

  // What people type when they have a problem, and the page that answers them.
  it.each([
    ['retry', 'Errors and troubleshooting'],
    ['timeout', 'Configuration'],
    ['deadlock', 'Read/write locks'],
    ['semaphore', 'Read/write locks'],
    ['redis down', 'If Redis is down'],
    ['cron once', 'Cron jobs that run once'],
    ['strict two-phase locking', 'Lock scopes'],
  ])('finds the right page first: %s', (words, title) =>
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.click('.VPNavBarSearch button');
      await viewer.until(`document.querySelector('.VPLocalSearchBox input')`);
      await viewer.page.type('.VPLocalSearchBox input', words);
      await viewer.until(`document.querySelectorAll('.VPLocalSearchBox .result').length > 0`);
      // The list changes with each letter.
      await viewer.until(`document.querySelector('.VPLocalSearchBox .result')?.innerText.includes('${title}')`);
      await viewer.page.click('.VPLocalSearchBox .result');
      await viewer.until(`!document.querySelector('.VPLocalSearchBox') && document.querySelector('.vp-doc h1')`);
      expect(viewer.problems).toEqual([]);
    })(),
  );

  it(
    'fits a phone: no page scrolls sideways, and the menu has all pages',
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.setViewport(PHONE);
      const pages = ['/', '/quick-start', '/configuration', '/fencing', '/which-redis', '/troubleshooting', '/api/'];
      const widths: [string, number][] = [];
      for (const path of pages) {
        await viewer.page.goto(`${site?.url}${path.endsWith('/') ? path : `${path}.html`}`);
        await viewer.until(`document.querySelector('#app').__vue_app__`);
        widths.push([path, await viewer.read<number>('document.documentElement.scrollWidth')]);
        await keep(viewer, `phone${path.replaceAll('/', '-')}`);
      }
      expect(widths.filter(([, width]) => width > PHONE.width)).toEqual([]);
      await viewer.page.click('.VPLocalNav .menu');
      await viewer.until(`document.querySelector('.VPSidebar.open')`);
      expect(await viewer.texts('.VPSidebar .text')).toEqual(
        expect.arrayContaining(['Quick start', 'Errors and troubleshooting']),
      );
      expect(viewer.problems).toEqual([]);
    }),
  );
});

describe('the pictures in a browser', () => {
  it.each(PICTURES)('has no text that leaves it or its box, or lies on another: %s', (path) =>
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.setContent(readFileSync(join(root, path), 'utf8'));
      await keep(viewer, basename(path));
      const found = await viewer.read<string[]>(`(() => {
        const { width, height } = document.querySelector('svg').viewBox.baseVal;
        const texts = [...document.querySelectorAll('svg text')].map((text) => [text.textContent, text.getBBox()]);
        const leaves = texts.filter(([, box]) =>
          box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height);
        const overlaps = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width &&
          a.y + 2 < b.y + b.height && b.y + 2 < a.y + a.height;
        const pairs = texts.flatMap(([text, box], i) =>
          texts.slice(i + 1).filter(([, other]) => overlaps(box, other)).map(([other]) => text + ' / ' + other));
        const rects = [...document.querySelectorAll('svg rect:not(.page)')].map((rect) => rect.getBBox());
        const bursts = texts.filter(([, box]) => rects.some((rect) => {
          const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
          const holds = rect.x < x && x < rect.x + rect.width && rect.y < y && y < rect.y + rect.height;
          return holds && (box.x < rect.x || box.x + box.width > rect.x + rect.width);
        }));
        return [...leaves, ...bursts].map(([text]) => text).concat(pairs);
      })()`);
      expect(found).toEqual([]);
    })(),
  );
});
