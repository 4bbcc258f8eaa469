import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  CurrentLock,
  getLockServiceToken,
  InjectLockService,
  type Lock,
  Locked,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { longestTimerAtEndOf } from '../support/ends-by-itself.js';
import { createTestLocks, ManualClock, withMemoryLocks } from 'nestjs-redis-lock/testing';
import { goodsController } from './support/goods-controller.js';
import { Room } from './support/room.js';

@Injectable()
class Stock {
  constructor(
    readonly locks: LockService,
    @InjectLockService('reports') readonly reports: LockService,
  ) {}

  @Locked('goods:<id>', { waitMs: 0 })
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }

  @Locked('report:<id>', { name: 'reports' })
  async report(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock && `${id} ${lock.key}`;
  }
}

const library = (path: string): string => pathToFileURL(join(__dirname, '../../lib', path)).href;

/** A server in the place of Redis, which counts the connections to it. */
let server: Server;
let connections = 0;
let port = 0;

beforeAll(async () => {
  server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as { port: number }).port;
});

beforeEach(() => void (connections = 0));
afterAll(() => void server.close());

/** Returns how many connections were opened to the server so far. It accepts them in order. */
async function connectionsSoFar(): Promise<number> {
  await once(connect(port, '127.0.0.1').resume(), 'close');
  connections -= 1;
  return connections;
}

/** Returns a root module as applications have it: one instance by options, one by a factory. */
function appModule(options: RedisLockModuleOptions = {}) {
  const redis = `redis://127.0.0.1:${port}`;
  @Module({
    imports: [
      RedisLockModule.forRoot({ redis, prefix: 'main_', ...options }),
      RedisLockModule.forRootAsync({ name: 'reports', useFactory: async () => ({ redis, prefix: 'reports_' }) }),
    ],
    controllers: [goodsController([Locked('goods:<id>', { waitMs: 0 })], (_handler, id) => id)],
    providers: [Stock, Room],
  })
  class AppModule {}
  return AppModule;
}

/** Returns a mock as the libraries for `useMocker` make it: every property is a function. */
function createMock(): object {
  return new Proxy({}, { get: (_target, name) => (name === 'then' ? undefined : jest.fn()) });
}

describe('withMemoryLocks()', () => {
  it('makes a whole application lock in memory, without a connection', async () => {
    const module = await withMemoryLocks(Test.createTestingModule({ imports: [appModule()] })).compile();
    const app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    try {
      const stock = app.get(Stock);
      expect(await stock.buy(7)).toBe('7 {main_goods}:7');
      expect(await stock.report(7)).toBe('7 {reports_report}:7');
      const url = `${await app.getUrl()}/goods/8`;
      expect(await (await fetch(url)).text()).toBe('8');
      const holder = await stock.locks.acquire('goods:8');
      expect((await fetch(url)).status).toBe(423);
      await holder.release();
      expect(await stock.reports.inspect('goods:8')).toBeNull();
      expect(await connectionsSoFar()).toBe(0);
    } finally {
      await app.close();
    }
  });

  it.each<[string, () => RedisLockModuleOptions]>([
    ['replicas', () => ({ replicas: { min: 1 } })],
    ['a quorum', () => ({ store: quorum([1, 2, 3].map(() => `redis://127.0.0.1:${port}`)) })],
    ['checks', () => ({ checks: 'error' })],
    ['a redis that is not allowed', () => ({ redis: '' })],
    ['a client', () => ({ redis: new Redis({ port, lazyConnect: true }) })],
  ])('replaces all options that need a server: %s', async (_what, options) => {
    const module = await withMemoryLocks(Test.createTestingModule({ imports: [appModule(options())] })).compile();
    await module.init();
    expect(await module.get(Stock).buy(7)).toBe('7 {main_goods}:7');
    expect(await connectionsSoFar()).toBe(0);
    await module.close();
  });

  it('keeps the other options, and takes a clock', async () => {
    const clock = new ManualClock();
    const imports = [appModule({ maxHoldMs: 1_000 })];
    const module = await withMemoryLocks(Test.createTestingModule({ imports }), { clock }).compile();
    const lock = await module.get(LockService).acquire('goods:7');
    await clock.advance(1_000);
    expect(lock.signal.aborted).toBe(true);
    await module.close();
  });

  it('lets the process exit, although nobody closes the application or releases a lock', async () => {
    const longestMs = await longestTimerAtEndOf(`
      import { Test } from '@nestjs/testing';
      const { RedisLockModule, LockService } = await import('${library('index.ts')}');
      const { withMemoryLocks } = await import('${library('testing/index.ts')}');
      const imports = [RedisLockModule.forRoot({ redis: 'redis://127.0.0.1:${port}' })];
      const module = await withMemoryLocks(Test.createTestingModule({ imports })).compile();
      await module.init();
      await module.get(LockService).acquire('goods:1');
    `);
    expect(longestMs).toBe(0);
  });

  it('refuses what is neither a builder nor a clock', () => {
    expect(() => withMemoryLocks({} as never)).toThrow(/withMemoryLocks\(\): the builder is a plain object; expected/);
    const builder = Test.createTestingModule({});
    expect(() => withMemoryLocks(builder, { clock: 7 as never })).toThrow(/clock is 7; expected a Clock/);
    expect(() => withMemoryLocks(builder, { time: 7 } as never)).toThrow(/unknown option time/);
  });
});

describe('a LockService that a test replaced', () => {
  const compile = async (replacement: unknown) => {
    const builder = Test.createTestingModule({ imports: [appModule()] });
    for (const name of ['default', 'reports']) {
      builder.overrideProvider(getLockServiceToken(name)).useValue(replacement);
    }
    const module = await builder.compile();
    await module.init();
    return module;
  };

  const refused = {
    code: 'LOCK_CONFIG',
    message: expect.stringMatching(
      /Stock\.buy is @Locked, but LockService was replaced by .*createTestLocks\(\).*withMemoryLocks/,
    ),
  };

  it.each([
    ['an empty object', {}],
    ['a mock of every property', createMock()],
    ['an object with its methods', { acquire: jest.fn(), using: jest.fn(), acquireResolved: jest.fn() }],
  ])('by %s fails at the first call and says what to use', async (_what, replacement) => {
    const module = await compile(replacement);
    await expect(module.get(Stock).buy(7)).rejects.toMatchObject(refused);
    await module.close();
  });

  it('by useMocker() fails in the same way', async () => {
    const module = await Test.createTestingModule({ providers: [Stock] })
      .useMocker(createMock)
      .compile();
    await expect(module.get(Stock).buy(7)).rejects.toMatchObject(refused);
    await module.close();
  });

  it('by createTestLocks() locks, and its module opens no connection', async () => {
    const module = await compile(createTestLocks({ prefix: 'own_' }));
    expect(await module.get(Stock).buy(7)).toBe('7 {own_goods}:7');
    expect(await connectionsSoFar()).toBe(0);
    await module.close();
  });
});
