import { type AddressInfo } from 'node:net';
import { Controller, Get, Inject, Logger, type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheckService, HealthIndicatorService, TerminusModule } from '@nestjs/terminus';
import { afterEach, beforeAll, afterAll, describe, expect, it } from '@jest/globals';
import { LockConfigError, LockService, memory } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { type HealthOptions, RedisLockHealthIndicator } from 'nestjs-redis-lock/terminus';
import { eventually } from '../support/async.js';
import { Contention } from '../support/contention.js';
import { lockModule } from '../support/lock-module.js';
import { Masters } from '../support/masters.js';
import type { InstanceOptions } from '../support/redis-locks.js';

/** What the health endpoint is to check. */
let checked: readonly [key: string, options?: HealthOptions][];

@Controller()
class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(RedisLockHealthIndicator) private readonly locks: RedisLockHealthIndicator,
  ) {}

  @Get('ready')
  ready() {
    return this.health.check(checked.map((each) => this.locks.isHealthy.bind(this.locks, ...each)));
  }
}

@Module({ imports: [TerminusModule], controllers: [HealthController], providers: [RedisLockHealthIndicator] })
class HealthModule {}

const apps: INestApplication[] = [];

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
  Logger.overrideLogger(new Logger());
});

interface Health {
  readonly status: number;
  readonly body: { readonly status: string; readonly details: Readonly<Record<string, Record<string, unknown>>> };
}

/** Starts an application with these module instances. Returns a function that requests its health. */
async function start(...locks: (InstanceOptions & { name?: string })[]): Promise<() => Promise<Health>> {
  const instances = locks.map(({ name, ...options }) => lockModule({ ...(name && { name }), ...options }));
  @Module({ imports: [...instances, HealthModule] })
  class AppModule {}
  const app = await NestFactory.create(AppModule, { logger: false });
  apps.push(app);
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  return async () => {
    const response = await fetch(`http://127.0.0.1:${port}/ready`);
    return { status: response.status, body: (await response.json()) as Health['body'] };
  };
}

describe('the health indicator in a shutdown', () => {
  it('is down, while requests can still lock', async () => {
    checked = [['locks']];
    const ready = await start({ store: memory(), shutdownGraceMs: 60_000 });
    const [app] = apps;
    const locks = app.get(LockService);
    const lock = await locks.acquire('goods:300');
    expect((await ready()).status).toBe(200);
    const closing = app.close();
    await eventually('the shutdown begins', () => locks.isShuttingDown);
    const { status, body } = await ready();
    expect(status).toBe(503);
    expect(body.details['locks']).toEqual({ status: 'down', message: 'the application is shutting down' });
    expect(await locks.using('goods:301', () => 'served')).toBe('served');
    await lock.release();
    await closing;
  });
});

