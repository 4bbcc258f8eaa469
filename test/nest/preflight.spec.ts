import { type DynamicModule, Logger, type INestApplication, type LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { getLockServiceToken, LockConfigError, type LockService } from 'nestjs-redis-lock';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { eventually } from '../support/async.js';
import { lockModule } from '../support/lock-module.js';
import { RedisProxy } from '../support/proxy.js';
import type { InstanceOptions } from '../support/redis-locks.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';

let server: RedisServer;
let proxy: RedisProxy;
let apps: INestApplication[];
let warnings: string[];
let errors: string[];

beforeAll(async () => {
  const evicting = ['--maxmemory-policy', 'volatile-lru', '--maxmemory', '100mb'];
  server = await startRedis({ local: true, args: evicting });
});
beforeEach(async () => {
  proxy = await RedisProxy.start(server.url);
  [apps, warnings, errors] = [[], [], []];
});
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  await proxy.close();
  Logger.overrideLogger(new Logger());
});
afterAll(() => server.stop());

const finding = (): string =>
  `Redis at 127.0.0.1:${proxy.port} may delete locks that are held, because its maxmemory-policy is volatile-lru. ` +
  'Set the policy to noeviction, and keep a cache on another server.';

async function create(options: InstanceOptions): Promise<INestApplication> {
  return appOf(lockModule({ redis: proxy.url, ...options }));
}

async function appOf(locks: DynamicModule): Promise<INestApplication> {
  const recorder: LoggerService = {
    log: () => undefined,
    warn: (line: string) => warnings.push(line),
    error: (line: string) => errors.push(line),
  };
  const testing = Test.createTestingModule({ imports: [locks] }).setLogger(recorder);
  return (await testing.compile()).createNestApplication();
}

async function start(options: InstanceOptions): Promise<LockService> {
  const app = await create(options);
  apps.push(app);
  await app.init();
  return app.get<LockService>(getLockServiceToken());
}

describe('an application on a Redis that evicts locks', () => {
  it('starts with one warning by default', async () => {
    const locks = await start({});
    await locks.using('goods:300', () => undefined);
    await eventually('it warns', () => warnings.length > 0);
    expect([warnings, errors]).toEqual([[finding()], []]);
  });

  it('starts without waiting for the reply by default', async () => {
    proxy.hold('replies');
    await start({ requestTimeoutMs: 60_000 });
    expect(warnings).toEqual([]);
    proxy.resume('replies');
    await eventually('it warns', () => warnings.join() === finding());
  });

  it('does not start with checks.server error, and leaves no connection', async () => {
    const connectionName = 'refused';
    const redis = { port: proxy.port, connectionName };
    const app = await create({ redis, checks: { server: 'error' }, requestTimeoutMs: 60_000 });
    apps.push(app);
    const failure: unknown = await app.init().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockConfigError);
    expect((failure as Error).message).toBe(finding());
    expect(warnings).toEqual([]);
    const admin = new Redis(server.url);
    const connected = async (): Promise<boolean> => String(await admin.client('LIST')).includes(connectionName);
    await eventually('the connection is closed', async () => !(await connected()));
    admin.disconnect();
  });

  it('starts with checks.server error if Redis cannot be reached, and logs an error later', async () => {
    await proxy.refuseConnections();
    await start({ checks: { server: 'error' }, requestTimeoutMs: 200 });
    expect(errors).toEqual([]);
    await proxy.acceptConnections();
    await eventually('it logs the finding', () => errors.join() === finding());
    expect(warnings).toEqual([expect.stringContaining('Redis cannot be reached')]);
  });

  it('starts with checks.server off, and says nothing', async () => {
    const locks = await start({ checks: { server: 'off' } });
    await locks.using('goods:300', () => undefined);
    expect([warnings, errors]).toEqual([[], []]);
  });

  it('is refused any other value', async () => {
    const failed = create({ checks: { server: 'never' as never } });
    await expect(failed).rejects.toThrow('server is "never"; expected "warn" or "error" or "off"');
  });
});

describe('the testing module', () => {
  it('looks at nothing', async () => {
    const app = await appOf(RedisLockTestingModule.forRoot({ checks: { server: 'error' } }));
    apps.push(app);
    await app.init();
    expect([warnings, errors]).toEqual([[], []]);
  });
});
