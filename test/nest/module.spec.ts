import { isDeepStrictEqual } from 'node:util';
import { ConsoleLogger, Controller, type DynamicModule, Get, Injectable, Module, Param } from '@nestjs/common';
import { LazyModuleLoader, NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  getLockServiceToken,
  Locked,
  LockConfigError,
  LockService,
  memory,
  RedisLockModule,
  type RedisLockModuleAsyncOptions,
  type RedisLockModuleOptions,
  type RedisLockOptionsFactory,
} from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { closeApps, rawRedis, startApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class Settings implements RedisLockOptionsFactory {
  static prefix = '';

  createRedisLockOptions(): RedisLockModuleOptions {
    return { redis: testRedisUrl(), prefix: Settings.prefix, waitMs: 0 };
  }
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

@Injectable()
class GoodsService {
  constructor(
    readonly locks: LockService,
    private readonly room: Room,
  ) {}

  @Locked('goods:<id>')
  buy(id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }
}

@Controller()
class ReportsController {
  @Get('write/:id')
  @Locked('goods:<id>', { name: 'reports', waitMs: 0 })
  async write(@Param('id') id: string): Promise<string> {
    return id;
  }
}

/** Does not import the lock module. */
@Module({ providers: [GoodsService, Room], exports: [GoodsService] })
class FeatureModule {}

afterEach(closeApps);

describe('RedisLockModule.forRoot()', () => {
  it('needs no arguments and is global', async () => {
    const app = await startApp({ lockModules: () => [RedisLockModule.forRoot()], imports: [FeatureModule] });
    expect(app.nest.get(GoodsService).locks).toBe(app.locks);
    expect(app.locks).toBeInstanceOf(LockService);
  });

  it('is visible only to importing modules with isGlobal: false', async () => {
    const lockModules = (prefix: string) => [
      RedisLockModule.forRoot({ redis: testRedisUrl(), prefix, isGlobal: false }),
    ];
    const app = await startApp({ lockModules, providers: [GoodsService] });
    expect(app.nest.get(GoodsService).locks).toBe(app.locks);
    const notThere = () => [RedisLockModule.forRoot({ store: memory(), isGlobal: false })];
    await expect(startApp({ lockModules: notThere, imports: [FeatureModule] })).rejects.toThrow(
      /GoodsService.*LockService/,
    );
  });

  it('fails the start with an option that is not allowed', async () => {
    await expect(startApp({ locks: { ttlMs: 10 } })).rejects.toThrow(LockConfigError);
    await expect(startApp({ locks: { ttlMs: 10 } })).rejects.toThrow(/ttlMs is 10; expected .* from 50/);
  });

  it('does not change or close a client that it was given', async () => {
    const client = new Redis(testRedisUrl());
    await client.ping();
    const before = {
      names: Reflect.ownKeys(client),
      listeners: client.eventNames().map((name) => client.listenerCount(name)),
    };
    const app = await startApp({ locks: { redis: client }, providers: [GoodsService] });
    await app.locks.using('goods:1', () => undefined);
    expect(Reflect.ownKeys(client)).toEqual(before.names);
    await app.close();
    expect(client.status).toBe('ready');
    const listeners = (): number[] => client.eventNames().map((name) => client.listenerCount(name));
    await eventually('the module has left the client', () => isDeepStrictEqual(listeners(), before.listeners));
    expect(await client.ping()).toBe('PONG');
    await client.quit();
  });

  it('connects only if the application starts, and disconnects after it has closed', async () => {
    const { hostname: host, port, password } = new URL(testRedisUrl());
    const connectionName = uniquePrefix();
    const redis = { host, port: Number(port || 6379), ...(password && { password }), connectionName };
    const locks = RedisLockModule.forRoot({ redis });
    const isConnected = async () => String(await rawRedis().client('LIST')).includes(connectionName);

    @Injectable()
    class Unresolvable {
      constructor(readonly missing: Date) {}
    }
    const quiet = new ConsoleLogger('', { logLevels: [] });
    const failing = Test.createTestingModule({ imports: [locks], providers: [Unresolvable] }).setLogger(quiet);
    await expect(failing.compile()).rejects.toThrow("can't resolve dependencies");
    expect(await isConnected()).toBe(false);

    const started = await (await Test.createTestingModule({ imports: [locks] }).compile()).init();
    await eventually('the application has connected', isConnected);
    await started.close();
    await eventually('the connection is closed', async () => !(await isConnected()));
  });
});

describe('RedisLockModule.forRootAsync()', () => {
  const useFactory = async (settings: Settings) => settings.createRedisLockOptions();

  it.each<[string, RedisLockModuleAsyncOptions]>([
    ['useFactory', { imports: [SettingsModule], inject: [Settings], useFactory }],
    ['useClass', { useClass: Settings }],
    ['useExisting', { imports: [SettingsModule], useExisting: Settings }],
  ])('gets its options from %s', async (_way, options) => {
    const prefix = (Settings.prefix = uniquePrefix());
    const app = await startApp({
      prefix,
      lockModules: () => [RedisLockModule.forRootAsync(options)],
      providers: [GoodsService],
    });
    const goods = app.nest.get(GoodsService);
    const first = goods.buy(1);
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    await expect(goods.buy(1)).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    visit.leave();
    expect(await first).toBe(1);
  });

  it('fails the start if the factory fails or returns options that are not allowed', async () => {
    const from = (factory: () => RedisLockModuleOptions) =>
      startApp({ lockModules: () => [RedisLockModule.forRootAsync({ useFactory: factory })] });
    await expect(from(() => ({ waitMs: -1 }))).rejects.toThrow(/waitMs is -1/);
    await expect(
      from(() => {
        throw new Error('no settings');
      }),
    ).rejects.toThrow('no settings');
  });
});

describe('several module instances in one application', () => {
  it('lock a handler once, with the instance that it names', async () => {
    const app = await startApp({
      lockModules: (prefix) => [
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix }),
        RedisLockModule.forRootAsync({
          name: 'reports',
          useFactory: () => ({ redis: testRedisUrl(), prefix: `${prefix}r_` }),
        }),
      ],
      controllers: [ReportsController],
    });
    expect((await app.call('/write/5')).text).toBe('5');
    expect(app.log.lines).toEqual(['requested goods:5', 'granted goods:5', 'released goods:5']);
    const holder = await app.nest.get<LockService>(getLockServiceToken('reports')).acquire('goods:5');
    expect((await app.call('/write/5')).status).toBe(423);
    await holder.release();
  });
});