describe('the health indicator', () => {
  let here: Contention;
  beforeAll(async () => {
    here = await new Contention().start();
  });
  afterEach(async () => {
    await here.clear();
    await here.admin.acl('DELUSER', 'guest');
  });
  afterAll(() => here.close());

  const server = (): string => `127.0.0.1:${here.server.port}`;

  it('is up with the server and its latency, of the instance with the name', async () => {
    checked = [['locks', { name: 'orders' }], ['main']];
    const health = await start({ store: memory() }, { redis: here.server.url, name: 'orders' });
    const servers = [{ server: server(), isUp: true, latencyMs: expect.any(Number) }];
    expect(await health()).toMatchObject({
      status: 200,
      body: {
        status: 'ok',
        details: {
          locks: { status: 'up', handoff: 'subscription', servers },
          main: { status: 'up', handoff: 'subscription', servers: [] },
        },
      },
    });
  });

  /** Starts an application that may not subscribe, and lets a caller of it wait. */
  async function startPolling() {
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', 'resetchannels', '+@all');
    checked = [['locks']];
    const redis = here.server.url.replace('redis://', 'redis://guest:any@');
    const health = await start({ redis, prefix: here.prefix });
    const lock = await here.holder();
    const waiting = apps[0].get(LockService).acquire('goods:300', { waitMs: 20_000 });
    const end = async (): Promise<void> => {
      await lock.release();
      await (await waiting).release();
    };
    return { health, end };
  }

  it('is degraded while waiting falls back to polling', async () => {
    const { health, end } = await startPolling();
    await eventually('it is seen', async () => (await health()).body.status === 'degraded');
    const locks = { status: 'degraded', handoff: 'polling', degraded: expect.stringMatching(/messages cannot be/) };
    expect(await health()).toMatchObject({ status: 200, body: { details: { locks } } });
    await end();
  });

  it('is up with the reason where Terminus has no degraded', async () => {
    const { end } = await startPolling();
    const [app] = apps;
    const session = Object.getPrototypeOf(app.get(HealthIndicatorService, { strict: false }).check('x')) as object;
    const degraded = Object.getOwnPropertyDescriptor(session, 'degraded') as PropertyDescriptor;
    // As in Terminus 11.
    Reflect.deleteProperty(session, 'degraded');
    try {
      const indicator = app.get(RedisLockHealthIndicator, { strict: false });
      await eventually('it is seen', async () => 'degraded' in (await indicator.isHealthy('locks')).locks);
      expect(await indicator.isHealthy('locks')).toMatchObject({ locks: { status: 'up', handoff: 'polling' } });
    } finally {
      Object.defineProperty(session, 'degraded', degraded);
    }
    await end();
  });

  it('is down after its timeout', async () => {
    checked = [['locks', { timeout: 50 }]];
    const health = await start({ redis: here.server.url, requestTimeoutMs: 5_000 });
    await health();
    here.server.pause();
    try {
      const { status, body } = await health();
      expect(status).toBe(503);
      expect(body.details.locks).toEqual({ status: 'down', message: 'no reply within 50 ms' });
    } finally {
      here.server.resume();
    }
  });

  it.each([
    [{ name: 'unknown' }, /there is no module instance "unknown"; expected the name of a RedisLockModule/],
    [{ timeout: 0 }, /isHealthy\(\): timeout is 0; expected a number of milliseconds/],
    [{ timeoutMs: 5 } as HealthOptions, /isHealthy\(\): unknown option timeoutMs/],
  ])('refuses %j', async (options, message) => {
    await start({ store: memory() });
    const indicator = apps[0].get(RedisLockHealthIndicator, { strict: false });
    await expect(indicator.isHealthy('locks', options)).rejects.toThrow(LockConfigError);
    await expect(indicator.isHealthy('locks', options)).rejects.toThrow(message);
  });
});

describe('the health indicator of a server that is stopped and started', () => {
  it('is down, and up again', async () => {
    const here = await new Contention().start();
    try {
      checked = [['locks']];
      const health = await start({ redis: here.server.url, requestTimeoutMs: 1_000 });
      expect((await health()).status).toBe(200);
      await here.server.kill();
      const { status, body } = await health();
      expect(status).toBe(503);
      const details = { locks: { status: 'down', servers: [{ isUp: false }] } };
      expect(body).toMatchObject({ status: 'error', details });
      await here.server.restart();
      await eventually('it is up again', async () => (await health()).status === 200);
    } finally {
      await Promise.all(apps.splice(0).map((app) => app.close()));
      await here.close();
    }
  });
});

describe('the health indicator of a quorum', () => {
  it('is degraded without a minority, and down without a majority', async () => {
    const here = await new Masters(3).start();
    try {
      checked = [['locks']];
      const health = await start({ store: quorum([...here.urls], { nodeTimeoutMs: 500 }) });
      await eventually('all are up', async () => (await health()).body.status === 'ok');
      await here.servers[0].kill();
      let seen = await health();
      await eventually('it is degraded', async () => (seen = await health()).body.status === 'degraded');
      expect(seen).toMatchObject({
        status: 200,
        body: { details: { locks: { degraded: expect.stringMatching(/^Locks continue with 2 of 3 nodes: 127/) } } },
      });
      await here.servers[1].kill();
      await eventually('it is down', async () => (await health()).status === 503);
      await here.servers[0].restart();
      await eventually('it is degraded', async () => (await health()).body.status === 'degraded');
    } finally {
      await Promise.all(apps.splice(0).map((app) => app.close()));
      await here.close();
    }
  });
});
