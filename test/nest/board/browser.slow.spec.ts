// The board in Chromium.
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { eventually } from '../../support/async.js';
import { boardLock, boardWaiters } from '../../support/board-source.js';
import { onBrowser, startBrowser, Viewer } from '../../support/browser.js';
import { uniquePrefix } from '../../support/shared-redis.js';
import { closeApps, PLATFORMS, startApp, type TestApp } from '../support/app.js';
import { listOf, startScene } from './scene.js';
import { Admins, startBoard } from './support.js';

const COOKIE = 'admin=secret';

let browser: Browser | undefined;
const viewers: Viewer[] = [];
beforeAll(async () => void (browser = await startBrowser()));
afterEach(async () => {
  for (const viewer of viewers.splice(0)) await viewer.close();
  await closeApps();
});
afterAll(() => browser?.close());

async function view(app: TestApp, path = '/locks', origin = app.url): Promise<Viewer> {
  const viewer = await Viewer.open(browser as Browser, origin + path, COOKIE);
  viewers.push(viewer);
  return viewer;
}

const ROW = (resource: string) =>
  `[...document.querySelectorAll('#rows tr')].some((row) => row.innerText.includes('${resource}'))`;
const LIVE = `document.querySelector('#verdict').dataset.state === 'good'`;

describe.each(PLATFORMS)('the board in a browser, on %s', (platform) => {
  it(
    'shows a lock and its waiter',
    onBrowser(async () => {
      const prefix = uniquePrefix();
      const app = await startBoard({}, { platform, prefix, locks: { identity: 'api-1' } });
      const other = await startApp({ prefix, locks: { identity: 'api-2' } });
      const viewer = await view(app);
      await viewer.until(LIVE);
      await viewer.until(`document.querySelector('#empty').innerText.startsWith('No lock is held')`);
      const lock = await app.locks.acquire('goods:300');
      await viewer.until(ROW('goods:300'));
      const waiting = other.locks.acquire('goods:300', { waitMs: 60_000 });
      await viewer.until(`document.querySelector('#rows').innerText.includes('api-2')`);
      expect(await viewer.texts('#rows ol li')).toEqual(['api-2']);
      expect((await viewer.texts('#rows tr')).join()).toMatch(/goods:300.*api-1.*exclusive/s);
      const behind = app.locks.acquire('goods:300', { waitMs: 60_000, label: 'req-7' });
      await viewer.until(`document.querySelector('#rows').innerText.includes('1 caller of api-1, the first for')`);
      expect((await viewer.texts('#rows tr')).join()).toContain('req-7');
      await lock.release();
      await Promise.all([behind, waiting].map(async (next) => (await next).release()));
      await viewer.until(`document.querySelectorAll('#rows tr').length === 0`);
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'releases a lock by force after a confirmation',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true }, { platform });
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
      await shown.until(`!(${ROW('goods:300')})`);
      expect(await app.isLocked('goods:300')).toBe(false);
      expect(await shown.texts('#announcements')).toEqual([expect.stringContaining('goods:300 was released by force')]);
      expect(app.logged.join('\n')).toContain('requested on the board by alice');
      expect(shown.problems).toEqual([]);
    }),
  );

  it(
    'keeps strangers out, and says so to a viewer whose session has ended',
    onBrowser(async () => {
      const app = await startBoard({}, { platform });
      const stranger = await Viewer.open(browser as Browser, `${app.url}/locks`);
      viewers.push(stranger);
      expect(await stranger.read('document.body.innerText')).toContain('Forbidden');
      const viewer = await view(app);
      await viewer.until(LIVE);
      app.nest.get(Admins, { strict: false }).passwords.clear();
      await viewer.until(`document.querySelector('#trouble').innerText.includes('no longer signed in')`);
    }),
  );
});

