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

/** Returns how bright the page of a picture is, from 0 to 255, as the browser shows it. */
async function brightnessOf(viewer: Viewer, selector: string): Promise<number> {
  await viewer.until(`document.querySelector('${selector}').complete`);
  const element = await viewer.page.$(selector);
  const png = await element?.screenshot({ encoding: 'base64' });
  return viewer.read<number>(`(async () => {
    const image = new Image();
    image.src = 'data:image/png;base64,${png}';
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(canvas.width / 2, 6, 1, 1);
    return (data[0] + data[1] + data[2]) / 3;
  })()`);
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

  it.each([
    ['a laptop', { width: 1280, height: 800 }, 350],
    ['a phone', PHONE, 200],
  ])('shows code on the first screen of %s', (name, viewport, least) =>
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.setViewport(viewport);
      await keep(viewer, `front on ${name}`);
      const top = await viewer.read<number>(`document.querySelector('.vp-doc pre').getBoundingClientRect().top`);
      expect(viewport.height - top).toBeGreaterThan(least);
      expect(await viewer.read('document.documentElement.scrollWidth')).toBe(viewport.width);
    })(),
  );

  it(
    'finds a page by its words',
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.click('.VPNavBarSearch button');
      await viewer.until(`document.querySelector('.VPLocalSearchBox input')`);
      await viewer.page.type('.VPLocalSearchBox input', 'strict two-phase locking');
      await viewer.until(`document.querySelectorAll('.VPLocalSearchBox .result').length > 0`);
      await keep(viewer, 'search');
      // Guides come before the API reference.
      expect((await viewer.texts('.VPLocalSearchBox .result'))[0]).toContain('Lock scopes');
      await viewer.page.click('.VPLocalSearchBox .result');
      await viewer.until(`!document.querySelector('.VPLocalSearchBox') && document.querySelector('.vp-doc h1')`);
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'finds an exported name in the API reference',
    onBrowser(async () => {
      const viewer = await view('/api/');
      expect(await viewer.texts('.vp-doc a')).toContain('nestjs-redis-lock/quorum');
      await viewer.page.click('.VPNavBarSearch button');
      await viewer.until(`document.querySelector('.VPLocalSearchBox input')`);
      await viewer.page.type('.VPLocalSearchBox input', 'forceRelease');
      await viewer.until(`[...document.querySelectorAll('.VPLocalSearchBox .result')]
        .some(({ href }) => href.includes('/api/'))`);
      await keep(viewer, 'api');
      expect(viewer.problems).toEqual([]);
    }),
  );

  it.each([
    ['light', 240, 256],
    ['dark', 0, 60],
  ])('has pictures that follow the system: %s', (scheme, least, most) =>
    onBrowser(async () => {
      const viewer = await view('/fencing.html');
      await viewer.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await viewer.page.reload();
      await viewer.until(`document.documentElement.classList.contains('dark') === ${scheme === 'dark'}`);
      const brightness = await brightnessOf(viewer, '.vp-doc img[src*="pause-and-fence"]');
      await keep(viewer, `fencing-${scheme}`);
      expect(brightness).toBeGreaterThan(least);
      expect(brightness).toBeLessThan(most);
      expect(viewer.problems).toEqual([]);
    })(),
  );

  it(
    'has pictures that follow the switch of the page',
    onBrowser(async () => {
      const viewer = await view('/fencing.html');
      // The switch is in a menu if the window is narrower.
      await viewer.page.setViewport({ width: 1440, height: 900 });
      await viewer.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
      await viewer.page.click('.VPNavBarAppearance button');
      await viewer.until(`document.documentElement.classList.contains('dark')`);
      expect(await brightnessOf(viewer, '.vp-doc img[src*="pause-and-fence"]')).toBeLessThan(60);
    }),
  );

  it(
    'keeps a space where a line ends between two elements',
    onBrowser(async () => {
      const viewer = await view('/errors.html');
      expect((await viewer.texts('.vp-doc li')).join()).toContain('RPC and WebSocket: { "status"');
    }),
  );

  it(
    'keeps braces at the end of a cell',
    onBrowser(async () => {
      const viewer = await view('/repository/chaos-results.html');
      expect(await viewer.texts('.vp-doc td')).toContain('Sentinel failover, replicas: { min: 1 }');
    }),
  );

  it.each(['guarantees', 'fencing', 'topologies', 'transactions', 'performance', 'live-state'])(
    'shows pictures on a phone in a size that can be read: %s',
    (page) =>
      onBrowser(async () => {
        const viewer = await view(`/${page}.html`);
        await viewer.page.setViewport(PHONE);
        expect(await viewer.read(`document.querySelector('.vp-doc img').width`)).toBeGreaterThan(700);
        expect(await viewer.read('document.documentElement.scrollWidth')).toBe(PHONE.width);
      })(),
  );

  it(
    'fits a phone: no page scrolls sideways, and the menu has all pages',
    onBrowser(async () => {
      const viewer = await view('/');
      await viewer.page.setViewport(PHONE);
      const pages = ['/', '/quick-start', '/configuration', '/performance', '/fencing', '/troubleshooting', '/api/'];
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
      expect(await viewer.texts('.VPSidebar .text')).toEqual(expect.arrayContaining(['Keys', 'Troubleshooting']));
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
