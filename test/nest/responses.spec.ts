import { once } from 'node:events';
import {
  All,
  type ArgumentsHost,
  Body,
  Catch,
  Controller,
  Cookies,
  createParamDecorator,
  type ExceptionFilter,
  Get,
  Headers,
  HostParam,
  HttpException,
  Injectable,
  Module,
  Param,
  type PipeTransform,
  type Provider,
  Query,
  Scope,
  type Type,
  UseFilters,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  bindLocks,
  type Lock,
  LockConfigError,
  Locked,
  LockError,
  LockKeyError,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
  RedisLockModule,
  resource,
} from 'nestjs-redis-lock';
import { StaleFenceError } from 'nestjs-redis-lock/fence';
import { eventually } from '../support/async.js';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import {
  type AppResponse,
  type AppSetUp,
  closeApps,
  keyOf,
  type Platform,
  PLATFORMS,
  rawRedis,
  startApp,
  type TestApp,
} from './support/app.js';
import { goodsController, stack } from './support/goods-controller.js';
import { onStoppedServer } from './support/stopped-app.js';
import { Copying } from './support/wrappers.js';

/** A company's format of errors. */
@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: LockError, host: ArgumentsHost): void {
    reply(host, 418, { caught: error.code });
  }
}

@Catch()
@Injectable({ scope: Scope.REQUEST })
class CatchAllOfRequest extends CatchAll {}

function reply(host: ArgumentsHost, status: number, body: object): void {
  const response = host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>();
  response.status(status).send(body);
}

const Tenant = createParamDecorator(() => undefined);

/** Returns a controller whose handler locks what its parameter names. */
function inputController(template: string | ((input: string) => string), parameter: ParameterDecorator): Type {
  @Controller()
  class InputController {
    @All('goods/:id')
    @stack(Locked(template as string))
    async read(@parameter input: unknown): Promise<string> {
      return String(input);
    }
  }
  return InputController;
}

const GRABBED = Locked('goods:<id>', { waitMs: 0 });

@Injectable()
class GoodsService {
  @GRABBED
  async buy(id: string | undefined): Promise<string | undefined> {
    return id;
  }
}

@Controller()
class GoodsController {
  constructor(private readonly goods: GoodsService) {}

