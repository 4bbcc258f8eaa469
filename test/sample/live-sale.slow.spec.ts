// npm start, and its page in Chromium. With WRITE_SCREENSHOTS=1 it writes docs/images/flash-sale-*.png.
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { LiveState } from '../../sample/flash-sale/src/live/live-sale.service.js';
import { eventually } from '../support/async.js';
import { onBrowser, startBrowser, Viewer } from '../support/browser.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { accepts, root, Script } from './script.js';

const IMAGES = join(root, 'docs/images');
/** Another program has it. No other test starts the sample here. */
const TAKEN_PORT = 3400;
const IS_OVER = `document.body.dataset.over === 'true'`;
const IS_RUNNING = `document.body.dataset.over === 'false'`;
const IS_SHOWN = `document.body.dataset.over !== undefined`;
const TOTALS = `[...document.querySelectorAll('[data-side]')].map((side) => [
  side.dataset.side,
  ...['oversold', 'sold', 'left'].map((name) => Number(side.querySelector('[data-total=' + name + ']').textContent)),
])`;

const otherProgram = createServer();
let redis: RedisServer;
let start: Script;
let urls: string[];

const stateOf = async (url: string, query = '') => (await (await fetch(`${url}/sale${query}`)).json()) as LiveState;

/** A sale at the usual rate takes 15 s. */
const untilOver = (viewer: Viewer) =>
  eventually('the page shows the end of the sale', () => viewer.read<boolean>(IS_OVER));