const forRoot = (options: Parameters<typeof RedisLockModule.forRoot>[0] = {}) =>
  RedisLockModule.forRoot({ store: memory(), ...options });

describe('two modules of one name', () => {
  const startWith = (first: DynamicModule, second: DynamicModule) => {
    @Module({ imports: [first] })
    class Stock {}
    @Module({ imports: [second, Stock] })
    class AppModule {}
    return NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  };

  it.each([
    ['the same options', {}, {}],
    ['other prefixes', { prefix: 'a_' }, { prefix: 'b_' }],
  ])('are refused at the start with %s', async (_what, first, second) => {
    const started = startWith(forRoot(first), forRoot(second));
    await expect(started).rejects.toBeInstanceOf(LockConfigError);
    await expect(started).rejects.toThrow(
      "This application imports RedisLockModule twice as 'default'. Two modules make two LockServices",
    );
    await expect(started).rejects.toThrow('Import it once, in AppModule: it is global');
  });

  it('are refused with advice of their own if they are not global', async () => {
    await expect(startWith(forRoot({ isGlobal: false }), forRoot({ isGlobal: false }))).rejects.toThrow(
      'With isGlobal: false, keep what forRoot() returns in one constant',
    );
  });

  it('are refused with advice of their own in a testing module', async () => {
    await expect(Test.createTestingModule({ imports: [forRoot(), forRoot()] }).compile()).rejects.toThrow(
      'In a test, import AppModule or RedisLockModule, not both.',
    );
  });

  it('are refused when the second one is loaded lazily, and the application goes on', async () => {
    @Module({ imports: [forRoot()] })
    class Lazy {}
    const app = await startApp({ lockModules: () => [forRoot()] });
    await expect(app.nest.get(LazyModuleLoader).load(() => Lazy)).rejects.toBeInstanceOf(LockConfigError);
    expect(await app.locks.using('goods:1', async () => 'sold')).toBe('sold');
  });
});

it('one module may be imported in many places, and has one service', async () => {
  const locks = forRoot({ isGlobal: false });
  @Injectable()
  class Stock {
    @Locked('goods', { waitMs: 0 })
    async take(): Promise<string> {
      return 'taken';
    }
  }
  @Module({ imports: [locks], providers: [Stock], exports: [Stock] })
  class StockModule {}
  @Injectable()
  class Orders {
    constructor(private readonly stock: Stock) {}

    @Locked('goods', { waitMs: 0 })
    order(): Promise<string> {
      return this.stock.take();
    }
  }
  const app = await startApp({ lockModules: () => [locks], imports: [StockModule], providers: [Orders] });
  expect(await app.nest.get(Orders).order()).toBe('taken');
});
