// The board in Chromium. With WRITE_SCREENSHOTS=1 it writes the pictures of the docs and the README.
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockInfo } from 'nestjs-redis-lock';
import type { Browser } from 'puppeteer-core';
import { eventually } from '../../support/async.js';
import { onBrowser, startBrowser, Viewer } from '../../support/browser.js';
import { uniquePrefix } from '../../support/shared-redis.js';
import { closeApps, startApp, type TestApp } from '../support/app.js';
import { Admins, heldLock, holders, listOf, startBoard, waiters } from './support.js';

const IMAGES = join(__dirname, '../../../docs/images');

let browser: Browser | undefined;
const viewers: Viewer[] = [];
beforeAll(async () => void (browser = await startBrowser()));
afterEach(async () => {
  for (const viewer of viewers.splice(0)) await viewer.close();
  await closeApps();
});
afterAll(() => browser?.close());

async function view(app: TestApp, path = '/locks', origin = app.url, cookie = 'admin=secret'): Promise<Viewer> {
  const viewer = await Viewer.open(browser as Browser, origin + path, cookie);
  viewers.push(viewer);
  return viewer;
}

const ROW = (resource: string) =>
  `[...document.querySelectorAll('#rows tr')].some((row) => row.innerText.includes('${resource}'))`;
const ROWS = (count: number) => `document.querySelectorAll('#rows tr').length === ${count}`;

/** The locks of a busy shop. */
const SHOP: readonly LockInfo[] = [
  heldLock('goods:300', {
    identity: 'api-7f9c-31',
    heldForMs: 4_210,
    expiresInMs: 26_300,
    fencingToken: 1_795_311_602_114_307,
    method: 'StockService.buy',
    waiting: waiters('api-7f9c-44', 'api-7f9c-52', 'worker-2b1a-8'),
    waitingHere: 4,
  }),
  heldLock('order:81723', {
    identity: 'api-7f9c-44',
    heldForMs: 310,
    expiresInMs: 29_700,
    fencingToken: 1_795_311_606_020_411,
    waiting: waiters('api-7f9c-31'),
  }),
  heldLock('report:daily', {
    identity: 'worker-2b1a-8',
    heldForMs: 754_000,
    expiresInMs: 24_900,
    fencingToken: 1_795_310_848_700_119,
  }),
  heldLock('price-list:eu', {
    identity: 'api-7f9c-31',
    mode: 'shared',
    expiresInMs: 28_000,
    fencingToken: undefined,
    others: holders('api-7f9c-44', 'api-7f9c-52'),
  }),
  heldLock('mail-gateway', {
    identity: 'worker-2b1a-8',
    mode: 'shared',
    permits: 5,
    expiresInMs: 29_100,
    fencingToken: undefined,
    others: holders('worker-2b1a-9'),
  }),
];

async function startShop(): Promise<TestApp> {
  const app = await startBoard({ allowRelease: true });
  listOf(app.locks, async function* () {
    yield* SHOP;
  });
  return app;
}

