import { once } from 'node:events';
import { Agent, get, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  type ArgumentsHost,
  type CallHandler,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Header,
  HttpCode,
  Injectable,
  type NestInterceptor,
  NotFoundException,
  Param,
  ParseIntPipe,
  Res,
  Scope,
  Sse,
  SseSignal,
  UseGuards,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockScope } from 'nestjs-redis-lock';
import { map, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { RawRequest } from './support/raw-request.js';
import { Foreign } from './support/wrappers.js';

interface Message {
  readonly data: string;
}

/** Keeps requests waiting until the test lets them pass. */
class SlowGuard {
  readonly entered = deferred();
  readonly passing = deferred();

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const response = context.switchToHttp().getResponse<ServerResponse & { raw?: ServerResponse }>();
    const closed = once(response.raw ?? response, 'close');
    this.entered.resolve();
    await this.passing.promise;
    await closed;
    return true;
  }
}

let slow = new SlowGuard();

@Controller('stock')
class StockController {
  @Sse('guarded/:id')
  @UseGuards({ canActivate: (context: ExecutionContext) => slow.canActivate(context) })
  @Locked('goods:<id>')
  async guarded(@Param('id') _id: string): Promise<Observable<Message>> {
    this.subscribed.resolve();
    return NEVER;
  }

  readonly prices = new Subject<Message>();
  subscribed: Deferred<void> = deferred();
  began: Deferred<AbortSignal> = deferred();

  @Sse('observable/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  observable(@Param('id') _id: string): Observable<Message> {
    return this.feed();
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Sse('promised/:id')
  async promised(@Param('id') _id: string): Promise<Observable<Message>> {
    return this.feed();
  }

  @Locked('goods:<id>')
  @Sse('patient/:id')
  patient(@Param('id') _id: string): Observable<Message> {
    return this.feed();
  }

  @Sse('missing/:id')
  @Locked('goods:<id>')
  async missing(@Param('id', ParseIntPipe) id: number): Promise<Observable<Message>> {
    throw new NotFoundException(`no goods ${id}`);
  }

  @Sse('failing/:id')
  @Locked('goods:<id>')
  failing(@Param('id') id: string): Observable<Message> {
    return throwError(() => new NotFoundException(`no goods ${id}`));
  }

  @Sse('skipped/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: () => of({ data: 'sold out' }) })
  skipped(@Param('id') _id: string): Observable<Message> {
    return this.feed();
  }

  @Sse('signal/:id')
  @Locked('goods:<id>')
  async signal(@Param('id') _id: string, @SseSignal() signal: AbortSignal): Promise<Observable<Message>> {
    this.began.resolve(signal);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return NEVER;
  }

  @Sse('decorated/:id')
  @HttpCode(203)
  @Header('x-shop', 'corner')
  @Locked('goods:<id>')
  decorated(
    @Param('id') id: string,
    @Res({ passthrough: true }) response: { header?(name: string, value: string): void },
  ): Observable<Message> {
    response.header?.('x-goods', id);
    return of({ data: id });
  }

  @LockScope()
  @Sse('scoped')
  scoped(): Observable<Message> {
    return this.feed();
  }

  @LockScope()
  @Sse('scoped-throwing')
  scopedThrowing(): Observable<Message> {
    throw new NotFoundException('no goods');
  }

  @Sse('scoped-rejecting')
  @LockScope()
  @Foreign()
  scopedRejecting(): Observable<Message> {
    throw new NotFoundException('no goods');
  }

  private feed(): Observable<Message> {
    return new Observable((subscriber) => {
      this.subscribed.resolve();
      return this.prices.subscribe(subscriber);
    });
  }
}

@Controller({ path: 'requests', scope: Scope.REQUEST })
class RequestController {
  @Sse(':id')
  @Locked('goods:<id>', { waitMs: 0 })
  observable(@Param('id') id: string): Observable<Message> {
    return of({ data: id });
  }
}

@Controller('heirs')
class HeirController extends StockController {}

@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: Error, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>();
    response.status(418).send({ caught: error.name });
  }
}

@Injectable()
class Shout implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((message) => ({ data: (message as Message).data.toUpperCase() })));
  }
}

const BUSY = { statusCode: 423, code: 'LOCK_TIMEOUT', message: 'goods:1 is locked by others.', error: 'Locked' };

afterEach(closeApps);