  @Get('locked/:id')
  @GRABBED
  async locked(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string | undefined> {
    return this.goods.buy(id);
  }
}

/** Has no decorator of ours. */
@Controller('plain')
class PlainController {
  constructor(private readonly goods: GoodsService) {}

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string | undefined> {
    return this.goods.buy(id);
  }
}

@UseFilters(CatchAll)
@Controller()
class FilteredController extends GoodsController {}

@Module({ providers: [{ provide: APP_FILTER, useClass: CatchAll }] })
class FeatureModule {}

const featureFirst = (prefix: string) => [FeatureModule, RedisLockModule.forRoot({ redis: testRedisUrl(), prefix })];

const asProvider = (filter: object): AppSetUp => ({ providers: [{ provide: APP_FILTER, ...filter } as Provider] });

afterEach(closeApps);

const start = (setUp: AppSetUp = {}, controller: Type = GoodsController) =>
  startApp({
    ...setUp,
    controllers: [controller, PlainController],
    providers: [GoodsService, ...(setUp.providers ?? [])],
  });

const busy = <T>(app: TestApp, work: () => Promise<T>): Promise<T> => app.locks.using('goods:1', work);

const ROUTES = ['locked', 'service', 'plain/service'];
const BUSY = { statusCode: 423, code: 'LOCK_TIMEOUT', message: 'goods:1 is locked by others.', error: 'Locked' };

describe.each(PLATFORMS)('a lock error on %s', (platform) => {
  it('of a busy lock is a 423 with Retry-After, and is not logged', async () => {
    const app = await start({ platform });
    await busy(app, async () => {
      for (const route of ROUTES) {
        const { status, headers, body } = await app.call(`/${route}/1`);
        expect([route, status, headers.get('retry-after'), body]).toEqual([route, 423, '1', BUSY]);
      }
    });
    expect(app.logged).toEqual([]);
  });

  it.each<[string, Type, RegExp]>([
    ['a key that is not allowed', goodsController([Locked(() => 'goods|1')]), /goods\|1/],
    [
      'an argument of a service',
      goodsController([], ({ locks }) => bindLocks(new GoodsService(), locks).buy(undefined)),
      / is undefined\. A lock's key needs/,
    ],
    [
      'a parameter of a decorator of its own',
      inputController('goods:<input>', Tenant()),
      / is undefined\. A lock's key needs/,
    ],
    [
      'a value in a key function',
      inputController((id: string) => resource`goods:${id}`, Query('id')),
      / is undefined\. A lock's key needs/,
    ],
    [
      'a lock that the caller holds',
      goodsController([Locked('goods:1', { mode: 'shared' })], ({ locks }) => locks.using('goods:1', () => undefined)),
      /goods:1 is already held by the caller/,
    ],
  ])('of a mistake in the program is a plain 500 of Nest, which logs it: %s', async (_what, controller, logged) => {
    const app = await startApp({ platform, controllers: [controller] });
    const { status, headers, body } = await app.call('/goods/1');
    expect([status, headers.get('retry-after')]).toEqual([500, null]);
    expect(body).toEqual({ statusCode: 500, message: 'Internal server error' });
    expect(app.logged).toEqual([expect.stringMatching(logged)]);
  });

  it('has the status of http.status, and http.retryAfterMs rounded up to seconds', async () => {
    const app = await start({ platform, locks: { http: { status: { LOCK_TIMEOUT: 409 }, retryAfterMs: 1_500 } } });
    const { status, headers, body } = await busy(app, () => app.call('/locked/1'));
    expect([status, headers.get('retry-after')]).toEqual([409, '2']);
    expect(body).toEqual({ ...BUSY, statusCode: 409, error: 'Conflict' });
  });
});

describe('an unavailable Redis', () => {
  let proxy: RedisProxy;
  beforeEach(async () => {
    proxy = await RedisProxy.start(testRedisUrl());
  });
  afterEach(() => proxy.close());

  const text = 'Service Unavailable';
  const unavailable = { statusCode: 503, code: 'LOCK_UNAVAILABLE', message: text, error: text };
  // An application of an earlier test may still log.
  const warnings = (app: TestApp): string[] =>
    app.logged.filter((line) => line.startsWith('warn') && line.includes(proxy.url));

  it('does not prevent the application from starting, and gives one warning', async () => {
    await proxy.refuseConnections();
    const app = await start({ locks: { redis: proxy.url, requestTimeoutMs: 100, unavailableAfterMs: 100, waitMs: 0 } });
    const responses = [await app.call('/locked/1'), await app.call('/locked/1')];
    expect(responses.map(({ status }) => status)).toEqual([503, 503]);
    expect(warnings(app)).toHaveLength(1);
    await proxy.acceptConnections();
    await eventually('Redis is back', async () => (await app.call('/locked/2')).text === '2');
  });

  it('is a 503 without Retry-After if a person has to act: the password is wrong, or the key has another type', async () => {
    const app = await start({
      locks: { redis: testRedisUrl().replace('redis://', 'redis://nobody:wrong@'), waitMs: 0 },
    });
    const other = await start();
    await rawRedis().hset(keyOf(other.prefix, 'goods:1'), 'field', 'value');
    for (const { status, headers, body } of [await app.call('/locked/1'), await other.call('/locked/1')]) {
      expect([status, headers.get('retry-after'), body]).toEqual([503, null, unavailable]);
    }
    await rawRedis().del(keyOf(other.prefix, 'goods:1'));
  });

  it('has a different code from too few replicas, which is also a 503', async () => {
    const app = await start({ locks: { replicas: { min: 99, timeoutMs: 20 } } });
    const { status, headers, body } = await app.call('/locked/1');
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    expect(body).toEqual({ ...unavailable, code: 'LOCK_REPLICATION' });
  });
});

describe.each(PLATFORMS)('a value of a request that cannot form a key on %s', (platform) => {
  const post = (body: string): RequestInit => {
    return { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  };
  const becomes = (value: unknown): PipeTransform => ({ transform: () => value });

  it.each<[template: string, parameter: ParameterDecorator, search: string, init: RequestInit]>([
    ['<id>', Query('id'), '', {}],
    ['<id>', Query('id'), '?id=', {}],
    ['<id>', Query('id'), '?id=1&id=2', {}],
    ['<id>', Query('id'), '?id[name]=1', {}],
    ['<input.id>', Query(), '', {}],
    ['<input.size>', Param(), '', {}],
    ['<0>', Headers('X-Tenant'), '', {}],
    ['<id>', Cookies('id'), '', {}],
    ['<shop>', HostParam('shop'), '', {}],
    ['<input.shop.name>', Body(), '', { method: 'POST' }],
    ['<input.shop.name>', Body(), '', post('{"shop":{"name":{}}}')],
    ['<id>', Body('id'), '', post('{"id":null}')],
    ['<...ids>', Query('ids'), '', {}],
    ['<...ids>', Query('ids'), '?ids=1&ids=', {}],
    ['<id>', Param('id', becomes(Number.NaN)), '', {}],
    ['<id>', Param('id', becomes(undefined)), '', {}],
  ])('is a 400 that names the placeholder: %s %p%s %j', async (template, parameter, search, init) => {
    const app = await startApp({ platform, controllers: [inputController(`goods:${template}`, parameter)] });
    const { status, headers, body } = await app.call(`/goods/1${search}`, init);
    const message = `The value of '${template.replaceAll(/[<>]|\.{3}/g, '')}' is missing or invalid.`;
    expect(body).toEqual({ statusCode: 400, code: 'LOCK_KEY', message, error: 'Bad Request' });
    expect([status, headers.get('retry-after')]).toEqual([400, null]);
    expect([app.logged, app.log.lines]).toEqual([[], []]);
  });

  it('may be an array if the template spreads it', async () => {
    const app = await startApp({ platform, controllers: [inputController('goods:<...ids>', Query('ids'))] });
    expect((await app.call('/goods/1?ids=1&ids=2')).status).toBe(200);
    expect((await app.call('/goods/1?ids=3')).text).toBe('3');
    expect(app.log.lines).toEqual(expect.arrayContaining(['granted goods:1', 'granted goods:2', 'granted goods:3']));
  });
});

@Catch(LockKeyError)
class KeepError implements ExceptionFilter {
  readonly caught: LockKeyError[] = [];
  catch(error: LockKeyError, host: ArgumentsHost): void {
    this.caught.push(error);
    reply(host, 418, {});
  }
}

describe('the error of a key', () => {
  const ofClient = inputController('goods:<input.id>', Query());
  const ofProgram = inputController('goods:<input>', Tenant());

  it('has the placeholder, and says who sent the value', async () => {
    const filter = new KeepError();
    for (const controller of [ofClient, ofProgram]) {
      const app = await startApp({ controllers: [controller], prepare: (nest) => nest.useGlobalFilters(filter) });
      expect((await app.call('/goods/1')).status).toBe(418);
    }
    expect(filter.caught).toMatchObject([
      { placeholder: { text: '<input.id>', index: 0, path: ['id'], spread: false }, byClient: true },
      { placeholder: { text: '<input>', index: 0, path: [], spread: false }, byClient: false },
    ]);
  });

  it('has the status of http.status only if the client sent the value', async () => {
    const locks = { http: { status: { LOCK_KEY: 422 } } };
    const answers: object[] = [];
    for (const controller of [ofClient, ofProgram]) {
      answers.push((await (await startApp({ controllers: [controller], locks })).call('/goods/1')).body);
    }
    expect(answers).toMatchObject([{ statusCode: 422, error: 'Unprocessable Entity' }, { statusCode: 500 }]);
  });
});

const ofUser = [418, { caught: 'LOCK_TIMEOUT' }];

describe.each(PLATFORMS)('the filter of a user on %s', (platform: Platform) => {
  it.each<[string, AppSetUp, Type]>([
    ['by useGlobalFilters()', { prepare: (nest) => nest.useGlobalFilters(new CatchAll()) }, GoodsController],
    ['as APP_FILTER of the root module', asProvider({ useClass: CatchAll }), GoodsController],
    ['as APP_FILTER by a factory', asProvider({ useFactory: () => new CatchAll() }), GoodsController],
    ['as APP_FILTER for each request', asProvider({ useClass: CatchAllOfRequest }), GoodsController],
    ['as APP_FILTER of a module after ours', { imports: [FeatureModule] }, GoodsController],
    ['as APP_FILTER of a module before ours', { lockModules: featureFirst }, GoodsController],
    ['on the controller', {}, FilteredController],
  ])('gets lock errors first, registered %s', async (way, setUp, controller) => {
    const app = await start({ platform, ...setUp }, controller);
    const routes = way === 'on the controller' ? ['locked', 'service'] : ROUTES;
    await busy(app, async () => {
      for (const route of routes) {
        const { status, body } = await app.call(`/${route}/1`);
        expect([route, status, body]).toEqual([route, ...ofUser]);
      }
    });
  });

  it.each<[string, unknown[]]>([
    ['above', [UseFilters(CatchAll), GRABBED]],
    ['below', [GRABBED, UseFilters(CatchAll)]],
  ])('gets lock errors first on the handler: %s @Locked', async (_place, decorators) => {
    const app = await start({ platform }, goodsController(decorators));
    const { status, body } = await busy(app, () => app.call('/goods/1'));
    expect([status, body]).toEqual(ofUser);
  });
});

/** As the documentation of Nest has it. */
@Catch()
class CatchEverything implements ExceptionFilter {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const status = exception instanceof HttpException ? exception.getStatus() : 500;
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), { statusCode: status }, status);
  }
}