describe('the board in a browser', () => {
  it(
    'shows a lock and its waiter',
    onBrowser(async () => {
      const prefix = uniquePrefix();
      const app = await startBoard({}, { prefix, locks: { identity: 'api-1' } });
      const other = await startApp({ prefix, locks: { identity: 'api-2' } });
      const viewer = await view(app);
      await viewer.until(`document.querySelector('#empty').innerText.startsWith('No lock is held')`);
      const lock = await app.locks.acquire('goods:300', { label: 'req-7' });
      await viewer.until(ROW('goods:300'));
      const waiting = other.locks.acquire('goods:300', { waitMs: 60_000 });
      await viewer.until(ROW('1. api-2'));
      expect((await viewer.texts('#rows tr')).join()).toMatch(/goods:300.*api-1.*exclusive · req-7.*1\. api-2/s);
      expect(await viewer.texts('#summary')).toEqual(['1 lock held, 1 instance waiting.']);
      await lock.release();
      await (await waiting).release();
      await viewer.until(ROWS(0));
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'releases a lock by force after a confirmation',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      await app.locks.acquire('goods:300');
      const shown = await view(app);
      const { page } = shown;
      await shown.until(ROW('goods:300'));
      await page.click('#rows button');
      expect(await shown.read(`document.querySelector('dialog').open`)).toBe(true);
      expect(await shown.read('document.activeElement.id')).toBe('cancel');
      expect(await shown.texts('#confirm-resource')).toEqual(['goods:300']);
      await page.keyboard.press('Escape');
      expect(await shown.read(`document.querySelector('dialog').open`)).toBe(false);
      expect(await app.isLocked('goods:300')).toBe(true);
      await page.click('#rows button');
      await page.click('#release');
      await shown.until(ROWS(0));
      expect(await app.isLocked('goods:300')).toBe(false);
      expect(await shown.texts('#said')).toEqual(['goods:300 was released by force.']);
      expect(await shown.read('document.activeElement.id')).toBe('title');
      expect(shown.problems).toEqual([]);
    }),
  );

  it(
    'says in the dialog why a lock was not released',
    onBrowser(async () => {
      const app = await startShop();
      const viewer = await view(app);
      await viewer.until(ROW('goods:300'));
      await viewer.page.click('#rows button');
      await viewer.page.click('#release');
      await viewer.until(`document.querySelector('#confirm-error').innerText.includes('no longer held')`);
      expect(await viewer.read(`document.querySelector('#release').disabled`)).toBe(false);
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'keeps strangers out, and says so to a viewer whose session has ended',
    onBrowser(async () => {
      const app = await startBoard();
      const stranger = await view(app, '/locks', app.url, 'admin=none');
      expect(await stranger.read('document.body.innerText')).toContain('Forbidden');
      const viewer = await view(app);
      await viewer.until(`!document.querySelector('#empty').hidden`);
      app.nest.get(Admins, { strict: false }).passwords.clear();
      await viewer.until(`document.querySelector('#trouble').innerText.includes('no longer signed in')`);
    }),
  );

  it(
    'shows hostile names as text',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      const hostile = [
        'goods:" onmouseover="alert(1)',
        'goods:</script><script>alert(1)</script>',
        'goods:\u202egnp.exe\u2066\u200b\u00a0',
        `goods:${'long'.repeat(254)}`,
        'goods:e\u0301\u0301\u0301\u0301\u0301\u0301',
        '<b>:"\'&amp;',
        'goods:\u0000\u001b[31m\u0007\ud800',
      ];
      const identity = '<i>me</i>\u202e';
      const label = '<u>label</u>\n1. forged';
      listOf(app.locks, async function* () {
        const waiting = waiters('<s>you</s>\u202e', 'b', 'c', 'd', 'e', 'f', 'g');
        for (const name of hostile) yield heldLock(name, { identity, label, waiting });
      });
      const viewer = await view(app);
      await viewer.until(ROWS(hostile.length));
      const resources = await viewer.texts('#rows .resource');
      expect(resources.toSorted()).toEqual(
        [
          'goods:" onmouseover="alert(1)',
          'goods:</script><script>alert(1)</script>',
          'goods:\\u{202e}gnp.exe\\u{2066}\\u{200b}\\u{a0}',
          `goods:${'long'.repeat(254)}`,
          'goods:e\u0301\u0301\\u{301}\\u{301}\\u{301}\\u{301}',
          '<b>:"\'&amp;',
          'goods:\\u{0}\\u{1b}[31m\\u{7}\\u{d800}',
        ].toSorted(),
      );
      const [row = ''] = await viewer.texts('#rows tr');
      for (const text of [
        '<i>me</i>\\u{202e}',
        '<u>label</u>\\u{a}1. forged',
        '1. <s>you</s>\\u{202e}',
        '5. e\nand 2 more',
      ]) {
        expect(row).toContain(text);
      }
      const elements = await viewer.read(
        `[...new Set([...document.querySelectorAll('#rows *')].map(({ localName }) => localName))]`,
      );
      expect(elements).toEqual(['tr', 'td', 'div', 'button']);
      await viewer.page.click('#rows tr button');
      expect((await viewer.texts('#confirm-text'))[0]).toContain('<i>me</i>\\u{202e}');
      expect(await viewer.read('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'shows a hundred of ten thousand locks, finds one, and keeps the rows between two replies',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      let reads = 0;
      listOf(app.locks, async function* () {
        reads += 1;
        for (let i = 0; i < 10_000; i += 1) {
          yield heldLock(`goods:${String(i).padStart(5, '0')}`, { expiresInMs: 20_000 + reads * 1_000 });
        }
      });
      const viewer = await view(app);
      await viewer.until(ROWS(100));
      expect(await viewer.texts('#summary')).toEqual([
        '10,000 locks held, 0 instances waiting. The first 100 are shown. Search for the others.',
      ]);
      await viewer.read(`window.row = document.querySelector('#rows tr'), window.text = window.row.innerText`);
      await viewer.until('window.row.innerText !== window.text');
      expect(await viewer.read(`document.querySelector('#rows tr') === window.row`)).toBe(true);
      await viewer.page.type('#search', '7777');
      await viewer.until(ROWS(1));
      expect(await viewer.texts('#rows .resource')).toEqual(['goods:07777']);
      await viewer.page.type('#search', 'x');
      await viewer.until(`document.querySelector('#empty').innerText === 'No lock matches the search.'`);
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'keeps the focus while rows come, move and go',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      let names = ['a:1', 'b:1', 'c:1'];
      listOf(app.locks, async function* () {
        for (const [i, name] of names.entries()) yield heldLock(name, { heldForMs: 1_000 - i });
      });
      const viewer = await view(app);
      const focused = 'document.activeElement.getAttribute("aria-label")';
      await viewer.until(ROW('b:1'));
      await viewer.read(`document.querySelectorAll('#rows button')[1].focus()`);
      expect(await viewer.read(focused)).toBe('Release b:1 by force');
      names = ['b:1', 'd:1', 'a:1'];
      await viewer.until(ROW('d:1'));
      expect(await viewer.texts('#rows .resource')).toEqual(names);
      expect(await viewer.read(focused)).toBe('Release b:1 by force');
      names = ['d:1'];
      await viewer.until(`!(${ROW('b:1')})`);
      expect(await viewer.read('document.activeElement.id')).toBe('title');
    }),
  );

  it(
    'works behind a proxy that changes its path',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      const { port } = new URL(app.url);
      const proxy = createServer((incoming, outgoing) => {
        const path = incoming.url?.replace(/^\/ops\/board/, '/locks');
        const sent = request({ port, path, method: incoming.method, headers: incoming.headers }, (reply) => {
          outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
          reply.pipe(outgoing);
        });
        sent.on('error', () => outgoing.destroy());
        incoming.pipe(sent);
      });
      await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
      try {
        await app.locks.acquire('goods:300');
        const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
        const viewer = await view(app, '/ops/board/', origin);
        await viewer.until(ROW('goods:300'));
        await viewer.page.click('#rows button');
        await viewer.page.click('#release');
        await viewer.until(ROWS(0));
      } finally {
        proxy.closeAllConnections();
        proxy.close();
      }
    }),
  );

  it(
    'says once that the application does not reply, and goes on when it does',
    onBrowser(async () => {
      const app = await startShop();
      const viewer = await view(app);
      await viewer.until(ROW('goods:300'));
      // A screen reader says each change.
      await viewer.read(`window.changes = 0, new MutationObserver(() => (window.changes += 1)).observe(
      document.querySelector('#trouble'), { childList: true, characterData: true, subtree: true })`);
      let failed = 0;
      viewer.page.on('requestfailed', () => (failed += 1));
      await viewer.page.setOfflineMode(true);
      await viewer.until(`document.querySelector('#trouble').innerText.includes('The application does not reply')`);
      const seen = failed;
      await eventually('another attempt fails', () => failed > seen);
      expect(await viewer.read('window.changes')).toBe(1);
      await viewer.page.setOfflineMode(false);
      await viewer.until(`document.querySelector('#trouble').hidden`);
    }),
  );

  it(
    'can be used by a screen reader, with a keyboard and on a phone',
    onBrowser(async () => {
      const app = await startShop();
      const viewer = await view(app);
      await viewer.until(ROWS(SHOP.length));
      expect(await viewer.faults()).toEqual({});
      for (const width of [320, 390, 960, 961, 1_120]) {
        await viewer.page.setViewport({ width, height: 844 });
        expect([width, await viewer.read('document.documentElement.scrollWidth <= innerWidth')]).toEqual([width, true]);
      }
      await viewer.page.setViewport({ width: 390, height: 844 });
      expect(await viewer.read(`document.querySelector('#rows tr').getBoundingClientRect().bottom`)).toBeLessThan(844);
      await viewer.page.click('#pause');
      expect(await viewer.texts('#status')).toEqual(['Paused']);
      expect(await viewer.read(`document.querySelector('#pause').ariaPressed`)).toBe('true');
      await viewer.page.type('#search', 'goods:300');
      await viewer.until(ROWS(1));
      expect(viewer.problems).toEqual([]);
    }),
  );

  it.each(['light', 'dark'])('looks as in the docs: %s', (scheme) =>
    onBrowser(async () => {
      const viewer = await view(await startShop());
      await viewer.page.setViewport({ width: 1_120, height: 500 });
      await viewer.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await viewer.until(ROWS(SHOP.length));
      const path = join(IMAGES, `board-${scheme}.png`);
      const write = process.env['WRITE_SCREENSHOTS'] === '1' && { path };
      const image = await viewer.page.screenshot({ type: 'png', fullPage: true, ...write });
      expect(image.length).toBeGreaterThan(20_000);
      expect(image.length).toBeLessThan(150_000);
      const background = await viewer.read<string>('getComputedStyle(document.body).backgroundColor');
      expect(background).toBe(scheme === 'light' ? 'rgb(246, 247, 249)' : 'rgb(16, 19, 23)');
    })(),
  );
});
