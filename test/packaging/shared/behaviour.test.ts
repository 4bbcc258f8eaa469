// What differs between Nest 10 and 11 and Nest 12, on a real Redis. The same file runs in both consumers. In Nest 10
// and 11 global interceptors and filters reach neither hybrid microservices nor gateways. Those of the handler do all.
import { randomBytes } from 'node:crypto';
import { AsyncResource } from 'node:async_hooks';
import { createServer, type AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  Body,
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  Post,
  RequestTimeoutException,
  Scope,
  Sse,
  StreamableFile,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, HttpAdapterHost, REQUEST } from '@nestjs/core';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Redis } from 'ioredis';
import {
  CurrentLock,
  InjectLockService,
  type Lock,
  lockChannels,
  Locked,
  LockService,
  memory,
  RedisLockModule,
  type StoreFactory,
} from 'nestjs-redis-lock';
import { concatMap, lastValueFrom, Observable, throwError, timeout, timer } from 'rxjs';
import { io } from 'socket.io-client';

const url = process.env.TEST_REDIS_URL ?? '';
const prefix = `behaviour_${randomBytes(6).toString('hex')}_`;

/** What a handler answers, and each interceptor that comes after it writes into. */
interface Answer {
  readonly resource: string;
  readonly token: number;
  /** `inner held`: the inner interceptor worked after the handler, and the handler's grant was still in Redis. */
  readonly after?: readonly string[];
}

interface Dto {
  readonly id: string;
}

/** Lets a test look while a handler is inside. */
class Stage {
  private readonly acts = new Map<
    string,
    { enter(): void; readonly entered: Promise<void>; leave(): void; readonly left: Promise<void> }
  >();

  /** Called by a handler: it stays until the test lets it leave. */
  play(id: string): Promise<void> {
    const act = this.of(id);
    act.enter();
    return act.left;
  }

  entered(id: string): Promise<void> {
    return this.of(id).entered;
  }

  leave(id: string): void {
    this.of(id).leave();
  }

  private of(id: string) {
    let act = this.acts.get(id);
    if (act === undefined) {
      let enter = (): void => undefined;
      let leave = (): void => undefined;
      const entered = new Promise<void>((resolve) => (enter = resolve));
      const left = new Promise<void>((resolve) => (leave = resolve));
      this.acts.set(id, (act = { enter, entered, leave, left }));
    }
    return act;
  }
}

const stage = new Stage();
const client = new Redis(url);
let rival: LockService;

/** Runs after the handler, as a transaction's commit would, and records whether the lock is held then. */
function after(name: string, next: CallHandler): Observable<unknown> {
  return next.handle().pipe(
    concatMap(async (answer: unknown) => {
      if (typeof answer !== 'object' || answer === null || !('resource' in answer)) return answer;
      await sleep(20);
      const { resource, token, after: before = [] } = answer as Answer;
      const info = await rival.inspect(resource);
      return { ...answer, after: [...before, `${name} ${info?.fencingToken === token ? 'held' : 'free'}`] };
    }),
  );
}

@Injectable()
class InnerInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return after('inner', next);
  }
}

@Injectable()
class AppInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return after('app', next);
  }
}

class UsedInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return after('used', next);
  }
}

/** Another request's context, or that of a queue which several share. */
const elsewhere = new AsyncResource('elsewhere').emitDestroy();

/** Calls what is inside of it later. */
@Injectable()
class LaterInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return timer(10).pipe(concatMap(() => next.handle()));
  }
}

/** Lets what is inside of it begin from elsewhere. */
@Injectable()
class ElsewhereInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const inside = next.handle();
    return new Observable((subscriber) => {
      setTimeout(() => elsewhere.runInAsyncScope(() => subscriber.add(inside.subscribe(subscriber))), 10);
    });
  }
}

@Injectable()
class TimeoutInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(timeout({ each: 60, with: () => throwError(() => new RequestTimeoutException()) }));
  }
}

@Injectable()
class NobodyGuard implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

/** A user's own filter for everything, in the user's own format. */
@Catch()
class CatchAllFilter implements ExceptionFilter {
  constructor(@Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost) {}

