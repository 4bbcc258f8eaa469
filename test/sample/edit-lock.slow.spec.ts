// The page of sample/edit-lock in two browsers. Time passes when the test says so.
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { ManualClock, RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { EditLockModule } from '../../sample/edit-lock/src/edit-lock.module.js';
import { onBrowser, startBrowser, Viewer } from '../support/browser.js';

/** A name that a page must not read as HTML. */
const ANN = '<img src=x onerror=alert(1)>Ann';
const TTL_MS = 60_000;

const clock = new ManualClock();
let app: INestApplication;
let browser: Browser | undefined;

beforeAll(async () => {
  const imports = [RedisLockTestingModule.forRoot({ clock }), EditLockModule];
  app = (await Test.createTestingModule({ imports }).compile()).createNestApplication();
  await app.listen(0, '127.0.0.1');
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await app.close();
});

/** Opens the page, and records the addresses of its requests. */
async function open(name: string) {
  const viewer = await Viewer.open(browser as Browser, await app.getUrl());
  const urls: string[] = [];
  viewer.page.on('request', (request) => void urls.push(request.url()));
  await viewer.read(`document.querySelector('#name').value = ${JSON.stringify(name)}`);
  return {
    viewer,
    urls,
    click: (id: string) => viewer.page.click(`#${id}`),
    write: (text: string) => viewer.read(`document.querySelector('#text').value = ${JSON.stringify(text)}`),
    shows: (id: string, text: string) =>
      viewer.until(`document.querySelector('#${id}').textContent === ${JSON.stringify(text)}`),
    mayWrite: () => viewer.read<boolean>(`!document.querySelector('#save').disabled`),
    text: () => viewer.read<string>(`document.querySelector('#text').value`),
  };
}

describe('the page of a document', () => {
  it(
    'lets one person edit, and the next after silence, and refuses a late save',
    onBrowser(async () => {
      const [first, second] = [await open(ANN), await open('Bob')];
      await first.click('edit');
      await first.shows('state', 'You edit this document.');
      await first.write('by Ann');
      await first.click('save');
      await second.shows('state', `${ANN} edits this document.`);
      expect(await second.mayWrite()).toBe(false);
      await second.click('edit');
      await second.shows('said', 'Another person edits this document.');
      await first.viewer.page.setOfflineMode(true);
      await first.write('by Ann, late');
      await clock.advance(TTL_MS + 1);
      await second.click('edit');
      await second.shows('state', 'You edit this document.');
      await second.write('by Bob');
      await second.click('save');
      await first.viewer.page.setOfflineMode(false);
      await first.click('save');
      const refused = 'You no longer edit this document, so your text was not saved. Copy it, and edit again.';
      await first.shows('said', refused);
      await first.shows('state', 'Bob edits this document.');
      expect([await first.mayWrite(), await first.text()]).toEqual([false, 'by Ann, late']);
      const shown = (await (await fetch(`${await app.getUrl()}/documents/1`)).json()) as object;
      expect(shown).toEqual({ text: 'by Bob', editor: 'Bob' });
      await second.click('close');
      await first.shows('state', 'Nobody edits this document.');
      for (const { urls, viewer } of [first, second]) {
        expect(urls.join()).not.toMatch(/t1-|ticket/);
        expect(viewer.problems).toEqual([]);
        await viewer.close();
      }
    }),
  );
});
