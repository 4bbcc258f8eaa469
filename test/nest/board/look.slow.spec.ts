// What a viewer of the board sees. With WRITE_SCREENSHOTS=1 it writes the pictures of docs/live-state.md and README.
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { onBrowser, startBrowser, Viewer } from '../../support/browser.js';
import { closeApps } from '../support/app.js';
import { startScene } from './scene.js';

const IMAGES = join(__dirname, '../../../docs/images');
const SCHEMES = ['light', 'dark'];

let browser: Browser | undefined;
let viewer: Viewer;
beforeAll(async () => void (browser = await startBrowser()));
afterEach(async () => {
  await viewer.close();
  await closeApps();
});
afterAll(() => browser?.close());

/** Opens the board of a busy shop, in a scheme of colours, and waits until all of it is there. */
async function look(scheme: string): Promise<void> {
  const app = await startScene();
  viewer = await Viewer.open(browser as Browser, `${app.url}/locks`, 'admin=secret');
  await viewer.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await viewer.until(`document.querySelectorAll('#rows tr').length > 3 && !document.querySelector('#lost-box').hidden`);
  await viewer.until(`Number(document.body.dataset.version.split('.')[1]) > 2`);
}

describe('the look of the board', () => {
  it.each(SCHEMES)('is that of the docs: %s', (scheme) =>
    onBrowser(async () => {
      await look(scheme);
      const path = join(IMAGES, `board-${scheme}.png`);
      const image = await viewer.page.screenshot({
        type: 'png',
        fullPage: true,
        ...(process.env['WRITE_SCREENSHOTS'] === '1' && { path }),
      });
      expect(image.length).toBeGreaterThan(20_000);
      expect(image.length).toBeLessThan(250_000);
      expect(viewer.problems).toEqual([]);
    })(),
  );

  it.each(SCHEMES)('has a box of held locks, which is that of the README: %s', (scheme) =>
    onBrowser(async () => {
      await look(scheme);
      const box = await viewer.page.$('section[aria-labelledby="locks-title"]');
      const path = join(IMAGES, `held-locks-${scheme}.png`);
      const image = await box?.screenshot({
        type: 'png',
        ...(process.env['WRITE_SCREENSHOTS'] === '1' && { path }),
      });
      expect(image?.length).toBeGreaterThan(10_000);
      expect(image?.length).toBeLessThan(150_000);
    })(),
  );

  it.each(SCHEMES)('has a legend with the colours of the bars: %s', (scheme) =>
    onBrowser(async () => {
      await look(scheme);
      // The highest bar of each plot, which is the longest wait, the longest hold, and the held locks.
      const plots = await viewer.read<{ legend: string[]; colors: string[]; highest: string }[]>(`
        [...document.querySelectorAll('#plots figure')].map((figure) => {
          const height = (bar) => Number(bar.getAttribute('height'));
          const [highest] = [...figure.querySelectorAll('rect')].sort((a, b) => height(b) - height(a));
          return {
            legend: [...figure.querySelectorAll('.legend span')].map((one) => one.innerText.trim()),
            colors: [...figure.querySelectorAll('.legend i')].map((one) => getComputedStyle(one).backgroundColor),
            highest: getComputedStyle(highest).fill,
          };
        })`);
      expect(plots.map(({ legend }) => legend)).toEqual([
        ['longest', 'average'],
        ['longest', 'average'],
        ['held', 'waiting'],
      ]);
      for (const { colors, highest } of plots) {
        expect(colors[0]).toBe(highest);
        expect(colors[1]).not.toBe(highest);
      }
      expect(await viewer.texts('#plots-note')).toEqual([expect.not.stringMatching(/light|dark/)]);
    })(),
  );

  it(
    'has a held lock on the first screen of a phone, and a link to the lost ones',
    onBrowser(async () => {
      await look('light');
      await viewer.page.setViewport({ width: 390, height: 844 });
      const bottom = (selector: string): Promise<number> =>
        viewer.read(`document.querySelector('${selector}').getBoundingClientRect().bottom`);
      expect(await bottom('#rows td:nth-child(3)')).toBeLessThan(844);
      expect(await viewer.texts('#lost-note')).toEqual(['Locks were lost in the last five minutes.']);
      expect(await bottom('#lost-title')).toBeGreaterThan(844);
      await viewer.page.click('#lost-note a');
      await viewer.until(`document.querySelector('#lost-title').getBoundingClientRect().bottom < 844`);
    }),
  );

  it(
    'says in words that it is updated rarely, and why',
    onBrowser(async () => {
      await look('light');
      await viewer.read(`(() => {
        const send = window.fetch;
        window.nextMs = 750;
        window.fetch = async (...args) => {
          const state = await (await send(...args)).json();
          return Response.json({ ...state, ageMs: 0, nextMs: window.nextMs });
        };
      })()`);
      await viewer.until(`document.querySelector('#age').innerText === 'Live'`);
      expect(await viewer.texts('#summary')).toEqual(['5 locks held, 4 instances waiting.']);
      // As if a read of all locks took 0.89 s.
      await viewer.read('window.nextMs = 8_900');
      await viewer.until(`document.querySelector('#age').innerText === 'Updated every 9 s'`);
      expect(await viewer.texts('#summary')).toEqual([
        '5 locks held, 4 instances waiting. They are read every 9 s, because a read of all locks takes long.',
      ]);
    }),
  );
});
