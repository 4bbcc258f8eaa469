// The board by its HTTP requests.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import {
  type CallHandler,
  type CanActivate,
  type NestInterceptor,
  type PipeTransform,
  RequestMethod,
  type VersioningOptions,
  VersioningType,
} from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { getLockServiceToken, LockConfigError, type LockService, memory, RedisLockModule } from 'nestjs-redis-lock';
import { RedisLockBoardModule, type RedisLockBoardOptions } from 'nestjs-redis-lock/board';
import { map, type Observable } from 'rxjs';
import { deferred, eventually } from '../../support/async.js';
import { uniquePrefix } from '../../support/shared-redis.js';
import { type AppResponse, type AppSetUp, closeApps, PLATFORMS, startApp, type TestApp } from '../support/app.js';
import { AdminGuard, awaitedLock, heldLock, holders, listOf, startBoard, waiters } from './support.js';

const ADMIN = { 'x-admin': 'secret' };
const ROUTES = ['/locks', '/locks/state'];
type Headers = Readonly<Record<string, string>>;

const get = (app: TestApp, path: string, headers: Headers = {}): Promise<AppResponse> =>
  app.call(path, { headers: { ...ADMIN, ...headers } });

const stateOf = async (app: TestApp, search = '') => (await get(app, `/locks/state?search=${search}`)).body;

/** Returns the headers that a browser sends with a release of the page. */
const fromPage = ({ url }: TestApp): Headers => ({ ...ADMIN, 'content-type': 'application/json', origin: url });

/** Requests a release as the page does for the only lock that it shows, with some changes. */
async function release(app: TestApp, changes: object = {}, headers?: Headers): Promise<AppResponse> {
  const [{ resource, holder, token }] = (await stateOf(app)).locks;
  const body = JSON.stringify({ resource, holder, token, ...changes });
  return app.call('/locks/release', { method: 'POST', headers: headers ?? fromPage(app), body });
}

