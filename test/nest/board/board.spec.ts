import { createHash } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import {
  type CallHandler,
  type NestInterceptor,
  type PipeTransform,
  RequestMethod,
  type VersioningOptions,
  VersioningType,
} from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
import { map, type Observable } from 'rxjs';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';
import { type AppResponse, closeApps, PLATFORMS, rawRedis, startApp, type TestApp } from '../support/app.js';
import { LockBoard } from '../../../lib/board/lock-board.js';
import { AdminGuard, AdminsModule, startBoard } from './support.js';

afterEach(closeApps);

const ADMIN = { 'x-admin': 'secret' };
const get = (app: TestApp, path: string, headers: Record<string, string> = {}): Promise<AppResponse> =>
  app.call(path, { headers: { ...ADMIN, ...headers } });

/** Opens the page as a browser does. Returns what the browser sends with a release. */
async function openPage(app: TestApp, path = '/locks'): Promise<Record<string, string>> {
  const page = await get(app, path);
  const token = /data-token="([^"]*)"/.exec(page.text)?.[1] ?? '';
  const cookie = page.headers.get('set-cookie')?.split(';')[0] ?? '';
  return { ...ADMIN, 'content-type': 'application/json', 'x-lock-board-token': token, cookie, origin: app.url };
}

const release = (app: TestApp, headers: Record<string, string>, body: unknown, path = '/locks/release') =>
  app.call(path, { method: 'POST', headers, body: typeof body === 'string' ? body : JSON.stringify(body) });

const ROUTES = ['/locks', '/locks/state'];

