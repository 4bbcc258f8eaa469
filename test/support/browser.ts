import { spawnSync } from 'node:child_process';
import { expect } from '@jest/globals';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { eventually } from './async.js';

/** On the PATH, and where a Mac has them. */
const NAMES = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];
const MISSING =
  'there is no Chromium: install it (apt-get install chromium, or Google Chrome), or set CHROMIUM_BIN to its path';

/** The browser of `CHROMIUM_BIN`, or one that is installed. Undefined if there is none. */
const binary = process.env['CHROMIUM_BIN'] || NAMES.map(pathOf).find((path) => path !== '');

function pathOf(name: string): string {
  return spawnSync('sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).stdout.trim();
}

/** Wraps a test that needs a browser. Without one it prints that the test did not run. In CI it fails. */
export function onBrowser(body: () => Promise<void>): () => Promise<void> {
  if (binary !== undefined) return body;
  return () => {
    if (process.env['CI'] === 'true') throw new Error(MISSING);
    process.stdout.write(`NOT RUN, because ${MISSING}: ${expect.getState().currentTestName}\n`);
    return Promise.resolve();
  };
}

/** Starts a browser without windows. Returns undefined without one on this machine. */
export async function startBrowser(): Promise<Browser | undefined> {
  if (binary === undefined) return undefined;
  // Chromium refuses to sandbox for root, as CI runs it.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return launch({
    executablePath: binary,
    headless: true,
    // A browser ends with its pipe, even if the test run is killed.
    pipe: true,
    timeout: 120_000,
    args: [...args, '--disable-dev-shm-usage'],
  });
}

/** A page of a browser, and what went wrong in it. */
export class Viewer {
  /** Errors of scripts, and what the browser blocked. */
  readonly problems: string[] = [];

  private constructor(readonly page: Page) {
    page.on('pageerror', (error) => this.problems.push(String(error)));
    page.on('console', (message) => {
      // A reply of 403 is what some tests look for.
      const text = message.text();
      if (message.type() === 'error' && !text.startsWith('Failed to load resource')) this.problems.push(text);
    });
    page.on('dialog', (dialog) => {
      this.problems.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  /** Opens a page in a browser profile of its own. */
  static async open(browser: Browser, url: string, cookie?: string): Promise<Viewer> {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    const viewer = new Viewer(page);
    const { hostname } = new URL(url);
    const [name = '', value = ''] = cookie?.split('=') ?? [];
    if (cookie !== undefined) await context.setCookie({ name, value, domain: hostname, path: '/' });
    await page.setViewport({ width: 1120, height: 900 });
    await page.goto(url);
    return viewer;
  }

  /** Runs an expression in the page. Not as a function, which the page's policy and TypeScript do not know. */
  read<T>(expression: string): Promise<T> {
    return this.page.evaluate(expression) as Promise<T>;
  }

  /** Waits until an expression is true in the page. */
  async until(expression: string): Promise<void> {
    await eventually(expression, () => this.read<boolean>(`Boolean(${expression})`));
  }

  /** Returns the text of all matching elements, as it is displayed. */
  texts(selector: string): Promise<string[]> {
    return this.read(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.innerText)`);
  }

  /** Returns what a screen reader misses in the page, with the number of elements without it. */
  async faults(): Promise<Record<string, number>> {
    const faults = await this.read<Record<string, number>>(`({
      language: document.documentElement.lang === 'en' ? 0 : 1,
      headings: document.querySelectorAll('h1').length - 1,
      landmarks: ['header', 'main'].filter((one) => !document.querySelector(one)).length,
      fields: [...document.querySelectorAll('input')].filter((one) => one.labels.length === 0).length,
      buttons: [...document.querySelectorAll('button')].filter((one) => !(one.ariaLabel ?? one.textContent).trim()).length,
      references: [...document.querySelectorAll('[aria-labelledby]')].filter(
        (one) => !document.getElementById(one.getAttribute('aria-labelledby')),
      ).length,
      captions: [...document.querySelectorAll('table')].filter((one) => !one.caption?.textContent).length,
      columns: document.querySelectorAll('th:not([scope=col])').length,
      roles: document.querySelectorAll('tr:not([role=row]), td:not([role=cell]), table:not([role=table])').length,
      ids: document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map(({ id }) => id)).size,
      live: Math.max(0, 2 - document.querySelectorAll('[role=status], [role=alert]').length),
    })`);
    return Object.fromEntries(Object.entries(faults).filter(([, count]) => count !== 0));
  }

  close(): Promise<void> {
    return this.page.browserContext().close();
  }
}