@Catch()
class ExtendsBase extends BaseExceptionFilter {
  static seen: unknown;

  override catch(exception: unknown, host: ArgumentsHost): void {
    ExtendsBase.seen = exception;
    // oxlint-disable-next-line promise/valid-params -- the method of Nest, not that of a promise
    super.catch(exception, host);
  }
}

@Catch(HttpException)
class OfHttp implements ExceptionFilter<HttpException> {
  catch(exception: HttpException, host: ArgumentsHost): void {
    reply(host, exception.getStatus(), exception.getResponse() as object);
  }
}

class OutOfStock extends LockTimeoutError {}

const details = { resource: 'goods:1', remainingMs: 900, heldBy: 'api-7f9c-31', publicMessage: 'goods:1 is locked.' };
const busyError = new LockTimeoutError('goods:1 could not be locked: held by api-7f9c-31', details);

describe.each(PLATFORMS)('a filter that knows the exceptions of Nest on %s', (platform) => {
  const fail = async (failure: unknown): Promise<[status: number, app: TestApp]> => {
    const fails = goodsController([], () => Promise.reject(failure));
    const app = await start({ platform, ...asProvider({ useClass: ExtendsBase }) }, fails);
    return [(await app.call('/goods/1')).status, app];
  };

  it.each<[string, Type]>([
    ['a catch-all of the documentation of Nest', CatchEverything],
    ['a subclass of BaseExceptionFilter', ExtendsBase],
    ['a filter of HttpException', OfHttp],
  ])('replies 423 with Retry-After to a busy lock: %s', async (_filter, useClass) => {
    const app = await start({ platform, ...asProvider({ useClass }) });
    await busy(app, async () => {
      for (const route of ROUTES) {
        const { status, headers } = await app.call(`/${route}/1`);
        expect([route, status, headers.get('retry-after')]).toEqual([route, 423, '1']);
      }
    });
    expect(app.logged).toEqual([]);
  });

  it.each<[number, unknown]>([
    [503, new LockUnavailableError('no reply of 10.0.0.7')],
    [409, new StaleFenceError('token 1 is older than token 2')],
    [400, new LockKeyError('no key', { byClient: true })],
  ])('replies %i to errors that are not mistakes of the program', async (status, failure) => {
    const [replied, app] = await fail(failure);
    expect([replied, app.logged]).toEqual([status, []]);
  });

  it('gets a mistake of the program, and a subclass of the program, as they were thrown', async () => {
    for (const failure of [new LockConfigError('no such option'), new OutOfStock('sold out')]) {
      const [status, app] = await fail(failure);
      expect([status, ExtendsBase.seen]).toEqual([500, failure]);
      expect(app.logged).toEqual([`error ${failure.message}`]);
    }
  });

  it('gets the classes, the fields and the cause of the error, and a message for clients', async () => {
    await fail(busyError);
    const seen = ExtendsBase.seen as LockTimeoutError & HttpException;
    for (const type of [HttpException, LockTimeoutError, LockError]) expect(seen).toBeInstanceOf(type);
    expect(seen).not.toBeInstanceOf(LockUnavailableError);
    const { name, code, cause } = seen;
    expect([name, code, cause]).toEqual(['LockTimeoutError', 'LOCK_TIMEOUT', busyError]);
    expect(seen).toMatchObject({ resource: 'goods:1', remainingMs: 900, heldBy: 'api-7f9c-31' });
    expect([seen.message, seen.getStatus()]).toEqual(['goods:1 is locked by others.', 423]);
    const sent = JSON.stringify([seen, Object.entries(seen), seen.stack, seen.getResponse()]);
    expect(sent).not.toContain('api-7f9c-31');
    expect(structuredClone(seen.getResponse())).toEqual(BUSY);
  });
});

