import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Get,
  HttpException,
  Injectable,
  Module,
  Param,
  type Provider,
  Scope,
  type Type,
  UseFilters,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  getLockServiceToken,
  LockConfigError,
  Locked,
  LockError,
  LockKeyError,
  LockTimeoutError,
  LockUnavailableError,
  RedisLockModule,
} from 'nestjs-redis-lock';
import { StaleFenceError } from 'nestjs-redis-lock/fence';
import { lastValueFrom, throwError } from 'rxjs';
import { io } from 'socket.io-client';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, type Platform, PLATFORMS, startApp, type TestApp } from './support/app.js';

/** A company's format of errors. */
function reply(error: LockError, host: ArgumentsHost): unknown {
  const response = { caught: error.code, by: 'user' };
  const type = host.getType<string>();
  if (type === 'rpc') return throwError(() => response);
  if (type === 'ws')
    return host.switchToWs().getClient<{ emit(...args: unknown[]): void }>().emit('exception', response);
  const http = host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>();
  return void http.status(418).send(response);
}

@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: LockError, host: ArgumentsHost): unknown {
    return reply(error, host);
  }
}

@Catch()
@Injectable({ scope: Scope.REQUEST })
class CatchAllOfRequest extends CatchAll {}

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(id: string): Promise<string> {
    return id;
  }
}

@Controller()
class GoodsController {
  constructor(private readonly goods: GoodsService) {}

  @Get('locked/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async locked(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string> {
    return this.goods.buy(id);
  }

  @MessagePattern('locked')
  @Locked('goods:<id>', { waitMs: 0 })
  async message(@Payload() id: string): Promise<string> {
    return id;
  }
}

@Controller('plain')
class PlainController {
  constructor(private readonly goods: GoodsService) {}

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string> {
    return this.goods.buy(id);
  }
}

@UseFilters(CatchAll)
@Controller()
class FilteredController extends GoodsController {}

@WebSocketGateway({ transports: ['websocket'] })
class GoodsGateway {
  @SubscribeMessage('locked')
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(@MessageBody() id: string): Promise<string> {
    return id;
  }
}

@UseFilters(CatchAll)
@WebSocketGateway({ transports: ['websocket'] })
class FilteredGateway extends GoodsGateway {}

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

async function busy<T>(app: TestApp, work: () => Promise<T>): Promise<T> {
  return app.locks.using('goods:1', work);
}

const ofUser = [418, { caught: 'LOCK_TIMEOUT', by: 'user' }];
const ofUs = [423, expect.objectContaining({ code: 'LOCK_TIMEOUT' })];