/** Sends a request with a header `Host`, which `fetch` sets itself. Returns the status. */
async function statusOf(app: TestApp, path: string, headers: Record<string, string>, body?: string): Promise<number> {
  const method = body === undefined ? 'GET' : 'POST';
  const sent = request(app.url + path, { agent: false, method, headers: { ...ADMIN, ...headers } }).end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

describe.each(PLATFORMS)('the board on %s', (platform) => {
  it('is behind its guard', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    for (const path of ROUTES) {
      expect([path, (await app.call(path)).status]).toEqual([path, 403]);
      expect([path, (await get(app, path)).status]).toEqual([path, 200]);
    }
    const { 'x-admin': _, ...stranger } = await openPage(app);
    expect((await release(app, stranger, { resource: 'goods:1' })).status).toBe(403);
  });

  it('sends a page that runs nothing but its own script', async () => {
    const app = await startBoard({}, { platform });
    const { headers, text } = await get(app, '/locks');
    const hashOf = (element: string): string => {
      const [, content = ''] = new RegExp(`<${element}[^>]*>([\\s\\S]*)</${element}>`).exec(text) ?? [];
      return createHash('sha256').update(content).digest('base64');
    };
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `script-src 'sha256-${hashOf('script')}'`,
      `style-src 'sha256-${hashOf('style')}'`,
      "connect-src 'self'",
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ]);
    expect(text.match(/<script/g)).toHaveLength(1);
    expect(text).not.toMatch(/\son\w+=|\sstyle=|innerHTML|insertAdjacentHTML|\beval\(|https?:\/\/(?!www\.w3\.org)/);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    for (const path of ROUTES) {
      const response = await get(app, path);
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
      });
    }
    expect(headers.get('set-cookie')).toBeNull();
  });

  it('shows who holds a lock and who waits for it', async () => {
    const prefix = uniquePrefix();
    const app = await startBoard({}, { platform, prefix, locks: { identity: 'api-1' } });
    const other = await startApp({ prefix, locks: { identity: 'api-2' } });
    const lock = await app.locks.acquire('goods:300');
    const behind = app.locks.acquire('goods:300', { label: 'req-7', waitMs: Infinity });
    const waiting = other.locks.acquire('goods:300', { waitMs: Infinity });
    await other.log.until('requested goods:300');
    let state = (await get(app, '/locks/state')).body;
    for (let i = 0; i < 20 && state.waiting === 0; i++) {
      state = (await get(app, `/locks/state?after=${state.version}`)).body;
    }
    expect(state).toMatchObject({ instance: { identity: 'api-1', name: 'default' }, held: 1, waiting: 1, found: 1 });
    expect(state.servers.ping).toMatchObject({ isUp: true, servers: [{ isUp: true }] });
    expect(state.locks).toEqual([
      expect.objectContaining({
        resource: 'goods:300',
        family: 'goods',
        mode: 'exclusive',
        token: lock.fencingToken,
        holders: [expect.objectContaining({ identity: 'api-1' })],
        waiting: [expect.objectContaining({ identity: 'api-2' })],
        // In Redis a caller behind another one of its instance does not wait.
        callers: { count: 1, label: 'req-7', waitedMs: expect.any(Number) },
      }),
    ]);
    expect(state.locks[0].expiresInMs).toBeGreaterThan(0);
    await lock.release();
    await Promise.all([behind, waiting].map(async (next) => (await next).release()));
    expect((await get(app, `/locks/state?after=${state.version}`)).body).toMatchObject({ held: 0, waiting: 0 });
  });

  it('releases a lock by force and logs who wanted it', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    const lock = await app.locks.acquire('goods:300');
    const headers = await openPage(app);
    const token = lock.fencingToken;
    expect(await release(app, headers, { resource: 'goods:300', token: (token ?? 0) + 1 })).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining('no longer held') },
    });
    expect(await app.isLocked('goods:300')).toBe(true);
    expect(await release(app, headers, { resource: 'goods:300', token })).toMatchObject({ status: 200 });
    await app.log.until('lost goods:300');
    expect(String(lock.signal.reason)).toContain('released by force');
    expect(await app.isLocked('goods:300')).toBe(false);
    const logged = app.logged.filter((line) => line.includes('on the board'));
    expect(logged).toEqual([
      expect.stringMatching(
        /^warn goods:300 \(fencing token \d+\) was not released by force, .* by alice at 127\.0\.0\.1/,
      ),
      expect.stringMatching(
        /^warn goods:300 \(fencing token \d+\) was released by force: .* by alice at 127\.0\.0\.1\.$/,
      ),
    ]);
  });

  it.each([
    ['a foreign origin', { origin: 'https://evil.example' }, 403],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['a token that is missing', { 'x-lock-board-token': '' }, 403],
    ['a token that is wrong', { 'x-lock-board-token': 'a'.repeat(32) }, 403],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, 403],
    ['plain text', { 'content-type': 'text/plain' }, 403],
  ])('refuses a release from %s', async (_, changes: Record<string, string>, status) => {
    const app = await startBoard({ allowRelease: true }, { platform });
    const lock = await app.locks.acquire('goods:300');
    const headers = { ...(await openPage(app)), ...changes };
    expect((await release(app, headers, { resource: 'goods:300' })).status).toBe(status);
    expect(await app.isLocked('goods:300')).toBe(true);
    await lock.release();
  });

  it('refuses a release by GET, with another body, and without the option', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    const headers = await openPage(app);
    expect((await get(app, '/locks/release?resource=goods:300')).status).toBe(404);
    for (const body of [
      {},
      { resource: 1 },
      { resource: '' },
      { resource: 'a', token: '7' },
      { resource: 'a', token: 0 },
      [],
      'null',
    ]) {
      expect((await release(app, headers, body)).status).toBe(400);
    }
    expect((await release(app, headers, { resource: 'goods|300' })).status).toBe(400);
    const without = await startBoard({}, { platform });
    const refused = await release(without, await openPage(without), { resource: 'goods:300' });
    expect([refused.status, refused.body.error]).toEqual([403, expect.stringContaining('allowRelease')]);
  });

  it('cannot be read by scripts of other sites, whatever CORS allows', async () => {
    const app = await startBoard(
      { allowRelease: true },
      { platform, prepare: (nest) => nest.enableCors({ origin: true, credentials: true }) },
    );
    const foreign = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' };
    for (const path of ROUTES) expect((await get(app, path, foreign)).status).toBe(403);
    // Over plain HTTP browsers send less.
    const { origin } = foreign;
    for (const path of ROUTES) expect((await get(app, path, { origin })).status).toBe(403);
    // `fetch` sets the mode itself.
    const link = { ...ADMIN, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
    const opened = request(`${app.url}/locks`, { agent: false, headers: link }).end();
    const [response] = (await once(opened, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    response.resume();
  });

  it('is not served to a site whose name leads to this machine, unless it has a guard', async () => {
    const module = { guards: undefined, unprotected: true, allowRelease: true } as const;
    const app = await startBoard(module, { platform });
    const rebound = { host: 'evil.example:3000' };
    for (const path of ROUTES) {
      expect([path, await statusOf(app, path, rebound)]).toEqual([path, 403]);
      expect([path, await statusOf(app, path, { host: 'localhost:3000' })]).toEqual([path, 200]);
    }
    const lock = await app.locks.acquire('goods:300');
    const page = { ...(await openPage(app)), ...rebound, origin: 'http://evil.example:3000' };
    const body = JSON.stringify({ resource: 'goods:300' });
    expect(await statusOf(app, '/locks/release', page, body)).toBe(403);
    expect(await app.isLocked('goods:300')).toBe(true);
    await lock.release();
    const listed = await startBoard({ ...module, hosts: ['.example'] }, { platform });
    expect(await statusOf(listed, '/locks', rebound)).toBe(200);
    const guarded = await startBoard({}, { platform });
    expect(await statusOf(guarded, '/locks', rebound)).toBe(200);
    const both = await startBoard({ hosts: ['admin.example'] }, { platform });
    expect(await statusOf(both, '/locks', rebound)).toBe(403);
  });

  it('keeps the session of a browser, and the cookies of others', async () => {
    const app = await startBoard(
      { allowRelease: true },
      {
        platform,
        prepare: (nest) => {
          if (platform !== 'express') return;
          nest.use((_: unknown, res: { setHeader(name: string, value: string): void }, next: () => void) => {
            res.setHeader('Set-Cookie', 'theme=dark');
            next();
          });
        },
      },
    );
    const first = await openPage(app);
    const page = await get(app, '/locks', { cookie: (await get(app, '/locks')).headers.getSetCookie().join('; ') });
    expect(page.headers.getSetCookie().filter((line) => line.startsWith('theme='))).toHaveLength(
      platform === 'express' ? 1 : 0,
    );
    const cookie = page.headers.getSetCookie().find((line) => line.startsWith('nestjs-redis-lock-board=')) ?? '';
    expect(cookie).toMatch(/^nestjs-redis-lock-board=[\w-]{32}; HttpOnly; SameSite=Lax$/);
    expect(cookie).not.toContain(first['x-lock-board-token']);
    const again = await get(app, '/locks', { cookie: cookie.split(';')[0] ?? '' });
    expect(again.headers.getSetCookie().join()).toContain(cookie);
  });

  it.each<[string, VersioningOptions, Record<string, string>]>([
    ['in the path', { type: VersioningType.URI, defaultVersion: '1' }, {}],
    ['in a header', { type: VersioningType.HEADER, header: 'x-version', defaultVersion: '1' }, { 'x-version': '2' }],
    [
      'in the media type',
      { type: VersioningType.MEDIA_TYPE, key: 'v=', defaultVersion: '1' },
      { accept: 'text/html;v=2' },
    ],
  ])('has the prefix of the application, and no version %s', async (_, versioning, headers) => {
    const app = await startBoard(
      { route: 'admin/locks', allowRelease: true },
      {
        platform,
        prepare: (nest) =>
          nest
            .setGlobalPrefix('api', { exclude: [{ path: 'health', method: RequestMethod.GET }] })
            .enableVersioning(versioning),
      },
    );
    for (const path of ['/api/admin/locks', '/api/admin/locks/state']) {
      expect([path, (await get(app, path)).status]).toEqual([path, 200]);
      expect([path, (await get(app, path, headers)).status]).toEqual([path, 200]);
      expect([path, (await app.call(path)).status]).toEqual([path, 403]);
    }
    expect((await get(app, '/locks')).status).toBe(404);
    const lock = await app.locks.acquire('goods:300');
    const page = await openPage(app, '/api/admin/locks');
    const body = { resource: 'goods:300', token: lock.fencingToken };
    expect((await release(app, page, body, '/api/admin/locks/release')).status).toBe(200);
  });

  it('is not changed by interceptors and pipes of the application', async () => {
    const wrap: NestInterceptor = {
      intercept: (_, next: CallHandler): Observable<object> => next.handle().pipe(map((data: unknown) => ({ data }))),
    };
    const refuse: PipeTransform = {
      transform: () => {
        throw new Error('a pipe of the application');
      },
    };
    const app = await startBoard(
      { allowRelease: true },
      { platform, prepare: (nest) => nest.useGlobalInterceptors(wrap).useGlobalPipes(refuse) },
    );
    expect((await get(app, '/locks')).text).toMatch(/^<!doctype html>/);
    expect((await get(app, '/locks/state')).body).toHaveProperty('version');
    const lock = await app.locks.acquire('goods:300');
    expect((await release(app, await openPage(app), { resource: 'goods:300' })).status).toBe(200);
    await lock.release();
  });

  it('does not keep the connections of its viewers in use at a shutdown', async () => {
    const app = await startBoard({}, { platform });
    const isClosing = async (): Promise<boolean> => {
      const response = await fetch(`${app.url}/locks/state`, { headers: ADMIN });
      await response.text();
      return response.headers.get('connection') === 'close';
    };
    expect(await isClosing()).toBe(false);
    app.nest.get(LockBoard, { strict: false }).close();
    // Fastify closes them itself.
    expect(await isClosing()).toBe(platform === 'express');
  });

  it('sends hostile names as JSON', async () => {
    const app = await startBoard({}, { platform });
    const names = [
      'goods:<img src=x onerror=alert(1)>',
      'goods:</script><script>',
      'goods:\u202egnp.exe',
      `goods:${'x'.repeat(1_000)}`,
    ];
    const locks = await Promise.all(names.map((name) => app.locks.acquire(name)));
    const { body, headers } = await get(app, '/locks/state?sort=resource');
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(body.locks.map(({ resource }: { resource: string }) => resource)).toEqual(names.toSorted());
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('searches and pages', async () => {
    const app = await startBoard({}, { platform });
    const names = Array.from({ length: 120 }, (_, i) => `goods:${String(i).padStart(3, '0')}`);
    await Promise.all(names.map((name) => app.locks.acquire(name)));
    const state = async (query: string) => (await get(app, `/locks/state?sort=resource&${query}`)).body;
    expect(await state('page=2')).toMatchObject({ held: 120, found: 120, page: 2, pages: 3 });
    expect((await state('page=2')).locks).toHaveLength(20);
    expect((await state('search=GOODS:01')).found).toBe(10);
    // An invalid value counts as missing.
    expect(await state('page=-1&sort=x&search=a&search=b&after[x]=1')).toMatchObject({ found: 120, page: 0 });
  });

  it('ends waiting replies when the application ends', async () => {
    const app = await startBoard({}, { platform });
    const { version } = (await get(app, '/locks/state')).body;
    const arrived = once(app.nest.getHttpServer() as EventEmitter, 'request');
    const waiting = get(app, `/locks/state?after=${version}`);
    await arrived;
    await app.close();
    expect((await waiting).status).toBe(200);
  });

  it('shows the locks of several module instances on boards of their own', async () => {
    const boards = [
      RedisLockBoardModule.forRoot({ unprotected: true }),
      RedisLockBoardModule.forRoot({ unprotected: true, route: 'php-locks', name: 'php' }),
    ];
    const app = await startApp({
      platform,
      lockModules: (prefix) => [
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix, shutdownGraceMs: 1 }),
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: `php_${prefix}`, name: 'php', shutdownGraceMs: 1 }),
        ...boards,
      ],
    });
    const php = app.nest.get<LockService>('nestjs-redis-lock:LockService:php');
    await php.acquire('goods:1');
    expect((await app.call('/locks/state')).body).toMatchObject({ held: 0, instance: { name: 'default' } });
    expect((await app.call('/php-locks/state')).body).toMatchObject({ held: 1, instance: { name: 'php' } });
    expect((await app.call('/php-locks')).text).toContain('data-name="php"');
  });

  it('is not part of the API that @nestjs/swagger describes', async () => {
    const app = await startBoard({}, { platform });
    const { paths } = SwaggerModule.createDocument(app.nest, new DocumentBuilder().build());
    expect(Object.keys(paths)).toEqual([]);
  });

  it('gets options from a factory', async () => {
    const app = await startApp({
      platform,
      locks: { shutdownGraceMs: 1 },
      imports: [
        RedisLockBoardModule.forRootAsync({
          guards: [AdminGuard],
          imports: [AdminsModule],
          useFactory: () => Promise.resolve({ allowRelease: true, who: () => 'the factory' }),
        }),
      ],
    });
    await app.locks.acquire('goods:1');
    expect((await release(app, await openPage(app), { resource: 'goods:1' })).status).toBe(200);
    expect(app.logged.join('\n')).toContain('goods:1 was released by force: requested on the board by the factory.');
  });

  it('refuses options of a factory that are not allowed', async () => {
    const board = RedisLockBoardModule.forRootAsync({
      unprotected: true,
      useFactory: () => ({ allowRelease: 'yes' as never }),
    });
    await expect(startApp({ platform, imports: [board] })).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
  });

  it('shows lost locks', async () => {
    const app = await startBoard({}, { platform });
    const lock = await app.locks.acquire('goods:1');
    await rawRedis().del(lock.key);
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await app.log.until('lost goods:1');
    const { body } = await get(app, '/locks/state');
    expect(body.lostCount).toBe(1);
    expect(body.lost).toEqual([
      expect.objectContaining({ resource: 'goods:1', reason: expect.stringContaining('gone') }),
    ]);
  });

  it('says why the locks cannot be read, and shows those of its instance', async () => {
    const prefix = uniquePrefix();
    const app = await startApp({
      platform,
      locks: { key: (resource) => `${prefix}:${resource}` },
      imports: [RedisLockBoardModule.forRoot({ unprotected: true })],
    });
    const { body } = await app.call('/locks/state');
    expect(body).toMatchObject({ problem: expect.stringContaining('`key` function'), locks: [] });
    await app.locks.using('goods:1', async () => {
      const { locks } = (await app.call(`/locks/state?after=${body.version}`)).body;
      expect(locks).toEqual([expect.objectContaining({ resource: 'goods:1', holderCount: 1 })]);
    });
  });
});