describe.each(PLATFORMS)('an @Sse handler on %s', (platform) => {
  let app: TestApp;
  let controller: StockController;

  const start = async (setUp: AppSetUp = {}): Promise<void> => {
    const controllers = [StockController, RequestController, HeirController];
    app = await startApp({ platform, controllers, ...setUp });
    controller = app.nest.get(StockController);
  };
  beforeEach(() => start());

  /** Holds the lock in another instance: an instance refuses a lock of its own without asking Redis. */
  const whileBusy = async (work: () => Promise<void>): Promise<void> => {
    const other = await startApp({ prefix: app.prefix });
    await other.locks.using('goods:1', work);
  };

  it.each(['stock/observable', 'stock/promised', 'heirs/observable', 'requests'])(
    'of a busy lock is a 423 with Retry-After (%s)',
    async (path) => {
      await whileBusy(async () => {
        const { status, headers, body } = await app.call(`/${path}/1`);
        expect([status, headers.get('retry-after'), body]).toEqual([423, '1', BUSY]);
        expect(headers.get('content-type')).toContain('application/json');
      });
      expect(app.logged).toEqual([]);
    },
  );

  it.each(['observable', 'promised'])('begins the response when it has its lock (%s)', async (route) => {
    const response = await fetch(`${app.url}/stock/${route}/1`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    await controller.subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(true);
    controller.prices.next({ data: 'cheap' });
    controller.prices.complete();
    expect(await response.text()).toContain('data: cheap');
    await app.log.until('released goods:1');
    expect(app.log.count('granted goods:1')).toBe(1);
  });

  it('with a @LockScope begins the response before its first event', async () => {
    const response = await fetch(`${app.url}/stock/scoped`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    await controller.subscribed.promise;
    controller.prices.complete();
    await response.text();
  });

  it.each(['scoped-throwing', 'scoped-rejecting'])(
    'with a @LockScope is a 404 if its method fails (%s)',
    async (path) => {
      expect((await app.call(`/stock/${path}`)).body).toMatchObject({ statusCode: 404, message: 'no goods' });
    },
  );

  it('waits for its lock before the response begins', async () => {
    const holder = await app.locks.acquire('goods:1');
    const response = fetch(`${app.url}/stock/patient/1`);
    await app.log.until('requested goods:1', 2);
    await holder.release();
    expect((await response).status).toBe(200);
    await controller.subscribed.promise;
    controller.prices.complete();
    await (await response).text();
    await app.log.until('released goods:1', 2);
  });

  it('stops waiting for its lock if the client leaves', async () => {
    const holder = await app.locks.acquire('goods:1');
    const client = new RawRequest(`${app.url}/stock/patient/1`);
    await app.log.until('requested goods:1', 2);
    client.hangUp();
    await app.log.until('refused goods:1');
    await holder.release();
    expect(app.log.count('granted goods:1')).toBe(1);
  });

  it('takes no lock if the client left during a guard', async () => {
    slow = new SlowGuard();
    const client = new RawRequest(`${app.url}/stock/guarded/1`);
    await slow.entered.promise;
    client.hangUp();
    slow.passing.resolve();
    // By the end of the next request, the one before has come as far as it can.
    await app.call('/stock/failing/2');
    expect(app.log.count('requested goods:1')).toBe(0);
  });

  it('is a 404 if its method fails before it returns an Observable, and a 400 if a pipe does', async () => {
    expect((await app.call('/stock/missing/7')).body).toMatchObject({ statusCode: 404, message: 'no goods 7' });
    await app.log.until('released goods:7');
    expect((await app.call('/stock/missing/seven')).status).toBe(400);
    expect(app.log.count(/requested/)).toBe(1);
  });

  it('releases the lock if its Observable fails', async () => {
    expect((await app.call('/stock/failing/7')).text).toContain('no goods 7');
    await app.log.until('released goods:7');
  });

  it('sends what onBusy returns', async () => {
    await whileBusy(async () => {
      const { status, text } = await app.call('/stock/skipped/1');
      expect([status, text]).toEqual([200, expect.stringContaining('data: sold out')]);
    });
  });

  it('gets an aborted @SseSignal() if the client leaves during its setup', async () => {
    const client = new RawRequest(`${app.url}/stock/signal/1`);
    const signal = await controller.began.promise;
    expect(signal.aborted).toBe(false);
    client.hangUp();
    await app.log.until('released goods:1');
    expect(signal.aborted).toBe(true);
  });

  it('keeps its status and headers, and its connection serves the next request', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const call = async (id: number): Promise<unknown[]> => {
      const response = await new Promise<IncomingMessage>((resolve) => {
        get(`${app.url}/stock/decorated/${id}`, { agent }, resolve);
      });
      const text = Buffer.concat(await response.toArray()).toString();
      return [
        response.statusCode,
        response.headers['x-shop'],
        response.headers['x-goods'],
        text.includes(`data: ${id}`),
      ];
    };
    expect(await call(1)).toEqual([203, 'corner', '1', true]);
    expect(await call(2)).toEqual([203, 'corner', '2', true]);
    agent.destroy();
    expect(app.logged).toEqual([]);
  });

  it("passes through the user's filters and interceptors", async () => {
    const prepare: AppSetUp['prepare'] = (nest) =>
      nest.useGlobalFilters(new CatchAll()).useGlobalInterceptors(new Shout());
    await start({ prepare });
    await whileBusy(async () => {
      const { status, body } = await app.call('/stock/observable/1');
      expect([status, body]).toEqual([418, { caught: 'LockTimeoutError' }]);
    });
    expect((await app.call('/requests/cheap')).text).toContain('data: CHEAP');
  });
});

it.each(PLATFORMS)('an @Sse handler without Redis is a 503 with Retry-After on %s', async (platform) => {
  const proxy = await RedisProxy.start(testRedisUrl());
  await proxy.refuseConnections();
  const locks = { redis: proxy.url, requestTimeoutMs: 100 };
  const app = await startApp({ platform, controllers: [StockController], locks });
  const { status, headers, body } = await app.call('/stock/observable/1');
  expect([status, headers.get('retry-after'), body.code]).toEqual([503, '1', 'LOCK_UNAVAILABLE']);
  await app.close();
  await proxy.close();
});
