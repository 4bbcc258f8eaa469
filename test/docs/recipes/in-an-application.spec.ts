import { once } from 'node:events';
import { EventEmitter2, EventEmitterModule } from '@nestjs/event-emitter';
import { APP_FILTER, APP_GUARD, ContextIdFactory } from '@nestjs/core';
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Inject,
  Injectable,
  type INestApplication,
  Logger,
  type ModuleMetadata,
} from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  Locked,
  LockService,
  LockUnavailableError,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { Pool } from 'pg';
import { io } from 'socket.io-client';
import { eventually } from '../../support/async.js';
import { ByTenant, PriceList } from '../../support/durable-provider.js';
import { CartService } from '../../support/request-scoped-provider.js';
import { page } from '../../support/pages.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';
import { DataModule } from './data-clients.js';
import { DocumentGateway } from './document.gateway.js';
import { ShippingListener } from './order-events.js';
import { EveryExceptionFilter } from './every-exception.filter.js';
import { ReportsController } from './request-limits.js';
import { NightlyReport } from './schedule.js';
import { InvoicesController } from './tenant-requests.js';

// A refused user and a busy lock are logged.
Logger.overrideLogger(false);

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

/** Returns a connection with keys of its own. */
function ownRedis(): Redis {
  const redis = new Redis(testRedisUrl(), { keyPrefix: uniquePrefix() });
  open.push({ close: () => redis.disconnect() });
  return redis;
}

async function start(
  metadata: ModuleMetadata,
  options: Pick<RedisLockModuleOptions, 'prefix' | 'waitMs'> = {},
): Promise<INestApplication> {
  const locks = RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix(), ...options });
  const imports = [locks, ...(metadata.imports ?? [])];
  const module = await Test.createTestingModule({ ...metadata, imports }).compile();
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

describe('the module with clients for data', () => {
  it('provides a connection to Redis and a pool, and closes both', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const module = await Test.createTestingModule({ imports: [DataModule] }).compile();
    const [redis, pool] = [module.get(Redis), module.get(Pool)];
    expect(await redis.ping()).toBe('PONG');
    await module.close();
    await eventually('the connection has ended', () => redis.status === 'end');
    expect(pool.ended).toBe(true);
  });
});

describe('the recipe for request limits', () => {
  it('answers 429 to a third concurrent request of an address', async () => {
    const app = await start({ controllers: [ReportsController] });
    const locks = app.get(LockService);
    expect(await call(app, '/reports')).toEqual([200, 'a long report for 127.0.0.1']);
    const two = await Promise.all([1, 2].map(() => locks.acquire('address:127.0.0.1', { permits: 2 })));
    expect((await call(app, '/reports'))[0]).toBe(429);
    for (const lock of two) await lock.release();
    expect((await call(app, '/reports'))[0]).toBe(200);
  });
});

describe('the recipe for cron jobs', () => {
  it('runs once a day in two instances', async () => {
    const redis = ownRedis();
    const prefix = uniquePrefix();
    const providers = [NightlyReport, { provide: Redis, useValue: redis }];
    const apps = [1, 2].map(() => start({ imports: [ScheduleModule.forRoot()], providers }, { prefix }));
    const jobs = (await Promise.all(apps)).map((app) => app.get(NightlyReport));
    await Promise.all(jobs.map((job) => job.run()));
    for (const job of jobs) await job.run();
    expect(jobs.flatMap(({ sent }) => sent)).toHaveLength(2);
    const registry = (await apps[0]).get(SchedulerRegistry);
    expect(registry.getCronJob('nightly').cronTime.source).toBe('0 0,30 3-5 * * *');
  });
});

describe('the recipe for events', () => {
  it('postpones an event whose lock is busy', async () => {
    const app = await start({ imports: [EventEmitterModule.forRoot()], providers: [ShippingListener] });
    const [emitter, listener] = [app.get(EventEmitter2), app.get(ShippingListener)];
    await emitter.emitAsync('order.paid', { id: 1 });
    expect([...listener.shipped]).toEqual([1]);
    const lock = await app.get(LockService).acquire('order:2');
    await emitter.emitAsync('order.paid', { id: 2 });
    await lock.release();
    expect([[...listener.shipped], listener.postponed]).toEqual([[1], [2]]);
  });
});

describe('the recipe for a document for one editor', () => {
  it('lets one editor save, until it leaves or its lock is lost', async () => {
    const app = await start({ providers: [DocumentGateway] });
    const connect = async () => {
      const socket = io(await app.getUrl(), { transports: ['websocket'], reconnection: false });
      open.push({ close: () => socket.disconnect() });
      const events: string[] = [];
      socket.onAny((event: string) => events.push(event));
      await once(socket as never, 'connect');
      return { socket, events };
    };
    const [ada, bob] = [await connect(), await connect()];
    const got = ({ events }: { events: string[] }, event: string, count = 1) =>
      eventually(event, () => events.filter((one) => one === event).length === count);
    ada.socket.emit('edit', 1);
    await got(ada, 'yours');
    bob.socket.emit('edit', 1);
    await got(bob, 'taken');
    bob.socket.emit('save', [1, 'by Bob']);
    await got(bob, 'exception');
    ada.socket.emit('save', [1, 'by Ada']);
    await got(ada, 'saved');
    expect(app.get(DocumentGateway).saved.get(1)).toBe('by Ada');
    ada.socket.disconnect();
    const locks = app.get(LockService);
    await eventually('the document is free', async () => (await locks.inspect('document:1')) === null);
    bob.socket.emit('edit', 1);
    await got(bob, 'yours');
    await locks.forceRelease('document:1');
    await got(bob, 'lost');
    bob.socket.emit('save', [1, 'late']);
    await got(bob, 'exception', 2);
    expect(app.get(DocumentGateway).saved.get(1)).toBe('by Ada');
  });
});