  catch(error: unknown, host: ArgumentsHost): unknown {
    if (host.getType() !== 'http') return throwError(() => ({ caughtAll: (error as { code?: string }).code }));
    const status = error instanceof HttpException ? error.getStatus() : 500;
    const body = { caughtAll: (error as Error).message, same: error === teapot };
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), body, status);
    return undefined;
  }
}

const teapot = new HttpException('I am a teapot', 418);
const file = new Map<string, PassThrough>();

@Controller('goods')
class GoodsController {
  @Locked('slow:<dto.id>', { waitMs: 0 })
  @UseInterceptors(TimeoutInterceptor)
  @Post('slow')
  async slow(@Body() dto: Dto, @CurrentLock() lock?: Lock): Promise<void> {
    lock?.signal.addEventListener('abort', () => stage.leave(`aborted ${dto.id}`));
    await stage.play(dto.id);
  }

  @Post(':id')
  @UseInterceptors(InnerInterceptor)
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(@Param('id', ParseIntPipe) _id: number, @CurrentLock() lock?: Lock): Promise<Answer> {
    return answerOf(lock);
  }

  @Locked('guarded:<id>')
  @UseGuards(NobodyGuard)
  @Post(':id/guarded')
  async guarded(@Param('id', ParseIntPipe) _id: number): Promise<void> {}

  @Locked('deferred:<id>')
  @UseInterceptors(InnerInterceptor, LaterInterceptor, ElsewhereInterceptor)
  @Post(':id/deferred')
  async deferred(@Param('id') _id: string, @CurrentLock() lock?: Lock): Promise<Answer> {
    return answerOf(lock);
  }

  @Get(':id/file')
  @Locked('file:<id>', { waitMs: 0 })
  async file(@Param('id') id: string): Promise<StreamableFile> {
    const body = new PassThrough();
    file.set(id, body);
    body.write('first');
    return new StreamableFile(body);
  }

  @Sse(':id/prices')
  @Locked('prices:<id>', { waitMs: 0 })
  prices(@Param('id') id: string): Observable<{ data: string }> {
    return new Observable((subscriber) => {
      subscriber.next({ data: 'cheap' });
      stage.play(id).then(
        () => subscriber.complete(),
        () => undefined,
      );
    });
  }

  @Sse(':id/patient')
  @Locked('patient:<id>')
  patient(@Param('id') _id: string): Observable<{ data: string }> {
    return new Observable();
  }

  @Post(':id/teapot')
  @Locked('teapot:<id>')
  async teapot(@Param('id') _id: string): Promise<never> {
    throw teapot;
  }
}

@Injectable({ scope: Scope.REQUEST })
class Basket {
  constructor(@Inject(REQUEST) private readonly request: { url: string }) {}

  @Locked('basket:<id>')
  async fill(id: string, @CurrentLock() lock?: Lock): Promise<Answer & { url: string }> {
    return { ...answerOf(lock), url: `${this.request.url} ${id}` };
  }
}

@Controller({ path: 'baskets', scope: Scope.REQUEST })
class BasketController {
  constructor(private readonly basket: Basket) {}

  @Post(':id')
  @Locked('shelf:<id>')
  async fill(@Param('id') id: string, @CurrentLock() lock?: Lock) {
    return { ...answerOf(lock), basket: await this.basket.fill(id) };
  }
}

@Controller()
class GoodsMessages {
  @MessagePattern('buy')
  @UseInterceptors(InnerInterceptor)
  @Locked('message:<dto.id>', { waitMs: 0 })
  async buy(@Payload() dto: Dto, @CurrentLock() lock?: Lock): Promise<Answer> {
    await stage.play(dto.id);
    return answerOf(lock);
  }
}

@WebSocketGateway()
class GoodsGateway {
  @SubscribeMessage('buy')
  @UseInterceptors(InnerInterceptor)
  @Locked('socket:<dto.id>', { waitMs: 0 })
  async buy(@MessageBody() dto: Dto, @CurrentLock() lock?: Lock): Promise<Answer> {
    await stage.play(dto.id);
    return answerOf(lock);
  }
}

function answerOf(lock: Lock | undefined): Answer {
  lock?.assertHeld();
  return { resource: lock?.resource ?? 'none', token: lock?.fencingToken ?? 0 };
}

