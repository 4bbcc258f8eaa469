// Calls the code of the pages that needs a Redis, and nothing else.
import type { Server } from 'node:http';
import { ConsoleLogger, Injectable, type INestApplication, Logger, type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  Locked,
  LockService,
  LockUnavailableError,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { RedisFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { deferred, eventually } from '../support/async.js';
import { page } from '../support/pages.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { load, runBlock } from './blocks.js';

const open: { close(): unknown }[] = [];

// A refused user and a busy lock are logged.
beforeAll(() => Logger.overrideLogger(false));
afterAll(() => Logger.overrideLogger(new ConsoleLogger()));
beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
});
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
  jest.restoreAllMocks();
});

/** Returns a connection with keys of its own. */
function ownRedis(): Redis {
  const redis = new Redis(testRedisUrl(), { keyPrefix: uniquePrefix() });
  open.push({ close: () => redis.disconnect() });
  return redis;
}

/** Starts a module as it is on a page. */
async function startPage(module: ModuleMetadata['imports']): Promise<INestApplication> {
  const app = (await Test.createTestingModule({ imports: module }).compile()).createNestApplication();
  open.push(app);
  return app;
}

/** Starts an application with locks of its own. */
async function start(
  metadata: ModuleMetadata,
  options: Pick<RedisLockModuleOptions, 'prefix' | 'waitMs'> = {},
): Promise<INestApplication> {
  const locks = RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix(), ...options });
  const module = await Test.createTestingModule({
    ...metadata,
    imports: [locks, ...(metadata.imports ?? [])],
  }).compile();
  const app = module.createNestApplication();
  await app.listen(0, '127.0.0.1');
  open.push(app);
  return app;
}

async function call(app: INestApplication, path: string, init: RequestInit = {}): Promise<[number, string]> {
  const headers = { ...(init.headers as Record<string, string>), connection: 'close' };
  const response = await fetch((await app.getUrl()) + path, { ...init, headers });
  return [response.status, await response.text()];
}

describe('the README', () => {
  it('has an application that locks', async () => {
    const { AppModule, StockService } = load('README.md', 'AppModule');
    const app = await startPage([AppModule]);
    await app.listen(0, '127.0.0.1');
    expect(await app.get(StockService).restock(300, 1)).toBeGreaterThan(1e15);
    const buy = () => call(app, '/goods/300/buyers/7', { method: 'POST' });
    expect(await buy()).toEqual([201, 'true']);
    expect(await buy()).toEqual([201, 'false']);
  });
});