/** Sends a request whose headers are exactly these. `fetch` sets some itself. Returns the status. */
async function statusOf(app: TestApp, path: string, headers: Headers, body?: string): Promise<number> {
  const method = body === undefined ? 'GET' : 'POST';
  const sent = request(app.url + path, { agent: false, method, headers: { ...ADMIN, ...headers } }).end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

describe.each(PLATFORMS)('the board on %s', (platform) => {
  afterEach(closeApps);

  it('is behind its guard', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    await app.locks.acquire('goods:1');
    for (const path of ROUTES) {
      expect([path, (await app.call(path)).status]).toEqual([path, 403]);
      expect([path, (await get(app, path)).status]).toEqual([path, 200]);
    }
    const { 'x-admin': _, ...stranger } = fromPage(app);
    expect((await release(app, {}, stranger)).status).toBe(403);
    expect(await app.isLocked('goods:1')).toBe(true);
  });

  it('sends a page that runs nothing but its own script', async () => {
    const app = await startBoard({}, { platform });
    const { headers, text } = await get(app, '/locks');
    const hashOf = (element: string): string => {
      const [, content = ''] = new RegExp(`<${element}[^>]*>([\\s\\S]*)</${element}>`).exec(text) ?? [];
      return createHash('sha256').update(content).digest('base64');
    };
    expect(headers.get('content-security-policy')?.split('; ')).toEqual([
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
    expect(headers.get('set-cookie')).toBeNull();
    const json = await get(app, '/locks/state');
    expect(json.headers.get('content-type')).toBe('application/json; charset=utf-8');
    for (const sent of [headers, json.headers]) {
      expect(Object.fromEntries(sent)).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
      });
    }
  });

  it('shows a detached lock without its ticket, and may release it', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    const lock = await app.locks.acquire('goods:1');
    const ticket = await lock.detach();
    const { locks } = await stateOf(app);
    expect(locks).toEqual([expect.objectContaining({ resource: 'goods:1', holder: 'detached' })]);
    const shown = (await Promise.all(ROUTES.map((path) => get(app, path)))).map(({ text }) => text).join();
    expect(shown).not.toContain(ticket.slice(3));
    expect((await release(app)).status).toBe(200);
    await expect(app.locks.resume('goods:1', ticket)).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('shows who holds a lock and who waits for it', async () => {
    const prefix = uniquePrefix();
    const app = await startBoard({}, { platform, prefix, locks: { identity: 'api-1' } });
    const other = await startApp({ prefix, locks: { identity: 'api-2' } });
    const lock = await app.locks.acquire('goods:300', { label: 'req-7' });
    const behind = app.locks.acquire('goods:300', { waitMs: Infinity });
    const waiting = other.locks.acquire('goods:300', { waitMs: Infinity });
    await other.log.until('requested goods:300');
    await eventually('the board shows it', async () => (await stateOf(app)).waiting === 1);
    const shown = {
      key: lock.key,
      resource: 'goods:300',
      mode: 'exclusive',
      isDone: false,
      holder: expect.stringMatching(/^api-1/),
      holders: ['api-1'],
      holderCount: 1,
      token: lock.fencingToken,
      label: 'req-7',
      heldForMs: expect.any(Number),
      expiresInMs: expect.any(Number),
      waiting: ['api-2'],
      waiterCount: 1,
      // In Redis, a caller behind another one of its instance does not wait.
      waitingHere: 1,
    };
    expect(await stateOf(app)).toEqual({ isTruncated: false, held: 1, waiting: 1, found: 1, locks: [shown] });
    await lock.release();
    await Promise.all([behind, waiting].map(async (next) => (await next).release()));
    await eventually('the board shows it', async () => (await stateOf(app)).held === 0);
  });

  it('shows work that is done, which does not count as held', async () => {
    const app = await startBoard({}, { platform });
    await app.locks.using('goods:1', { onceMs: 600_000, label: '<b>done</b>\n' }, () => undefined);
    const { held, locks } = await stateOf(app);
    const done = { isDone: true, label: '<b>done</b>?', expiresInMs: expect.any(Number) };
    expect([held, locks]).toEqual([0, [expect.objectContaining(done)]]);
  });

  it('releases a lock by force, and logs who wanted it', async () => {
    const app = await startBoard({ allowRelease: true }, { platform });
    const lock = await app.locks.acquire('goods:300');
    const late = { status: 409, body: { error: expect.stringContaining('no longer held') } };
    expect(await release(app, { token: lock.fencingToken + 1 })).toMatchObject(late);
    expect(await app.isLocked('goods:300')).toBe(true);
    expect(await release(app)).toMatchObject({ status: 200 });
    await app.log.until('lost goods:300');
    expect(String(lock.signal.reason)).toContain('released by force');
    expect(await app.isLocked('goods:300')).toBe(false);
    const asked = (of: string) =>
      `warn alice at 127.0.0.1 asked on the board to release goods:300 (fencing token ${of}`;
    expect(app.logged.filter((line) => line.includes('on the board'))).toEqual([
      `${asked(String(lock.fencingToken + 1))}): it is no longer held.`,
      `${asked(String(lock.fencingToken))}): it was released by force.`,
    ]);
  });

  it('has the prefix of the application', async () => {
    const exclude = [{ path: 'health', method: RequestMethod.GET }];
    const prepare: AppSetUp['prepare'] = (nest) => nest.setGlobalPrefix('api', { exclude });
    const app = await startBoard({ route: 'admin/locks' }, { platform, prepare });
    for (const path of ['/api/admin/locks', '/api/admin/locks/state']) {
      expect([path, (await get(app, path)).status]).toEqual([path, 200]);
      expect([path, (await app.call(path)).status]).toEqual([path, 403]);
    }
    expect((await get(app, '/locks')).status).toBe(404);
  });

  it.each<[string, VersioningOptions, Headers]>([
    ['in the path', { type: VersioningType.URI }, {}],
    ['in a header', { type: VersioningType.HEADER, header: 'x-version' }, { 'x-version': '2' }],
    ['in the media type', { type: VersioningType.MEDIA_TYPE, key: 'v=' }, { accept: 'text/html;v=2' }],
  ])('has no version %s', async (_, versioning, headers) => {
    const prepare: AppSetUp['prepare'] = (nest) => nest.enableVersioning({ ...versioning, defaultVersion: '1' });
    const app = await startBoard({}, { platform, prepare });
    for (const path of ROUTES) {
      expect([path, (await get(app, path)).status]).toEqual([path, 200]);
      expect([path, (await get(app, path, headers)).status]).toEqual([path, 200]);
    }
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
    const prepare: AppSetUp['prepare'] = (nest) => nest.useGlobalInterceptors(wrap).useGlobalPipes(refuse);
    const app = await startBoard({ allowRelease: true }, { platform, prepare });
    await app.locks.acquire('goods:300');
    expect((await get(app, '/locks')).text).toMatch(/^<!doctype html>/);
    expect((await release(app)).status).toBe(200);
  });

  it('does not keep the application from ending', async () => {
    const app = await startBoard({}, { platform });
    // A browser keeps its connection.
    await (await fetch(`${app.url}/locks/state`, { headers: ADMIN })).text();
    await expect(app.close()).resolves.toBeUndefined();
  });

  it('shows the locks of several module instances on boards of their own', async () => {
    const lockModules = () => [
      RedisLockModule.forRoot({ store: memory(), shutdownGraceMs: 1 }),
      RedisLockModule.forRoot({ store: memory(), shutdownGraceMs: 1, name: 'php' }),
      RedisLockBoardModule.forRoot({ unprotected: true }),
      RedisLockBoardModule.forRoot({ unprotected: true, route: 'php-locks', name: 'php' }),
    ];
    const app = await startApp({ platform, lockModules });
    await app.nest.get<LockService>(getLockServiceToken('php')).acquire('goods:1');
    expect((await app.call('/locks/state')).body.held).toBe(0);
    expect((await app.call('/php-locks/state')).body.held).toBe(1);
    expect((await app.call('/php-locks')).text).toContain('data-name="php"');
  });
});

describe('what the board shows', () => {
  afterEach(closeApps);

  it('is read once for all viewers, and again after a pause', async () => {
    const app = await startBoard();
    let reads = 0;
    const arrived = deferred();
    listOf(app.locks, async function* () {
      reads += 1;
      yield heldLock('goods:1');
      await arrived.promise;
    });
    const first = stateOf(app);
    const others = [stateOf(app), stateOf(app, 'nothing')];
    await eventually('the first read begins', () => reads === 1);
    arrived.resolve();
    expect([(await first).found, ...(await Promise.all(others)).map(({ found }) => found)]).toEqual([1, 1, 0]);
    await eventually('there is another read', async () => (await stateOf(app)) && reads > 1);
  });

  it('is the most awaited lock first, then the one that is held longest', async () => {
    const app = await startBoard();
    listOf(app.locks, async function* () {
      yield heldLock('later', { heldForMs: 1_000 });
      yield heldLock('earlier', { heldForMs: 5_000 });
      yield heldLock('shared', { mode: 'shared', fencingToken: undefined, others: holders('api-2') });
      yield heldLock('awaited', { waiting: waiters('api-2') });
      // A scan may return a key twice.
      yield heldLock('awaited', { waiting: waiters('api-2', 'api-3') });
      yield awaitedLock('nobody', 'api-2');
    });
    const { locks, ...counts } = await stateOf(app);
    expect(counts).toEqual({ isTruncated: false, held: 4, waiting: 3, found: 5 });
    expect(locks).toMatchObject([
      { resource: 'awaited', waiting: ['api-2', 'api-3'] },
      { resource: 'nobody', holders: [], holderCount: 0 },
      { resource: 'earlier' },
      { resource: 'later' },
      { resource: 'shared', holders: ['api-1', 'api-2'], holderCount: 2 },
    ]);
    expect(locks[1]).not.toHaveProperty('holder');
  });

  it('is a hundred of ten thousand locks, and what a search finds', async () => {
    const app = await startBoard();
    listOf(app.locks, async function* () {
      for (let i = 0; i <= 10_000; i += 1) {
        yield heldLock(`goods:${String(i).padStart(5, '0')}`, { method: i === 3 ? 'Shop.buy' : undefined });
      }
    });
    const all = await stateOf(app);
    expect(all).toMatchObject({ held: 10_000, found: 10_000, isTruncated: true });
    expect(all.locks).toHaveLength(100);
    const found = async (search: string) => (await stateOf(app, search)).found;
    expect([await found('GOODS:0777'), await found('shop.BUY'), await found('api-1')]).toEqual([10, 1, 10_000]);
    // Several values of one name count as none.
    expect((await get(app, '/locks/state?search=a&search=b')).body.found).toBe(10_000);
  });

  it('names a few of many holders and waiters, and cuts the value of a foreign key', async () => {
    const app = await startBoard();
    const many = Array.from({ length: 2_000 }, (_, i) => `api-${i}`);
    listOf(app.locks, async function* () {
      yield heldLock('goods:1', { others: holders(...many), waiting: waiters(...many), expiresInMs: Infinity });
      yield heldLock('goods:2', { holder: 'x'.repeat(100_000), identity: undefined });
    });
    const [first, second] = (await stateOf(app)).locks;
    expect(first).toMatchObject({ holderCount: 2_001, waiterCount: 2_000, expiresInMs: null });
    expect([first.holders.length, first.waiting.length]).toEqual([5, 5]);
    expect(second.holder.length + second.holders[0].length).toBeLessThan(1_000);
  });

  it('is the reason if the locks cannot be read', async () => {
    const prefix = uniquePrefix();
    const app = await startBoard({}, { locks: { key: (resource) => `${prefix}:${resource}` } });
    const problem = expect.stringContaining('`key` function');
    expect(await stateOf(app)).toMatchObject({ problem, held: 0, locks: [] });
  });
});

describe('a release on the board', () => {
  afterEach(closeApps);

  it('ends the holds of a lock without a token only if the holder is still one of them', async () => {
    const app = await startBoard({ allowRelease: true });
    await app.locks.acquire('goods:1', { mode: 'shared' });
    expect((await release(app, { holder: 'somebody else' })).status).toBe(409);
    expect(await app.locks.inspect('goods:1')).toMatchObject({ isHeld: true });
    expect((await release(app)).status).toBe(200);
    expect(await app.locks.inspect('goods:1')).toBeNull();
  });

  it('is refused with another body, by GET, and without the option', async () => {
    const app = await startBoard({ allowRelease: true });
    await app.locks.acquire('goods:1');
    for (const wrong of [{ resource: 1 }, { resource: '' }, { holder: null }, { token: '7' }, { token: 0 }]) {
      expect([wrong, (await release(app, wrong)).status]).toEqual([wrong, 400]);
    }
    const headers = fromPage(app);
    for (const body of ['[]', 'null', '{}']) expect(await statusOf(app, '/locks/release', headers, body)).toBe(400);
    expect((await release(app, { resource: 'goods|1' })).status).toBe(400);
    expect((await get(app, '/locks/release?resource=goods:1')).status).toBe(404);
    expect(await app.isLocked('goods:1')).toBe(true);
    const without = await startBoard();
    await without.locks.acquire('goods:1');
    const refused = { status: 403, body: { error: expect.stringContaining('allowRelease') } };
    expect(await release(without)).toMatchObject(refused);
  });

  it.each<[user: unknown, name: string]>([
    [{ username: 'alice', id: 3 }, 'alice at 127.0.0.1'],
    [{ id: 3 }, '3 at 127.0.0.1'],
    ['alice', 'alice at 127.0.0.1'],
    [{ roles: [] }, '127.0.0.1'],
    [undefined, '127.0.0.1'],
    [{ name: 'eve\n[Nest] forged\u202e' }, 'eve?[Nest] forged? at 127.0.0.1'],
  ])('by %j is logged as by %s', async (user, name) => {
    const guard: CanActivate = {
      canActivate: (context) => {
        context.switchToHttp().getRequest<{ user: unknown }>().user = user;
        return true;
      },
    };
    const app = await startBoard({ allowRelease: true, guards: [guard] });
    await app.locks.acquire('goods:1');
    await release(app);
    expect(app.logged.find((line) => line.includes('on the board'))).toContain(`warn ${name} asked on the board`);
  });

  it('is refused with the reason if it fails', async () => {
    const app = await startBoard({ allowRelease: true });
    await app.locks.acquire('goods:1');
    for (const [error, status] of [
      [new LockConfigError('The store cannot.'), 501],
      [new Error('Redis is away.'), 503],
    ] as const) {
      app.locks.forceRelease = () => Promise.reject(error);
      expect(await release(app)).toMatchObject({ status, body: { error: error.message } });
      expect(app.logged.at(-1)).toContain(`the release failed. ${error.message}`);
    }
  });
});

describe('the board and other sites', () => {
  const HOST = 'app.example:8080';
  let app: TestApp;
  let own: Headers;
  beforeAll(async () => {
    const prepare = (nest: TestApp['nest']) => nest.enableCors({ origin: true, credentials: true });
    app = await startBoard({ allowRelease: true }, { prepare });
    own = { ...fromPage(app), host: HOST, origin: `http://${HOST}` };
  });
  afterAll(closeApps);

  /** Requests the release of a lock that nobody holds: 409 if the request is accepted. */
  const releaseWith = (changes: object): Promise<number> => {
    // Without the headers that are undefined.
    const headers = JSON.parse(JSON.stringify({ ...own, ...changes })) as Headers;
    return statusOf(app, '/locks/release', headers, '{"resource":"a","holder":"b","token":1}');
  };

  it.each([
    ['the page', {}],
    ['the page with a charset', { 'content-type': 'application/json; charset=utf-8' }],
    ['the page, as the browser says', { 'sec-fetch-site': 'same-origin' }],
    // A proxy has changed the header Host. The browser knows better.
    ['the page behind a proxy', { host: 'internal', 'sec-fetch-site': 'same-origin' }],
  ])('a release is accepted from %s', async (_, changes) => expect(await releaseWith(changes)).toBe(409));

  it.each<[string, object]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://app.example:9090' }],
    ['no origin', { origin: undefined }],
    ['an opaque origin', { origin: 'null' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['a sibling domain', { 'sec-fetch-site': 'same-site' }],
    ['an address that was typed', { 'sec-fetch-site': 'none' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['another form', { 'content-type': 'multipart/form-data; boundary=x' }],
    ['a plain text', { 'content-type': 'text/plain' }],
    ['a misleading type', { 'content-type': 'text/plain; application/json' }],
    ['no type', { 'content-type': undefined }],
  ])('a release is refused from %s', async (_, changes) => expect(await releaseWith(changes)).toBe(403));

  it.each<[string, Headers, number]>([
    ['the page', { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }, 200],
    ['the page over plain HTTP', { host: HOST, origin: `http://${HOST}` }, 200],
    ['a typed address', { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }, 200],
    ['a link on another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 200],
    ['a script of another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }, 403],
    ['a script of a sibling', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }, 403],
    ['an element of another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, 403],
    ['another site over plain HTTP', { host: HOST, origin: 'https://evil.example' }, 403],
    ['an opaque origin', { host: HOST, origin: 'null' }, 403],
    ['another port', { host: HOST, origin: 'http://app.example:81' }, 403],
  ])('a read from %s: %j is %d, whatever CORS allows', async (_, headers, status) => {
    for (const path of ROUTES) expect([path, await statusOf(app, path, headers)]).toEqual([path, status]);
  });
});

describe('the host name of the board', () => {
  afterEach(closeApps);

  const LOCAL = ['localhost', 'LOCALHOST:3000', 'localhost.', 'app.localhost:3000', '127.0.0.1:3000', '[::1]:3000'];
  const FOREIGN = ['evil.example', 'evil.example:3000', 'localhost.evil.example', 'notlocalhost', '127.0.0.1.nip.io'];

  it.each<[string, RedisLockBoardOptions, allowed: string[], refused: string[]]>([
    ['without a guard', { guards: undefined, unprotected: true }, [...LOCAL, '10.0.0.7'], FOREIGN],
    ['with a guard', {}, [...LOCAL, ...FOREIGN], []],
    [
      'with a list of hosts',
      { hosts: ['Admin.example.com', '.example.org'] },
      [...LOCAL, 'admin.example.com', 'ADMIN.example.com:80', 'example.org', 'a.b.example.org'],
      [...FOREIGN, 'example.com', 'x.admin.example.com', 'badexample.org'],
    ],
  ])('%s', async (_, options, allowed, refused) => {
    const app = await startBoard({ ...options, allowRelease: true });
    for (const path of ROUTES) {
      for (const host of allowed) expect([path, host, await statusOf(app, path, { host })]).toEqual([path, host, 200]);
      for (const host of refused) expect([path, host, await statusOf(app, path, { host })]).toEqual([path, host, 403]);
    }
    const page = fromPage(app);
    for (const host of refused) {
      const headers = { ...page, host, origin: `http://${host}` };
      const status = await statusOf(app, '/locks/release', headers, '{"resource":"a","holder":"b"}');
      expect([host, status]).toEqual([host, 403]);
    }
  });
});

describe('the options of the board', () => {
  const made = (options: object) => () => RedisLockBoardModule.forRoot(options);

  it.each([{}, { guards: [] }, { unprotected: false }, { unprotected: undefined, guards: undefined }])(
    'need a guard: %j',
    (options) => {
      expect(made(options)).toThrow(/guards is missing or empty.*give at least one guard, or unprotected: true/);
      expect(made(options)).toThrow(LockConfigError);
    },
  );

  it.each([
    [{ guards: [AdminGuard], unprotected: true }, /unprotected and guards are both set/],
    [{ guards: [undefined] }, /guards is an array; expected a list of guards/],
    [{ guards: [AdminGuard], route: ':id' }, /route is ":id"; expected a path of letters/],
    [{ guards: [AdminGuard], name: '' }, /name is ""/],
    [{ guards: [AdminGuard], allowRelease: 'yes' }, /allowRelease is "yes"; expected true or false/],
    [{ unprotected: true, hosts: 'example.com' }, /hosts is "example.com"; expected a list of host names/],
    [{ unprotected: true, hosts: ['example.com:80'] }, /hosts is an array; expected a list of host names/],
    [{ guards: [AdminGuard], imports: 1 }, /imports is 1; expected a list/],
    [{ guards: [AdminGuard], path: 'locks' }, /unknown option path; expected route, guards/],
  ])('are checked: %j', (options, message) => {
    expect(made(options)).toThrow(message);
    expect(made(options)).toThrow(LockConfigError);
  });
});