@Injectable()
class Settings {
  readonly redis = client;
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

/** Stands before the lock's module, so that its interceptor is registered first. */
@Module({ providers: [{ provide: APP_INTERCEPTOR, useClass: AppInterceptor }] })
class InterceptingModule {}

@Module({
  imports: [
    InterceptingModule,
    RedisLockModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: async ({ redis }: Settings) => ({ redis, prefix, ttlMs: 20_000, shutdownGraceMs: 2_000 }),
    }),
    RedisLockModule.forRoot({ name: 'rival', redis: url, prefix }),
  ],
  controllers: [GoodsController, BasketController, GoodsMessages],
  providers: [GoodsGateway, Basket],
})
class AppModule {
  constructor(
    readonly locks: LockService,
    @InjectLockService('rival') readonly others: LockService,
  ) {}
}

/** How often the application got a lock on it. */
const grants: string[] = [];
const onGrant = (event: unknown): void => {
  const { resource, instance } = event as { resource: string; instance: string };
  if (instance === 'default') grants.push(resource);
};
const grantsOf = (resource: string): number => grants.filter((granted) => granted === resource).length;

const isFree = async (resource: string): Promise<boolean> => (await rival.inspect(resource)) === null;

async function untilFree(resource: string): Promise<void> {
  const lock = await rival.acquire(resource, { waitMs: 5_000 });
  await lock.release();
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

let app: INestApplication;
let address: string;
/** The ports of two hybrid microservices. The second has the application's global interceptors and filters. */
const ports = { plain: 0, inheriting: 0 };

beforeAll(async () => {
  lockChannels.granted.subscribe(onGrant);
  ports.plain = await freePort();
  ports.inheriting = await freePort();
  const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = testing.createNestApplication({ logger: ['fatal'] });
  app.useGlobalInterceptors(new UsedInterceptor());
  const options = (port: number) => ({ transport: Transport.TCP, options: { host: '127.0.0.1', port } }) as const;
  app.connectMicroservice(options(ports.plain));
  app.connectMicroservice(options(ports.inheriting), { inheritAppConfig: true });
  rival = app.get(AppModule).others;
  await app.startAllMicroservices();
  await app.listen(0, '127.0.0.1');
  address = await app.getUrl();
});

afterAll(async () => {
  lockChannels.granted.unsubscribe(onGrant);
  await app?.close();
  await client.quit();
});

const post = async (path: string, body?: object) => {
  const response = await fetch(`${address}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>,
  };
};

describe('a controller', () => {
  it('is locked by what its pipes made of the arguments, and while all interceptors do their work', async () => {
    const { status, body } = await post('goods/0300');
    expect(status).toBe(201);
    expect(body).toMatchObject({ resource: 'goods:300', after: ['inner held', 'used held', 'app held'] });
    expect(grantsOf('goods:300')).toBe(1);
    expect(await isFree('goods:300')).toBe(true);
  });

  it('answers 423 with Retry-After while others hold the lock', async () => {
    const lock = await rival.acquire('goods:301', { ttlMs: 10_000 });
    const { status, headers, body } = await post('goods/301');
    await lock.release();
    expect([status, headers.get('retry-after')]).toEqual([423, '1']);
    expect(body).toMatchObject({ statusCode: 423, code: 'LOCK_TIMEOUT' });
    expect((await post('goods/301')).status).toBe(201);
  });

  it('takes no lock where a guard or a pipe refuses', async () => {
    const before = grants.length;
    expect((await post('goods/302/guarded')).status).toBe(403);
    expect((await post('goods/three')).status).toBe(400);
    expect(grants.length).toBe(before);
  });

  it('keeps its lock through inner interceptors that call it later and from elsewhere', async () => {
    const { body } = await post('goods/304/deferred');
    expect(body).toMatchObject({ resource: 'deferred:304', after: ['inner held', 'used held', 'app held'] });
    expect(grantsOf('deferred:304')).toBe(1);
  });

  it('keeps its lock after a timeout for as long as the method is inside', async () => {
    expect((await post('goods/slow', { id: '305' })).status).toBe(408);
    await stage.play('aborted 305');
    expect(await rival.tryAcquire('slow:305')).toBeNull();
    expect((await post('goods/slow', { id: '305' })).status).toBe(423);
    stage.leave('305');
    await untilFree('slow:305');
  });

  it('keeps its lock until the file is sent', async () => {
    const response = await fetch(`${address}/goods/306/file`);
    expect(response.status).toBe(200);
    await sleep(50);
    expect(await isFree('file:306')).toBe(false);
    file.get('306')?.end(' and last');
    expect(await response.text()).toBe('first and last');
    await untilFree('file:306');
  });

  it('releases its lock when the file is no longer read', async () => {
    const hangUp = new AbortController();
    const response = await fetch(`${address}/goods/307/file`, { signal: hangUp.signal });
    expect(response.status).toBe(200);
    expect(await isFree('file:307')).toBe(false);
    hangUp.abort();
    await untilFree('file:307');
  });

  it('keeps its lock for all server-sent events', async () => {
    const response = await fetch(`${address}/goods/308/prices`);
    await stage.entered('308');
    expect(await rival.tryAcquire('prices:308')).toBeNull();
    stage.leave('308');
    expect(await response.text()).toContain('data: cheap');
    await untilFree('prices:308');
  });

  it('sends an error event while others hold the lock of server-sent events', async () => {
    await rival.using('prices:308', async () => {
      const response = await fetch(`${address}/goods/308/prices`);
      expect(await response.text()).toContain('data: prices:308 is locked by others.');
    });
  });

  it('gives up the wait for its lock when the listener to server-sent events hangs up', async () => {
    const lock = await rival.acquire('patient:308');
    const hangUp = new AbortController();
    const listening = fetch(`${address}/goods/308/patient`, { signal: hangUp.signal }).catch(() => 'hung up');
    while ((await rival.inspect('patient:308'))?.waiting.length !== 1) await sleep(5);
    hangUp.abort();
    expect(await listening).toBe('hung up');
    while ((await rival.inspect('patient:308'))?.waiting.length !== 0) await sleep(5);
    await lock.release();
    expect(grantsOf('patient:308')).toBe(0);
  });

  it('lets its lock go when the listener to server-sent events hangs up', async () => {
    const hangUp = new AbortController();
    await fetch(`${address}/goods/309/prices`, { signal: hangUp.signal });
    await stage.entered('309');
    expect(await isFree('prices:309')).toBe(false);
    hangUp.abort();
    await untilFree('prices:309');
    expect(grantsOf('prices:309')).toBe(1);
  });

  it('and its provider may live for one request only', async () => {
    const { body } = await post('baskets/310');
    expect(body).toMatchObject({ resource: 'shelf:310', after: ['used held', 'app held'] });
    expect(body.basket).toMatchObject({ resource: 'basket:310', url: '/baskets/310 310' });
    expect([grantsOf('shelf:310'), grantsOf('basket:310')]).toEqual([1, 1]);
  });
});

describe.each<[keyof typeof ports, string[]]>([
  ['plain', ['inner held']],
  ['inheriting', ['inner held', 'used held', 'app held']],
])('a handler of a hybrid microservice (%s)', (kind, afterwards) => {
  const send = async (id: string): Promise<unknown> => {
    const proxy = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: ports[kind] },
    });
    try {
      return await lastValueFrom(proxy.send<unknown>('buy', { id }));
    } catch (error) {
      return { error };
    } finally {
      await proxy.close();
    }
  };

  it('is locked, its own interceptors included', async () => {
    const resource = `message:${kind}`;
    const answer = send(kind);
    await stage.entered(kind);
    expect(await rival.tryAcquire(resource)).toBeNull();
    const refused = await send(kind);
    expect(refused).toMatchObject({
      error: { status: 'error', code: 'LOCK_TIMEOUT', retryAfterMs: expect.any(Number) },
    });
    stage.leave(kind);
    expect(await answer).toMatchObject({ resource, after: afterwards });
    expect(grantsOf(resource)).toBe(1);
    expect(await isFree(resource)).toBe(true);
  });
});

describe('a gateway', () => {
  it('is locked, its own interceptors included', async () => {
    const socket = io(address, { transports: ['websocket'] });
    const bought: Promise<unknown> = socket.emitWithAck('buy', { id: '1' });
    const refused = new Promise<unknown>((resolve) => socket.once('exception', resolve));
    await stage.entered('1');
    expect(await rival.tryAcquire('socket:1')).toBeNull();
    socket.emit('buy', { id: '1' });
    expect(await refused).toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT', retryAfterMs: expect.any(Number) });
    stage.leave('1');
    expect(await bought).toMatchObject({ resource: 'socket:1', after: ['inner held'] });
    expect(grantsOf('socket:1')).toBe(1);
    socket.close();
    // A gateway answers with the first value, and ends afterwards.
    await untilFree('socket:1');
  });
});

describe('a filter of the user that catches all', () => {
  let filtered: INestApplication;
  let port: number;
  beforeAll(async () => {
    port = await freePort();
    const testing = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ redis: url, prefix })],
      controllers: [GoodsController, GoodsMessages],
      providers: [{ provide: APP_FILTER, useClass: CatchAllFilter }],
    }).compile();
    filtered = testing.createNestApplication({ logger: ['fatal'] });
    filtered.connectMicroservice(
      { transport: Transport.TCP, options: { host: '127.0.0.1', port } },
      { inheritAppConfig: true },
    );
    await filtered.startAllMicroservices();
    await filtered.listen(0, '127.0.0.1');
  });
  afterAll(() => filtered?.close());

  const call = async (path: string, method = 'POST') => {
    const response = await fetch(`${await filtered.getUrl()}/goods/${path}`, { method });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  it("gets the method's own exception as it is", async () => {
    expect(await call('303/teapot')).toEqual({ status: 418, body: { caughtAll: 'I am a teapot', same: true } });
    expect(await isFree('teapot:303')).toBe(true);
  });

  it('gets the error of a busy lock', async () => {
    const resource = 'goods:301';
    const { status, body } = await rival.using(resource, () => call('301', 'POST'));
    expect(status).toBe(423);
    expect(body.caughtAll).toBe(`${resource} is locked by others.`);
  });

  it('gets the error of a busy lock of a message', async () => {
    const proxy = ClientProxyFactory.create({ transport: Transport.TCP, options: { host: '127.0.0.1', port } });
    const sent = rival.using('message:301', () => lastValueFrom(proxy.send<unknown>('buy', { id: '301' })));
    await expect(sent).rejects.toEqual({ caughtAll: 'LOCK_TIMEOUT' });
    await proxy.close();
  });
});

describe('shutting down', () => {
  it('lets work finish, refuses new work, and leaves nothing locked', async () => {
    const testing = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ redis: client, prefix, shutdownGraceMs: 500 })],
    }).compile();
    await testing.init();
    const locks = testing.get(LockService);
    let working = true;
    const work = locks.using('shutdown:1', async (lock) => {
      await sleep(200);
      lock.assertHeld();
      working = false;
    });
    await locks.acquire('shutdown:2');
    const closing = testing.close();
    await sleep(20);
    expect(locks.isShuttingDown).toBe(true);
    await work;
    expect(working).toBe(false);
    await closing;
    await expect(locks.acquire('shutdown:3')).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
    const resources = ['shutdown:1', 'shutdown:2', 'shutdown:3'];
    expect(await Promise.all(resources.map(isFree))).toEqual([true, true, true]);
    expect(client.status).toBe('ready');
  });
});

describe('a class whose module has a store of its own, beside a global one', () => {
  const exclusiveOnly: StoreFactory = (context) => {
    const store = memory()(context);
    return Object.create(store, { capabilities: { value: { ...store.capabilities, modes: ['exclusive'] } } });
  };

  @Injectable()
  class Reports {
    @Locked('report:<id>', { mode: 'shared' })
    async read(id: number): Promise<number> {
      return id;
    }
  }

  const startWith = async (own: StoreFactory, global: StoreFactory): Promise<INestApplication> => {
    @Module({ imports: [RedisLockModule.forRoot({ store: own, isGlobal: false })], providers: [Reports] })
    class ReportsModule {}
    const imports = [RedisLockModule.forRoot({ store: global }), ReportsModule];
    return (await Test.createTestingModule({ imports }).compile()).createNestApplication().init();
  };

  it('starts if its own store has the mode', async () => {
    const started = await startWith(memory(), exclusiveOnly);
    expect(await started.get(Reports, { strict: false }).read(300)).toBe(300);
    await started.close();
  });

  it('does not start if it has not, whatever the global one has', async () => {
    await expect(startWith(exclusiveOnly, memory())).rejects.toThrow('Reports.read');
  });
});