describe('the recipe for edit locks', () => {
  it('has a document with one editor at a time, on any instance', async () => {
    const { DocumentsController } = load('docs/recipes/edit-lock.md', 'DocumentsController');
    const prefix = uniquePrefix();
    const controllers = [DocumentsController];
    const [one, other] = [await start({ controllers }, { prefix }), await start({ controllers }, { prefix })];
    const send = async (app: INestApplication, method: string, path: string, body: object) => {
      const init = { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      const [status, text] = await call(app, `/documents/1${path}`, init);
      return { status, text, ticket: text.includes('"ticket":"') ? String(JSON.parse(text).ticket) : '' };
    };
    const { status, ticket: first } = await send(one, 'POST', '/edit', {});
    expect(status).toBe(201);
    expect((await send(other, 'POST', '/edit', {})).status).toBe(423);
    expect((await send(other, 'POST', '/heartbeat', { ticket: first })).status).toBe(204);
    const { ticket } = await send(other, 'POST', '/save', { ticket: first, text: 'hello' });
    const over = await send(one, 'POST', '/save', { ticket: first, text: 'late' });
    const message = 'The ticket of document:1 is over.';
    expect(JSON.parse(over.text)).toEqual({ statusCode: 409, code: 'LOCK_LOST', message, error: 'Conflict' });
    for (const wrong of [undefined, 7, '', `${ticket}x`, { ticket }]) {
      const refused = await send(one, 'POST', '/heartbeat', { ticket: wrong });
      expect(refused.status).toBe(400);
      const { code, message: told } = JSON.parse(refused.text);
      expect([code, told]).toEqual(['LOCK_KEY', 'The ticket is missing or invalid.']);
    }
  });
});

describe('the quick start', () => {
  const before = process.env['PORT'];
  const { text } = page('docs/quick-start.md');
  beforeEach(() => {
    process.env['PORT'] = '0';
  });
  afterEach(() => {
    if (before === undefined) delete process.env['PORT'];
    else process.env['PORT'] = before;
  });

  it('has an application that replies as the page shows', async () => {
    const create = jest.spyOn(NestFactory, 'create');
    runBlock('docs/quick-start.md', 'bootstrap');
    const app = (await create.mock.results[0]?.value) as INestApplication;
    open.push(app);
    await eventually('main.ts listens', () => (app.getHttpServer() as Server).listening);
    const url = await app.getUrl();
    const post = (path: string) => fetch(`${url}/seats/${path}`, { method: 'POST', headers: { connection: 'close' } });

    const both = await Promise.all(['ada', 'bob'].map(async (buyer) => (await post(`7/book/${buyer}`)).text()));
    const [winner] = both.flatMap((reply) => /^seat 7 is sold to (\w+)$/.exec(reply)?.[1] ?? []);
    expect(both.toSorted()).toEqual([`seat 7 is sold to ${winner}`, 'seat 7 is taken']);
    expect(text).toContain('```text\nseat 7 is sold to ada\nseat 7 is taken\n```');

    const lock = await app.get(LockService).acquire('seat:8');
    const refused = await post('8/try/bob');
    const reply = `HTTP/1.1 ${refused.status} Locked\nRetry-After: ${refused.headers.get('retry-after')}\n\n`;
    expect(text).toContain(`\`\`\`text\n${reply}${await refused.text()}\n\`\`\``);
    await lock.release();
    await eventually('seat 8 is sold', async () => (await (await post('8/try/bob')).text()).includes('sold to bob'));
  });
});

describe('the page on locks without Nest', () => {
  beforeEach(() => {
    process.env['LOCK_PREFIX'] = uniquePrefix();
    jest.spyOn(console, 'log').mockImplementation(() => undefined);
  });

  it('has a script that waits for a method of an application', async () => {
    @Injectable()
    class Goods {
      readonly entered = deferred();
      readonly end = deferred();
      @Locked('goods:<id>')
      async buy(id: number): Promise<number> {
        this.entered.resolve();
        await this.end.promise;
        return id;
      }
    }
    const { restock } = load('docs/standalone.md', 'restock');
    const app = await start({ providers: [Goods] }, { prefix: process.env['LOCK_PREFIX'] });
    const goods = app.get(Goods);
    const bought = goods.buy(2);
    await goods.entered.promise;
    const script = restock([1, 2]);
    const locks = app.get(LockService);
    await eventually('the script waits', async () => (await locks.inspect('goods:2'))?.waiting.length === 1);
    goods.end.resolve();
    expect(await bought).toBe(2);
    expect(await script).toEqual([1, 2].map((id) => expect.stringMatching(`^goods ${id}: token \\d+$`)));
  });

  it('has functions under locks', async () => {
    const { locks, pay, refund } = load('docs/standalone.md', 'pay');
    open.push(locks);
    expect(await pay(1)).toBe('order 1 is paid');
    const lock = await locks.acquire('order:1');
    expect(await pay(1)).toBeUndefined();
    await lock.release();
    expect(await refund({ id: 1 })).toBe('order 1 is refunded');
  });
});

describe('the page on servers', () => {
  it('has an application that locks by node-redis', async () => {
    const { AppModule, redis } = load('docs/which-redis.md', 'AppModule');
    const app = await startPage([AppModule]);
    await app.init();
    expect(await app.get(LockService).using('goods:300', ({ signal }) => signal.aborted)).toBe(false);
    await app.close();
    expect(redis.isReady).toBe(true);
    await redis.close();
  });

  it.each([
    ['docs/which-redis.md', 'behindSentinels'],
    ['docs/which-redis.md', 'inACluster'],
    ['docs/which-redis.md', 'onThreeMasters'],
    ['docs/configuration.md', 'lockModule'],
  ])('has a module that starts without its servers: %s, %s', async (path, name) => {
    const app = await startPage([load(path, name)[name]]);
    expect(app.get(LockService)).toBeInstanceOf(LockService);
  });
});

describe('the pages on other libraries', () => {
  it("have locks in Redisson's format under the name itself", async () => {
    const app = await startPage([load('docs/moving.md', 'sharedWithJava')['sharedWithJava']]);
    await app.init();
    const redis = new Redis(testRedisUrl());
    open.push({ close: () => redis.disconnect() });
    const type = await app.get(LockService).using('account:3', () => redis.type('account:3'));
    expect(type).toBe('hash');
  });

  it('have a service with the keys of redis-semaphore, even for values that need encoding', async () => {
    const { AccountModule, AccountService } = load('docs/moving.md', 'AccountService');
    const app = await startPage([AccountModule]);
    await app.init();
    const redis = new Redis(testRedisUrl());
    open.push({ close: () => redis.disconnect() });
    const accounts = app.get(AccountService);
    /** Locks a key as another library does, and returns what the call does when it is free. */
    const behind = async (key: string, work: () => Promise<string>): Promise<string> => {
      await redis.set(key, 'theirs', 'PX', 60_000);
      let settled = false;
      const result = work().finally(() => (settled = true));
      // The call sends its request before these.
      for (let request = 0; request < 20; request += 1) expect(await redis.get(key)).toBe('theirs');
      expect(settled).toBe(false);
      await redis.del(key);
      return result;
    };
    expect(await behind('mutex:account:1', () => accounts.pay('1'))).toBe('account 1 is paid');
    expect(await behind('mutex:account:a b', () => accounts.close('a b'))).toBe('account a b is closed');
  });
});

it('the page on fencing refuses a late holder', async () => {
  const { StockService } = load('docs/fencing.md', 'StockService');
  const redis = ownRedis();
  const app = await start({});
  const stock = new StockService(app.get(LockService), redis);
  await redis.hset('goods:300', 'left', 20);
  expect(await stock.sell(300, async () => undefined)).toBe(19);
  const later = new RedisFence(redis, 'goods:300');
  const overtaken = async () => later.open(Number.MAX_SAFE_INTEGER);
  await expect(stock.sell(300, overtaken)).rejects.toThrow(StaleFenceError);
  expect(await redis.hget('goods:300', 'left')).toBe('19');
  await redis.del('goods:300', '{goods:300}|opened');
});

it('the page on the board has a guard', async () => {
  const { AppModule } = load('docs/observability.md', 'AppModule');
  const app = await startPage([AppModule]);
  let isAdmin = false;
  app.use((request: { user?: object }, _: unknown, next: () => void) => {
    request.user = { isAdmin };
    next();
  });
  await app.listen(0, '127.0.0.1');
  expect((await call(app, '/locks'))[0]).toBe(403);
  isAdmin = true;
  expect((await call(app, '/locks'))[0]).toBe(200);
});

describe('the user of a tenant', () => {
  let server: RedisServer;
  let admin: Redis;

  beforeAll(async () => {
    server = await startRedis({ local: true });
    admin = new Redis(server.url);
    const [, commands = ''] =
      /```sh\nredis-cli (ACL SETUSER shop [^`]+)```/.exec(page('docs/which-redis.md').text) ?? [];
    const plain = commands.replaceAll(/['\\]/g, '').trim();
    const [, ...words] = plain.replace('shop', 'acme').replaceAll('lock_', 'acme:lock_').split(/\s+/);
    await admin.call('ACL', words);
  });
  afterAll(async () => {
    admin.disconnect();
    await server.stop();
  });

  async function locksOf(tenant: string): Promise<LockService> {
    const redis = server.url.replace('redis://', 'redis://acme:secret@');
    const app = await startPage([RedisLockModule.forRoot({ redis, prefix: `${tenant}:lock_` })]);
    await app.init();
    return app.get(LockService);
  }

  it('locks, shares and waits under its prefix', async () => {
    const [one, other] = [await locksOf('acme'), await locksOf('acme')];
    const lock = await one.acquire('goods:300');
    const next = other.acquire('goods:300', { waitMs: 20_000 });
    await eventually('it waits', async () => (await one.inspect('goods:300'))?.waiting.length === 1);
    await lock.release();
    await (await next).release();
    expect(await one.using('menu', { mode: 'shared' }, () => 'shared')).toBe('shared');
  });

  it('is refused under the prefixes of others', async () => {
    const locks = await locksOf('globex');
    await expect(locks.acquire('goods:300')).rejects.toThrow(LockUnavailableError);
  });
});