async function newSale(url: string, perSecond: number): Promise<LiveState['sale']> {
  const body = JSON.stringify({ perSecond });
  await fetch(`${url}/sale`, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
  return (await stateOf(url)).sale;
}

/** Starts a sale and waits until both sides are sold out. */
async function sellOut(url: string): Promise<LiveState> {
  await newSale(url, 40);
  await eventually('the sale is over', async () => (await stateOf(url)).isOver);
  return stateOf(url);
}

/** Returns all purchases of a sale, which come in several replies. */
async function purchasesOf(url: string, id: number): Promise<LiveState['purchases']> {
  const all: LiveState['purchases'][number][] = [];
  for (;;) {
    const { purchases } = await stateOf(url, `?sale=${id}&after=${all.length}`);
    if (purchases.length === 0) return all;
    all.push(...purchases);
  }
}

function figuresOf(sides: LiveState['sides'], side: 'locked' | 'unlocked') {
  return [side, sides?.[side].oversold, sides?.[side].sold, sides?.[side].left];
}

beforeAll(async () => {
  await once(otherProgram.listen(TAKEN_PORT, '127.0.0.1'), 'listening');
  redis = await startRedis({ local: true });
  start = Script.run('npm', ['start'], { REDIS_URL: redis.url, PORT: String(TAKEN_PORT) });
  await start.prints(/Ctrl-C/);
  urls = start.urls.slice(0, 3);
});
afterAll(async () => {
  otherProgram.close();
  await Script.killAll();
  await redis?.stop();
});

describe('npm start', () => {
  it('takes the next free ports', () => {
    const ports = urls.map((url) => Number(new URL(url).port));
    expect(new Set(ports).size).toBe(3);
    expect(Math.min(...ports)).toBeGreaterThan(TAKEN_PORT);
  });

  it('serves the same sale on all instances, and only one side is oversold', async () => {
    const { sale, sides } = await sellOut(urls[1]);
    expect(sides?.locked).toEqual({ left: 0, sold: 100, oversold: 0 });
    expect(sides?.unlocked.oversold).toBeGreaterThan(0);
    for (const url of urls) expect((await stateOf(url)).sale).toEqual(sale);
    expect((await stateOf(urls[2])).instances.map((port) => `http://localhost:${port}`)).toEqual(urls);
  });

  it('records each buyer once, with the piece of the receipt', async () => {
    const { sale } = await sellOut(urls[0]);
    const id = sale?.id ?? 0;
    let purchases: LiveState['purchases'] = [];
    // Buyers of the last moment are recorded after the sale is over.
    await eventually('all purchases are recorded', async () => {
      const { sides } = await stateOf(urls[0]);
      purchases = await purchasesOf(urls[0], id);
      const soldOn = (side: string) => purchases.filter((one) => one.side === side && one.outcome === 'sold').length;
      return soldOn('locked') === sides?.locked.sold && soldOn('unlocked') === sides?.unlocked.sold;
    });
    const pieces = purchases.flatMap(({ side, piece }) => (side === 'locked' && piece !== undefined ? [piece] : []));
    expect(pieces.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    expect(new Set(purchases.map(({ instance }) => instance)).size).toBe(3);
  });
});

describe('the page in a browser', () => {
  let browser: Browser | undefined;
  let viewer: Viewer | undefined;
  beforeAll(async () => void (browser = await startBrowser()));
  afterEach(async () => {
    await viewer?.close();
    viewer = undefined;
  });
  afterAll(() => browser?.close());

  const open = async (): Promise<Viewer> => (viewer = await Viewer.open(browser as Browser, urls[0]));

  it(
    'starts a sale by itself, and shows what the store has at its end',
    onBrowser(async () => {
      const page = await open();
      await page.until(IS_RUNNING);
      const before = (await stateOf(urls[0])).sale?.id;
      await untilOver(page);
      expect((await stateOf(urls[0])).sale?.id).toBe(before);
      await eventually('the page shows the totals of the store', async () => {
        const { sides } = await stateOf(urls[0]);
        const expected = [figuresOf(sides, 'unlocked'), figuresOf(sides, 'locked')];
        return JSON.stringify(await page.read(TOTALS)) === JSON.stringify(expected);
      });
      // Receipts are recorded after the store has changed.
      await page.until(`document.querySelectorAll('[data-side=locked] .pieces i[data-instance]').length === 100`);
      const picture = await page.read<Record<string, number[]>>(`Object.fromEntries(
      [...document.querySelectorAll('[data-side]')].map((side) => [side.dataset.side, [
        side.querySelectorAll('.pieces i').length,
        side.querySelectorAll('.pieces i[data-instance]').length,
        side.querySelectorAll('.pieces i[data-twice]').length,
      ]]))`);
      expect(picture['locked']).toEqual([100, 100, 0]);
      expect(picture['unlocked']?.[2]).toBeGreaterThan(0);
      expect(await page.texts('#totals')).toEqual([expect.stringMatching(/With a lock 100 sold, 0 oversold\.$/)]);
      expect(page.problems).toEqual([]);
    }),
  );

  it(
    'starts again, and changes the rate for all viewers',
    onBrowser(async () => {
      const page = await open();
      await page.until(IS_SHOWN);
      const { sale } = await stateOf(urls[0]);
      await page.page.focus('#rate');
      await page.page.keyboard.press('End');
      await eventually('the rate is set', async () => (await stateOf(urls[2])).sale?.perSecond === 40);
      await page.page.click('#again');
      await eventually('there is a new sale', async () => (await stateOf(urls[1])).sale?.id !== sale?.id);
      expect((await stateOf(urls[1])).sale?.perSecond).toBe(40);
      expect(page.problems).toEqual([]);
    }),
  );

  it(
    'shows the name of a buyer as text, whatever is in it',
    onBrowser(async () => {
      // Few buyers: the last eight are shown for a second at least.
      const sale = await newSale(urls[0], 2);
      const page = await open();
      await page.until(IS_RUNNING);
      const name = '<img src=x onerror=alert(1)>\u202e\u0007';
      await page.read(`document.querySelector('#name').value = ${JSON.stringify(name)}`);
      await page.page.click('#buy button');
      const shown = '<img src=x onerror=alert(1)>\\u{202e}\\u{7}';
      for (const side of ['locked', 'unlocked']) {
        const names = `[...document.querySelectorAll("[data-side=${side}] .buyers bdi")].map((one) => one.textContent)`;
        const isShown = async () => (await page.read<string[]>(names)).includes(shown);
        await eventually(`the buyer is shown: ${side}`, isShown);
      }
      expect(await page.read(`document.querySelectorAll('.buyers img, #trouble:not([hidden])').length`)).toBe(0);
      const recorded = (await purchasesOf(urls[0], sale?.id ?? 0)).filter(({ buyer }) => buyer === name);
      expect(recorded.map(({ side }) => side).toSorted()).toEqual(['locked', 'unlocked']);
      expect(page.problems).toEqual([]);
    }),
  );

  it(
    'has the board of live locks beside it, which shows the lock of the sale',
    onBrowser(async () => {
      const page = await open();
      await Promise.all([page.page.waitForNavigation(), page.page.click('[data-side=locked] a[href=locks]')]);
      await page.until(`document.title !== 'Locks'`);
      const sale = await newSale(urls[0], 40);
      await page.until(`document.querySelector('#rows').innerText.includes('goods:${sale?.goods}')`);
      expect(page.problems).toEqual([]);
    }),
  );

  it(
    'shows that its instance does not reply, and goes on when it does',
    onBrowser(async () => {
      const page = await open();
      await page.until(IS_SHOWN);
      await page.page.setOfflineMode(true);
      await page.until(`document.querySelector('#trouble').innerText === 'This instance does not reply.'`);
      await page.page.setOfflineMode(false);
      await page.until(`document.querySelector('#trouble').hidden`);
    }),
  );

  it(
    'fits on a phone, and has names for a screen reader',
    onBrowser(async () => {
      await newSale(urls[0], 40);
      const page = await open();
      await page.page.setViewport({ width: 360, height: 740 });
      // The longest row says who else has the piece.
      await page.until(`document.querySelector('.buyers b') !== null`);
      expect(await page.read('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      const rows = `[...document.querySelectorAll('.buyers li')]`;
      expect(await page.read(`${rows}.filter((row) => row.scrollWidth > row.clientWidth).length`)).toBe(0);
      expect(await page.faults()).toEqual({});
      const pictures = 'svg:not([aria-hidden]), .pieces:not([aria-hidden])';
      expect(await page.read(`document.querySelectorAll('${pictures}').length`)).toBe(0);
    }),
  );

  it.each(['light', 'dark'])('looks as in the docs: %s', (scheme) =>
    onBrowser(async () => {
      await newSale(urls[0], 12);
      const page = await open();
      await page.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await untilOver(page);
      const image = await page.page.screenshot({ type: 'png', fullPage: true });
      if (process.env['WRITE_SCREENSHOTS'] === '1') {
        mkdirSync(IMAGES, { recursive: true });
        writeFileSync(join(IMAGES, `flash-sale-${scheme}.png`), image);
      }
      expect(image.length).toBeGreaterThan(20_000);
      expect(image.length).toBeLessThan(250_000);
      expect(page.problems).toEqual([]);
    })(),
  );
});

describe('npm start at its end', () => {
  it('stops all processes on SIGINT, while a sale is running', async () => {
    await newSale(urls[0], 40);
    start.signal('SIGINT');
    await start.ended;
    expect(start.output).toMatch(/Stopped\./);
    // An instance that was stopped has not crashed.
    expect(start.output).not.toMatch(/has ended/);
    expect(await Promise.all(urls.map(accepts))).toEqual([false, false, false]);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('stops on %s before it has started', async (signal) => {
    const early = Script.run('npm', ['start'], { REDIS_URL: redis.url, PORT: String(TAKEN_PORT) });
    await early.prints(/Starting the instances/);
    early.signal(signal);
    await early.ended;
    expect(early.output).toMatch(/Stopped\./);
    expect(early.output).not.toMatch(/Open http/);
  });
});