describe('the board in a browser', () => {
  const HOSTILE = [
    'goods:<img src=x onerror=alert(1)>',
    'goods:</script><script>alert(1)</script>',
    'goods:\u202egnp.exe\u2066\u200b\u00a0',
    `goods:${'long'.repeat(254)}`,
    'goods:e\u0301\u0301\u0301\u0301\u0301\u0301',
    '<b>:"\'&amp;',
  ];

  it(
    'shows hostile names as text',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      listOf(app.locks, async function* () {
        const control = 'goods:\u0000\u001b[31m\u0007\ud800';
        for (const name of [...HOSTILE, control])
          yield boardLock(name, { identity: '<i>me</i>\u202e', waiting: boardWaiters(1) });
      });
      const viewer = await view(app);
      await viewer.until(`document.querySelectorAll('#rows tr').length === 7`);
      const shown = (await viewer.texts('#rows .resource')).join('\n');
      expect(shown).toContain('goods:<img src=x onerror=alert(1)>');
      expect(shown).toContain('goods:</script><script>alert(1)</script>');
      expect(shown).toContain('goods:\\u{202e}gnp.exe\\u{2066}\\u{200b}\\u{a0}');
      expect(shown).toContain('goods:\\u{0}\\u{1b}[31m\\u{7}\\u{d800}');
      expect(shown).toContain('… (1,022 characters)');
      expect(shown).not.toMatch(/[\u202e\u2066\u200b]/);
      expect(
        await viewer.read(`document.querySelectorAll('#rows img, #rows script, #rows b, #rows i:not(.bar i)').length`),
      ).toBe(0);
      expect((await viewer.texts('#rows tr'))[0]).toContain('<i>me</i>\\u{202e}');
      await viewer.page.click('#rows tr button');
      expect((await viewer.texts('#confirm-text'))[0]).toContain('<i>me</i>\\u{202e}');
      expect(viewer.problems).toEqual([]);
    }),
  );

  it(
    'shows fifty of ten thousand locks, and finds one',
    onBrowser(async () => {
      const app = await startBoard({ allowRelease: true });
      let expiresInMs = 30_000;
      listOf(app.locks, async function* () {
        // Every lease is another one at each read, so that every row changes.
        expiresInMs = expiresInMs === 30_000 ? 20_000 : 30_000;
        for (let i = 0; i < 10_000; i++) yield boardLock(`goods:${String(i).padStart(5, '0')}`, { expiresInMs });
      });
      const viewer = await view(app);
      await viewer.until(`document.querySelectorAll('#rows tr').length === 50`);
      await viewer.read(
        `window.first = document.querySelector('#rows tr'), window.version = document.body.dataset.version`,
      );
      await viewer.until(`document.body.dataset.version !== window.version`);
      expect(await viewer.read(`document.querySelector('#rows tr') === window.first`)).toBe(true);
      expect(await viewer.read(`document.querySelectorAll('*').length`)).toBeLessThan(2_500);
      expect(await viewer.texts('#summary, #pages')).toEqual([
        // A busy machine takes long for a read, and the page says so.
        expect.stringMatching(/^10,000 locks held, 0 instances waiting\./),
        'Page 1 of 200',
      ]);
      await viewer.page.click('#forth');
      await viewer.until(ROW('goods:00050'));
      await viewer.page.type('#search', '7777');
      await viewer.until(`document.querySelectorAll('#rows tr').length === 1`);
      expect((await viewer.texts('#rows .resource'))[0]).toBe('goods:07777');
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
        for (const [i, name] of names.entries()) yield boardLock(name, { heldForMs: 1_000 - i });
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
      expect(await viewer.read('document.activeElement.id')).toBe('locks-title');
    }),
  );

  it(
    'keeps an open queue and its focus while the queue changes',
    onBrowser(async () => {
      const app = await startBoard();
      let waiters = 8;
      listOf(app.locks, async function* () {
        yield boardLock('a:1', { waiting: boardWaiters(waiters) });
      });
      const viewer = await view(app);
      await viewer.until(`document.querySelector('#rows summary')`);
      await viewer.read(`document.querySelector('#rows summary').focus()`);
      await viewer.page.keyboard.press('Enter');
      waiters = 9;
      await viewer.until(`document.querySelectorAll('#rows li').length === 9`);
      expect(await viewer.read(`document.querySelector('#rows details').open`)).toBe(true);
      expect(await viewer.read('document.activeElement.tagName')).toBe('SUMMARY');
    }),
  );

  it(
    'can be used by a screen reader, with a keyboard and on a phone',
    onBrowser(async () => {
      const app = await startScene();
      const viewer = await view(app);
      await viewer.until(`document.querySelectorAll('#rows tr').length > 3`);
      // Of each element the number without what it needs.
      const faults = await viewer.read(`({
        language: document.documentElement.lang === 'en' ? 0 : 1,
        headings: document.querySelectorAll('h1').length - 1,
        landmarks: ['header', 'main', 'section[aria-labelledby]'].filter((one) => !document.querySelector(one)).length,
        fields: [...document.querySelectorAll('input, select')].filter((one) => one.labels.length === 0).length,
        buttons: [...document.querySelectorAll('button')].filter((one) => !(one.ariaLabel ?? one.textContent).trim()).length,
        captions: [...document.querySelectorAll('table')].filter((one) => !one.caption?.textContent).length,
        columns: document.querySelectorAll('th:not([scope=col])').length,
        roles: document.querySelectorAll('tr:not([role=row]), td:not([role=cell]), table:not([role=table])').length,
        references: [...document.querySelectorAll('[aria-labelledby]')].filter(
          (one) => !document.getElementById(one.getAttribute('aria-labelledby')),
        ).length,
        ids: document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map(({ id }) => id)).size,
        live: document.querySelectorAll('[role=log], [role=alert]').length < 2 ? 1 : 0,
        pictures: document.querySelectorAll('svg:not([aria-hidden])').length,
      })`);
      expect(Object.entries(faults as object).filter(([, number]) => number !== 0)).toEqual([]);
      await viewer.page.setViewport({ width: 360, height: 740 });
      expect(await viewer.read('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      await viewer.page.click('#pause');
      expect(await viewer.texts('#age')).toEqual([expect.stringMatching(/^Paused/)]);
      expect(await viewer.read(`document.querySelector('#pause').ariaPressed`)).toBe('true');
      await viewer.page.type('#search', 'goods:300');
      await viewer.until(`document.querySelectorAll('#rows tr').length === 1`);
      expect(viewer.problems).toEqual([]);
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
        await viewer.until(`!(${ROW('goods:300')})`);
        await viewer.close();
        viewers.splice(0);
      } finally {
        proxy.closeAllConnections();
        proxy.close();
      }
    }),
  );

  it(
    'says once that the application does not reply, and goes on when it does',
    onBrowser(async () => {
      const app = await startBoard();
      const viewer = await view(app);
      await viewer.until(LIVE);
      // A screen reader says each change.
      await viewer.read(`window.changes = 0, new MutationObserver(() => (window.changes += 1)).observe(
        document.querySelector('#trouble'), { childList: true, characterData: true, subtree: true })`);
      let failed = 0;
      viewer.page.on('requestfailed', () => (failed += 1));
      await viewer.page.setOfflineMode(true);
      await viewer.until(`document.querySelector('#trouble').innerText.includes('The application does not reply')`);
      const seen = failed;
      await eventually('two more attempts fail', () => failed > seen + 1);
      expect(await viewer.read('window.changes')).toBe(1);
      await viewer.page.setOfflineMode(false);
      await viewer.until(`document.querySelector('#trouble').hidden`);
    }),
  );

  it(
    'requests two states a second at most behind a load balancer',
    onBrowser(async () => {
      const app = await startBoard();
      const viewer = await view(app);
      await viewer.until(LIVE);
      // As if another instance replied each time, which has had its state for long.
      await viewer.read(`(() => {
        const send = window.fetch;
        window.sentAt = [];
        window.fetch = async (...args) => {
          window.sentAt.push(performance.now());
          const state = await (await send(...args)).json();
          const instance = { ...state.instance, id: 'instance-' + (window.sentAt.length % 3) };
          return Response.json({ ...state, instance, nextMs: 0 });
        };
      })()`);
      await viewer.until('window.sentAt.length > 6');
      // The first reply is that of another instance for the page, too.
      const shortest = 'Math.min(...window.sentAt.slice(2).map((at, i) => at - window.sentAt[i + 1]))';
      expect(await viewer.read(shortest)).toBeGreaterThan(490);
      expect(viewer.problems).toEqual([]);
    }),
  );
});
