// The page of the flash sale and its endpoints, in one process. Buyers come from the tests only.
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LiveState } from '../../sample/flash-sale/src/live/live-sale.service.js';
import { deferred, eventually } from '../support/async.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';

const SOURCES = join(__dirname, '../../sample/flash-sale/src');
const UNSOLD = { left: 100, sold: 0, oversold: 0 };

let server: RedisServer;
let app: INestApplication;
let url: string;
/** Writers of these goods wait until this number of them has read. */
let meeting: { readonly id: number; readonly size: number } | undefined;

const post = (path: string, body?: object) =>
  fetch(url + path, {
    method: 'POST',
    ...(body && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
  });
const state = async (query = '') => (await (await fetch(`${url}/sale${query}`)).json()) as LiveState;
const statusesOf = async (responses: readonly Promise<Response>[]) =>
  (await Promise.all(responses)).map(({ status }) => status).toSorted((a, b) => a - b);

/** Names of two colours, and the least contrast between them: 4.5 of text, 3 of shapes. */
const CONTRASTS: readonly (readonly [string, string, number])[] = [
  ...['text', 'muted'].flatMap((front) => ['page', 'card'].map((back) => [front, back, 4.5] as const)),
  ...['good', 'bad', 'focus'].map((front) => [front, 'card', 4.5] as const),
  ['bad', 'bad-back', 4.5],
  ['on-bad', 'bad', 4.5],
  ['text', 'mark', 4.5],
  ['text', 'code', 4.5],
  ...['first', 'second', 'third'].map((front) => [front, 'card', 3] as const),
];

/** Returns the contrast of two colours such as #fff, as WCAG 2 defines it. */
function contrastOf(one: string, other: string): number {
  const luminance = (colour: string): number => {
    const digits = colour.length === 4 ? colour.replaceAll(/\w/g, '$&$&') : colour;
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
      return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [dark, light] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

beforeAll(async () => {
  server = await startRedis({ local: true });
  // The settings are read when the module is loaded.
  Object.assign(process.env, { REDIS_URL: server.url, PAYMENT_MS: '1', INSTANCES: '', STORE: '' });
  const { AppModule } = await import('../../sample/flash-sale/src/app.module.js');
  const { BuyersService } = await import('../../sample/flash-sale/src/live/buyers.service.js');
  const { RedisStock, Stock } = await import('../../sample/flash-sale/src/goods/stock.js');

  class MeetingStock extends RedisStock {
    private readonly all = deferred();
    private readers = 0;

    override async setLeft(id: number, left: number): Promise<void> {
      if (id === meeting?.id) {
        this.readers += 1;
        if (this.readers === meeting.size) this.all.resolve();
        await this.all.promise;
      }
      await super.setLeft(id, left);
    }
  }

  class NoCustomers extends BuyersService {
    override onApplicationBootstrap(): void {}
  }

  const module = await Test.createTestingModule({ imports: [AppModule] })
    .overrideProvider(Stock)
    .useFactory({ factory: () => new MeetingStock(server.url) })
    .overrideProvider(BuyersService)
    .useClass(NoCustomers)
    .compile();
  app = module.createNestApplication({ logger: false });
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  url = `http://127.0.0.1:${port}`;
});

afterAll(async () => {
  await app?.close();
  await server?.stop();
});

describe('the page of the flash sale', () => {
  it.each([
    ['/', 'text/html; charset=utf-8', '<!doctype html>'],
    ['/page.css', 'text/css; charset=utf-8', ':root'],
    ['/page.js', 'text/javascript; charset=utf-8', 'class Side'],
  ])('serves %s with its type and a strict policy', async (path, type, content) => {
    const response = await fetch(url + path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe(type);
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    const policy = response.headers.get('content-security-policy')?.split('; ') ?? [];
    expect(policy).toEqual(expect.arrayContaining(["default-src 'none'", "script-src 'self'", "style-src 'self'"]));
    expect(policy.join()).not.toMatch(/unsafe|http|\*/);
    expect(await response.text()).toContain(content);
  });

  it('has the board of live locks beside it, with a strict policy', async () => {
    const response = await fetch(`${url}/locks`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
    expect(await response.text()).toContain('<title>Locks</title>');
    // It cannot release: the holder would continue and sell.
    expect((await post('/locks/release', { resource: 'goods:1' })).status).toBe(403);
  });

  it('loads nothing from elsewhere, and has no code or style in the page', async () => {
    const page = await (await fetch(url)).text();
    const links = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link);
    const addresses = links.filter((link) => !link.startsWith('data:'));
    expect(addresses.toSorted()).toEqual(['locks', 'page.css', 'page.js']);
    expect(page).not.toMatch(/<style|\sstyle=|\son\w+=|<script[^>]*>[^<]/);
  });

  it.each(['light', 'dark'] as const)('has enough contrast for WCAG AA: %s', async (scheme) => {
    const style = await (await fetch(`${url}/page.css`)).text();
    const [light, dark] = [...style.matchAll(/:root \{([^}]+)\}/g)].map(([, block]) =>
      Object.fromEntries([...block.matchAll(/--([\w-]+): (#\w+);/g)].map(([, name, colour]) => [name, colour])),
    );
    const colours: Record<string, string> = scheme === 'light' ? light : dark;
    const tooLow = CONTRASTS.filter(([front, back, least]) => contrastOf(colours[front], colours[back]) < least);
    expect(tooLow).toEqual([]);
  });

  it('shows the code that runs', async () => {
    const page = await (await fetch(url)).text();
    const shown = [...page.matchAll(/<code data-source="([\w.]+)">([\s\S]*?)<\/code>/g)];
    expect(shown).toHaveLength(3);
    const withoutSpace = (code: string) => code.replaceAll(/\s+/g, ' ').trim();
    for (const [, file, html] of shown) {
      const code = html
        .replaceAll(/<[^>]+>/g, '')
        .replaceAll('&lt;', '<')
        .replaceAll('&gt;', '>');
      const source = readFileSync(join(SOURCES, 'goods', file), 'utf8');
      expect(withoutSpace(source)).toContain(withoutSpace(code));
    }
  });
});

describe('a sale of the page', () => {
  it('has no sale at first', async () => {
    expect(await state()).toMatchObject({ sale: null, isOver: true, sides: null, purchases: [], next: 0 });
    const response = await fetch(`${url}/sale`, {
      method: 'PATCH',
      body: '{"perSecond":20}',
      headers: { 'Content-Type': 'application/json' },
    });
    expect(response.status).toBe(404);
    expect((await post('/sale/buyers', { name: 'Ada' })).status).toBe(409);
  });

  it('starts once if several viewers start the sale after the same one', async () => {
    const after = (await state()).sale?.id ?? 0;
    const starts = Array.from({ length: 8 }, () => post('/sale', { after }));
    expect(new Set(await statusesOf(starts))).toEqual(new Set([201]));
    const { sale, sides } = await state();
    expect(sale?.id).toBeGreaterThan(after);
    expect(sides).toEqual({ unlocked: UNSOLD, locked: UNSOLD });
    await post('/sale', { after });
    expect((await state()).sale).toEqual(sale);
  });

  it('has goods of its own if several viewers start one at the same moment', async () => {
    await statusesOf(Array.from({ length: 8 }, () => post('/sale')));
    expect((await state()).sides).toEqual({ unlocked: UNSOLD, locked: UNSOLD });
  });

  it('sends a buyer to both sides, and records the name as it is', async () => {
    await post('/sale');
    const name = '<b>\u202e\u0000"';
    expect((await post('/sale/buyers', { name: `  ${name} ` })).status).toBe(202);
    await eventually('both purchases are recorded', async () => (await state()).purchases.length === 2);
    const { purchases, sides } = await state();
    expect(purchases.map(({ side }) => side).toSorted()).toEqual(['locked', 'unlocked']);
    for (const one of purchases) expect(one).toMatchObject({ buyer: name, outcome: 'sold', piece: 100 });
    const sold = { left: 99, sold: 1, oversold: 0 };
    expect(sides).toEqual({ unlocked: sold, locked: sold });
  });

  it('oversells without the lock, and sells each piece once with it', async () => {
    expect((await post('/sale', { perSecond: 30 })).status).toBe(201);
    const { sale } = await state();
    expect(sale).toMatchObject({ stock: 100, perSecond: 30 });
    const id = sale?.id ?? 0;
    meeting = { id: id + 1, size: 3 };
    const buy = (path: string) => Array.from({ length: 3 }, () => post(`/goods/${path}`));
    expect(await statusesOf(buy(`${id + 1}/buy-unlocked`))).toEqual([201, 201, 201]);
    expect(await statusesOf(buy(`${id}/buy`))).toEqual([201, 201, 201]);
    expect((await state()).sides).toEqual({
      unlocked: { left: 99, sold: 3, oversold: 2 },
      locked: { left: 97, sold: 3, oversold: 0 },
    });
  });

  it('sells exactly the stock with the lock, however many buyers come', async () => {
    await post('/sale');
    const id = (await state()).sale?.id ?? 0;
    const statuses = await statusesOf(Array.from({ length: 130 }, () => post(`/goods/${id}/buy`)));
    expect(statuses.filter((status) => status === 201)).toHaveLength(100);
    expect(statuses.filter((status) => status === 409)).toHaveLength(30);
    expect((await state()).sides?.locked).toEqual({ left: 0, sold: 100, oversold: 0 });
  });

  it('returns what was recorded after a position', async () => {
    const { SaleLog } = await import('../../sample/flash-sale/src/live/sale-log.js');
    const log = app.get(SaleLog, { strict: false });
    await post('/sale');
    const id = (await state()).sale?.id ?? 0;
    const sold = { side: 'locked', buyer: 'Ada', instance: 3000, at: 10, outcome: 'sold' } as const;
    const purchases = [3, 2, 1].map((piece) => ({ ...sold, piece }));
    for (const purchase of purchases) await log.record(id, purchase);
    expect(await state(`?sale=${id}&after=1`)).toMatchObject({ purchases: purchases.slice(1), next: 3 });
    expect(await state(`?sale=${id}&after=3`)).toMatchObject({ purchases: [], next: 3 });
    // The position is one of another sale.
    expect(await state(`?sale=${id - 1}&after=3`)).toMatchObject({ purchases, next: 3 });
  });

  it.each([
    ['GET', '/sale?after=-1', undefined],
    ['GET', '/sale?after=1e3', undefined],
    ['GET', '/sale?after=1&after=2', undefined],
    ['GET', `/sale?sale=${'9'.repeat(20)}`, undefined],
    ['POST', '/sale', { perSecond: 0 }],
    ['POST', '/sale', { perSecond: 1_000_000 }],
    ['POST', '/sale', { perSecond: '<b>' }],
    ['POST', '/sale', { perSecond: [12] }],
    ['POST', '/sale', { perSecond: 12.5 }],
    ['POST', '/sale', { after: -1 }],
    ['PATCH', '/sale', {}],
    ['PATCH', '/sale', { perSecond: null }],
    ['POST', '/sale/buyers', {}],
    ['POST', '/sale/buyers', { name: ' ' }],
    ['POST', '/sale/buyers', { name: ['Ada'] }],
    ['POST', '/sale/buyers', { name: 'x'.repeat(41) }],
    ['POST', '/goods/1/restock', { amount: -1 }],
    ['POST', '/goods/1/restock', { amount: 1e12 }],
    ['POST', '/goods/0/restock', { amount: 1 }],
    ['POST', '/goods/99999999999999999999/restock', { amount: 1 }],
    ['POST', '/goods/%3Cb%3E/buy', {}],
  ])('refuses %s %s with %j', async (method, path, body) => {
    const init = body && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
    const response = await fetch(url + path, { method, ...init });
    expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 400 });
  });
});