describe('several module instances', () => {
  const withOptions = (one: object, other: object): AppSetUp['lockModules'] => {
    const redis = testRedisUrl();
    return (prefix) => [
      RedisLockModule.forRoot({ redis, prefix, ...one }),
      RedisLockModule.forRoot({ redis, prefix, name: 'other', ...other }),
    ];
  };

  const http = { status: { LOCK_TIMEOUT: 409 } };

  it.each([
    [{ http }, {}],
    [{}, { http }],
    [{ http }, { http: { ...http } }],
  ])('share the options (%j, %j)', async (one, other) => {
    const app = await start({ lockModules: withOptions(one, other) });
    expect((await busy(app, () => app.call('/locked/1'))).status).toBe(409);
  });

  it('do not start with different ones', async () => {
    const started = start({ lockModules: withOptions({ http }, { http: { ...http, retryAfterMs: 2 } }) });
    await expect(started).rejects.toThrow(LockConfigError);
    await expect(started).rejects.toThrow('http differs in two RedisLockModules');
  });
});

describe('a lock that is lost', () => {
  const clock = onStoppedServer();
  let app: TestApp;
  let lock: Lock | undefined;

  const losing = (decorators: readonly unknown[]): Type =>
    goodsController(decorators, (handler, id) => {
      lock = handler.lock as Lock;
      return handler.room.stay(id);
    });
  const CAREFUL = Locked('goods:1', { ttlMs: 1_500 });

  const startLosing = async (platform: Platform, ...decorators: readonly unknown[]): Promise<void> => {
    app = await startApp({ platform, controllers: [losing(decorators)] });
  };

  /** Deletes the key, or writes another owner into it. */
  async function takeAway(by: 'deletion' | 'another holder' = 'deletion'): Promise<void> {
    const { signal } = lock as Lock;
    const aborted = once(signal, 'abort');
    const key = keyOf(app.prefix, 'goods:1');
    await (by === 'deletion' ? rawRedis().del(key) : rawRedis().set(key, 'another:1', 'PX', 60_000));
    await clock().until(aborted);
    expect(signal.reason).toBeInstanceOf(LockLostError);
  }

  const plain500 = ({ status, body }: AppResponse) =>
    expect([status, body]).toEqual([500, { statusCode: 500, message: 'Internal server error' }]);

  describe.each(PLATFORMS)('while a handler on %s runs', (platform) => {
    it.each(['deletion', 'another holder'] as const)('by %s aborts its signal at once and is a 500', async (by) => {
      await startLosing(platform, CAREFUL);
      const call = app.call('/goods/1');
      const visit = await app.room.next();
      await takeAway(by);
      expect(app.room.inside).toBe(1);
      expect(() => lock?.assertHeld()).toThrow(LockLostError);
      visit.leave();
      plain500(await call);
      expect(app.logged).toEqual([
        expect.stringMatching(/^warn .*The lock on goods:1 by .* was lost/),
        expect.stringMatching(/^error The lock on goods:1 by .* was lost/),
      ]);
      expect(app.log.count('released')).toBe(0);
      // The key of the other holder stays.
      expect(await app.isLocked('goods:1')).toBe(by === 'another holder');
      await rawRedis().del(keyOf(app.prefix, 'goods:1'));
    });

    it('logs the error of the method as its cause', async () => {
      await startLosing(platform, CAREFUL);
      const call = app.call('/goods/1');
      const visit = await app.room.next();
      await takeAway();
      visit.fail(new Error('the work failed as well'));
      plain500(await call);
      expect(app.logged.at(-1)).toMatch(/^error The lock on goods:1 by .* was lost.*the work failed as well/);
    });

    it('lets no decorator above @Locked commit', async () => {
      const commits: unknown[] = [];
      const commit = Copying(async (_self, call) => commits.push(await call()));
      await startLosing(platform, commit, CAREFUL);
      const call = app.call('/goods/1');
      const visit = await app.room.next();
      await takeAway();
      visit.leave();
      plain500(await call);
      expect(commits).toEqual([]);
    });

    it("returns the method's result with onLost: 'ignore', after its signal has aborted", async () => {
      await startLosing(platform, Locked('goods:1', { ttlMs: 1_500, onLost: 'ignore' }));
      const call = app.call('/goods/1');
      const visit = await app.room.next();
      await takeAway();
      visit.leave();
      expect(await call).toMatchObject({ status: 200, text: '1' });
    });
  });
});