describe('the recipe for scopes', () => {
  it('locks in request-scoped providers', async () => {
    @Controller('carts')
    class CartsController {
      constructor(@Inject(CartService) readonly carts: CartService) {}
      @Get()
      async both(): Promise<string> {
        return `${await this.carts.add(1)}, ${await this.carts.checkOut(1)}`;
      }
    }
    const app = await start({ controllers: [CartsController], providers: [CartService] }, { waitMs: 0 });
    const headers = { 'x-tenant': 'acme' };
    expect(await call(app, '/carts', { headers })).toEqual([200, 'added to cart 1, cart 1 of acme is paid']);
    for (const resource of ['cart:1', 'cart:acme:1']) {
      const lock = await app.get(LockService).acquire(resource, { waitMs: 20_000 });
      expect((await call(app, '/carts', { headers }))[0]).toBe(423);
      await lock.release();
    }
  });

  it('locks in durable providers', async () => {
    @Controller('prices')
    class PricesController {
      constructor(@Inject(PriceList) readonly prices: PriceList) {}
      @Get()
      update(): Promise<string> {
        return this.prices.update();
      }
    }
    ContextIdFactory.apply(new ByTenant());
    const app = await start({ controllers: [PricesController], providers: [PriceList] }, { waitMs: 0 });
    const update = (tenant: string) => call(app, '/prices', { headers: { 'x-tenant': tenant } });
    expect(await update('acme')).toEqual([200, 'version 1 of acme']);
    expect(await update('acme')).toEqual([200, 'version 2 of acme']);
    const lock = await app.get(LockService).acquire('prices:acme', { waitMs: 20_000 });
    expect((await update('acme'))[0]).toBe(423);
    expect(await update('globex')).toEqual([200, 'version 1 of globex']);
    await lock.release();
  });
});

describe('the recipe for tenants', () => {
  let server: RedisServer;
  let admin: Redis;

  beforeAll(async () => {
    server = await startRedis({ local: true });
    admin = new Redis(server.url);
    const [, commands = ''] =
      /```sh\nredis-cli (ACL SETUSER shop [^`]+)```/.exec(page('docs/permissions.md').text) ?? [];
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
    const imports = [RedisLockModule.forRoot({ redis, prefix: `${tenant}:lock_` })];
    const module = await Test.createTestingModule({ imports }).compile();
    await module.init();
    open.push(module);
    return module.get(LockService);
  }

  it('lets the user of a tenant lock, share and wait under its prefix', async () => {
    const [one, other] = [await locksOf('acme'), await locksOf('acme')];
    const lock = await one.acquire('goods:300');
    const next = other.acquire('goods:300', { waitMs: 20_000 });
    await eventually('it waits', async () => (await one.inspect('goods:300'))?.waiting.length === 1);
    await lock.release();
    await (await next).release();
    expect(await one.using('menu', { mode: 'shared' }, () => 'shared')).toBe('shared');
  });

  it('keeps the user of a tenant out of the locks of others', async () => {
    const locks = await locksOf('globex');
    await expect(locks.acquire('goods:300')).rejects.toThrow(LockUnavailableError);
  });

  it('keeps the tenants of one application apart', async () => {
    @Injectable()
    class TenantGuard implements CanActivate {
      canActivate(context: ExecutionContext): boolean {
        const request = context.switchToHttp().getRequest<{ headers: Record<string, string>; user?: object }>();
        request.user = { tenant: request.headers['x-tenant'] };
        return true;
      }
    }
    const providers = [{ provide: APP_GUARD, useClass: TenantGuard }];
    const app = await start({ controllers: [InvoicesController], providers }, { waitMs: 0 });
    const send = (tenant: string, id: string) =>
      call(app, `/invoices/${id}/send`, { method: 'POST', headers: { 'x-tenant': tenant } });
    expect(await send('acme:1', '2')).toEqual([201, 'sent 2 of acme:1']);
    const lock = await app.get(LockService).acquire('invoice:acme%3A1:2', { waitMs: 20_000 });
    expect((await send('acme:1', '2'))[0]).toBe(423);
    expect(await send('acme', '1:2')).toEqual([201, 'sent 1:2 of acme']);
    await lock.release();
  });
});

describe('the recipe for exception filters', () => {
  it('replies to a busy lock as to an exception of Nest', async () => {
    @Controller()
    class GoodsController {
      @Get('goods')
      @Locked('goods:1', { waitMs: 0 })
      goods(): string {
        return 'free';
      }
    }
    const providers = [{ provide: APP_FILTER, useClass: EveryExceptionFilter }];
    const app = await start({ controllers: [GoodsController], providers });
    const [status, body] = await app.get(LockService).using('goods:1', () => call(app, '/goods'));
    expect([status, JSON.parse(body)]).toEqual([423, { statusCode: 423, code: 'LOCK_TIMEOUT' }]);
  });
});