describe.each(PLATFORMS)('the filter of a user on %s', (platform: Platform) => {
  it.each<[string, AppSetUp, Type]>([
    ['by useGlobalFilters()', { prepare: (nest) => nest.useGlobalFilters(new CatchAll()) }, GoodsController],
    ['as APP_FILTER of the root module', asProvider({ useClass: CatchAll }), GoodsController],
    [
      'as APP_FILTER by a factory',
      asProvider({ inject: [HttpAdapterHost], useFactory: () => new CatchAll() }),
      GoodsController,
    ],
    ['as APP_FILTER for each request', asProvider({ useClass: CatchAllOfRequest }), GoodsController],
    ['as APP_FILTER of a module after ours', { imports: [FeatureModule] }, GoodsController],
    ['as APP_FILTER of a module before ours', { lockModules: featureFirst }, GoodsController],
    ['on the controller', {}, FilteredController],
  ])('gets lock errors first, registered %s', async (way, setUp, controller) => {
    const app = await start({ platform, ...setUp }, controller);
    const routes = way === 'on the controller' ? ['locked', 'service'] : ['locked', 'service', 'plain/service'];
    await busy(app, async () => {
      for (const route of routes) {
        const { status, body } = await app.call(`/${route}/1`);
        expect([route, status, body]).toEqual([route, ...ofUser]);
      }
    });
  });

  it('gets none if Nest does not ask it: useGlobalFilters() after init()', async () => {
    const prepare: AppSetUp['prepare'] = async (nest) => (await nest.init()).useGlobalFilters(new CatchAll());
    const app = await start({ platform, prepare });
    const { status, body } = await busy(app, () => app.call('/locked/1'));
    expect([status, body]).toEqual(ofUs);
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
    const response = host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>();
    response.status(exception.getStatus()).send(exception.getResponse() as object);
  }
}

class OutOfStock extends LockTimeoutError {}

@Controller()
class FailingController extends GoodsController {
  static failure: unknown;

  @Get('fail/:id')
  fail(@Param('id') _id: string): never {
    throw FailingController.failure;
  }
}

const details = { resource: 'goods:1', remainingMs: 900, heldBy: 'api-7f9c-31', publicMessage: 'goods:1 is locked.' };
const busyError = new LockTimeoutError('goods:1 could not be locked: held by api-7f9c-31', details);

describe.each(PLATFORMS)('a filter that knows the exceptions of Nest on %s', (platform) => {
  const fail = async (failure: unknown, filter: Type = ExtendsBase): Promise<[status: number, app: TestApp]> => {
    FailingController.failure = failure;
    const app = await start({ platform, ...asProvider({ useClass: filter }) }, FailingController);
    return [(await app.call('/fail/1')).status, app];
  };

  it.each<[string, Type]>([
    ['a catch-all of the documentation of Nest', CatchEverything],
    ['a subclass of BaseExceptionFilter', ExtendsBase],
    ['a filter of HttpException', OfHttp],
  ])('replies 423 with Retry-After to a busy lock: %s', async (_filter, useClass) => {
    const app = await start({ platform, ...asProvider({ useClass }) });
    await busy(app, async () => {
      for (const route of ['locked', 'service', 'plain/service']) {
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
    expect([HttpException, LockTimeoutError, LockError].map((type) => seen instanceof type)).toEqual([
      true,
      true,
      true,
    ]);
    expect(seen).not.toBeInstanceOf(LockUnavailableError);
    const { name, code, resource, remainingMs, heldBy, cause } = seen;
    expect({ name, code, resource, remainingMs, heldBy }).toEqual({
      name: 'LockTimeoutError',
      code: 'LOCK_TIMEOUT',
      resource: 'goods:1',
      remainingMs: 900,
      heldBy: 'api-7f9c-31',
    });
    expect(cause).toBe(busyError);
    expect([seen.message, seen.getStatus()]).toEqual(['goods:1 is locked by others.', 423]);
    const sent = [
      JSON.stringify(seen),
      JSON.stringify(Object.entries(seen)),
      seen.stack,
      JSON.stringify(seen.getResponse()),
    ];
    expect(sent.join()).not.toContain('api-7f9c-31');
    expect(structuredClone(seen.getResponse())).toEqual({
      statusCode: 423,
      code: 'LOCK_TIMEOUT',
      message: 'goods:1 is locked by others.',
      error: 'Locked',
    });
  });

  it('may change the error before it passes the error on', async () => {
    await fail(busyError);
    const seen = ExtendsBase.seen as LockTimeoutError & HttpException;
    Object.assign(seen, { message: 'Please try again.', cause: undefined });
    Reflect.deleteProperty(seen, 'stack');
    expect([seen.message, seen.cause, seen.stack]).toEqual(['Please try again.', undefined, undefined]);
  });
});

describe('without a filter of the user', () => {
  it.each(['locked', 'service', 'plain/service'])('a busy lock is a 423 (%s)', async (route) => {
    const app = await start();
    const { status, body } = await busy(app, () => app.call(`/${route}/1`));
    expect([status, body]).toEqual(ofUs);
  });
});

describe('a message of a microservice', () => {
  const overTcp = { transport: Transport.TCP, options: { port: 0, host: '127.0.0.1' } } as const;

  async function send(app: TestApp): Promise<unknown> {
    const server = app.nest.getMicroservices()[0].unwrap<Server>();
    if (!server.listening) await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options: { port, host: '127.0.0.1' } });
    try {
      return await busy(app, () => lastValueFrom(client.send('locked', '1')).catch((error: unknown) => error));
    } finally {
      await client.close();
    }
  }

  const startHybrid = (inheritAppConfig: boolean, setUp: AppSetUp = {}, controller?: Type) =>
    start(
      {
        ...setUp,
        prepare: async (nest) => {
          nest.connectMicroservice(overTcp, { inheritAppConfig });
          await nest.startAllMicroservices();
        },
      },
      controller,
    );
  const global = asProvider({ useClass: CatchAll });

  it.each([
    ['the user, by a global filter', true, global, GoodsController, { caught: 'LOCK_TIMEOUT', by: 'user' }],
    ['the user, by a filter on the class', true, {}, FilteredController, { caught: 'LOCK_TIMEOUT', by: 'user' }],
    ['the user, by a filter on the class', false, {}, FilteredController, { caught: 'LOCK_TIMEOUT', by: 'user' }],
    ['us', true, {}, GoodsController, { status: 'error', code: 'LOCK_TIMEOUT', retryAfterMs: 1000 }],
    ['us', false, global, GoodsController, { status: 'error', code: 'LOCK_TIMEOUT', retryAfterMs: 1000 }],
  ])('is handled by %s (inheritAppConfig: %p)', async (_who, inherit, setUp, controller, expected) => {
    expect(await send(await startHybrid(inherit, setUp, controller))).toMatchObject(expected);
  });
});

describe('a message of a gateway', () => {
  async function send(app: TestApp): Promise<unknown> {
    const socket = io(app.url, { transports: ['websocket'], reconnection: false });
    await once(socket as never, 'connect');
    const exception = once(socket as never, 'exception');
    const [payload] = (await busy(app, async () => {
      socket.emit('locked', '1');
      return exception;
    })) as unknown[];
    socket.disconnect();
    return payload;
  }

  it('is handled by a filter on the class first', async () => {
    const app = await startApp({ providers: [FilteredGateway] });
    expect(await send(app)).toEqual({ caught: 'LOCK_TIMEOUT', by: 'user' });
  });

  it('is handled by us, because Nest has no global filters for gateways', async () => {
    const app = await startApp({ providers: [GoodsGateway, { provide: APP_FILTER, useClass: CatchAll }] });
    expect(await send(app)).toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT', retryAfterMs: 1000 });
  });
});

describe.each(PLATFORMS)('the options on %s', (platform) => {
  it('http.status maps a code, and http.retryAfterMs is rounded up to seconds', async () => {
    const app = await start({ platform, locks: { http: { status: { LOCK_TIMEOUT: 409 }, retryAfterMs: 1_500 } } });
    const { status, headers, body } = await busy(app, () => app.call('/locked/1'));
    expect([status, headers.get('retry-after')]).toEqual([409, '2']);
    expect(body).toEqual({
      statusCode: 409,
      code: 'LOCK_TIMEOUT',
      message: 'goods:1 is locked by others.',
      error: 'Conflict',
    });
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

  it.each([
    [{ http: { status: { LOCK_TIMEOUT: 409 } } }, {}],
    [{}, { http: { status: { LOCK_TIMEOUT: 409 } } }],
  ])('share the options of one of them (%j, %j)', async (one, other) => {
    const app = await start({ lockModules: withOptions(one, other) });
    expect(app.nest.get(getLockServiceToken('other'))).toBeDefined();
    expect((await busy(app, () => app.call('/locked/1'))).status).toBe(409);
  });

  it.each([
    ['http.retryAfterMs', { retryAfterMs: 1 }, { retryAfterMs: 2 }],
    ['http.status.LOCK_TIMEOUT', { status: { LOCK_TIMEOUT: 409 } }, { status: { LOCK_TIMEOUT: 429 } }],
  ])('do not start with two values of %s', async (option, one, other) => {
    const started = start({ lockModules: withOptions({ http: one }, { http: other }) });
    await expect(started).rejects.toThrow(LockConfigError);
    await expect(started).rejects.toThrow(option);
  });
});
