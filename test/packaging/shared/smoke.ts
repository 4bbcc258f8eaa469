// What works in every consumer, by `node:assert`.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { ModuleRef, NestFactory } from '@nestjs/core';
import { type DynamicModule, type INestApplication, Module, type ModuleMetadata } from '@nestjs/common';
import { ClientProxyFactory, Transport } from '@nestjs/microservices';
import { HealthIndicatorService } from '@nestjs/terminus';
import { Redis } from 'ioredis';
import { ClsModule } from 'nestjs-cls';
import {
  LockConfigError,
  LockError,
  LockKeyError,
  LockService,
  LockTimeoutError,
  RedisLockModule,
  type RedisLockModuleOptions,
  resource,
  type StoreFactory,
} from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
import { RedisFence, SqlFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { RedisLockHealthIndicator } from 'nestjs-redis-lock/terminus';
import { createLocks } from 'nestjs-redis-lock/standalone';
import { createTestLocks, ManualClock, RedisLockTestingModule, withLocks } from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { withLockScope } from 'nestjs-redis-lock/transactional';
import { createClient } from 'redis';
import { lastValueFrom } from 'rxjs';
import { entries } from './entries.js';
import { AppModule, GoodsService } from './goods.js';

export function redisUrl(): string {
  const url = process.env.TEST_REDIS_URL;
  assert(url, 'TEST_REDIS_URL is not set');
  return url;
}

@Module({})
class TestApp {}

const QUIET = { logger: ['error' as const, 'warn' as const], abortOnError: false };
const contextOf = (metadata: ModuleMetadata) =>
  NestFactory.createApplicationContext({ module: TestApp, ...metadata } as DynamicModule, QUIET);
const ownPrefix = (): string => `consumer_${randomBytes(6).toString('hex')}_`;

/** Locks over HTTP, with a client that the application has already, and with one that the module opens. */
export async function checkApp(): Promise<void> {
  const prefix = ownPrefix();
  const client = new Redis(redisUrl());
  try {
    await withApp({ redis: client, prefix, waitMs: 10_000 }, async (app) => {
      await checkExclusion(app, 7);
      await checkBusy(app);
      await checkHealth(app);
      await checkMessage(app);
    });
    assert.equal(client.status, 'ready', 'the module has closed a client that is not its own');
    assert.equal(await client.ping(), 'PONG');
    assert.deepEqual(await client.keys(`*${prefix}goods*:*`), [], 'locks are left');
  } finally {
    await client.quit();
  }
  await withApp({ redis: redisUrl(), prefix }, (app) => checkExclusion(app, 8));
}

async function withApp(
  options: RedisLockModuleOptions,
  check: (app: INestApplication) => Promise<void>,
): Promise<void> {
  const app = await NestFactory.create(AppModule.with(options), QUIET);
  try {
    await app.listen(0, '127.0.0.1');
    await check(app);
  } finally {
    await app.close();
  }
}

async function checkExclusion(app: INestApplication, id: number): Promise<void> {
  const url = await app.getUrl();
  const buy = async () => {
    const response = await fetch(`${url}/goods/0${id}/buy`, { method: 'POST' });
    assert.equal(response.status, 200);
    return (await response.json()) as { sold: number; held: string };
  };
  const answers = await Promise.all(Array.from({ length: 12 }, buy));
  assert.deepEqual(new Set(answers.map(({ sold }) => sold)), new Set([...answers.keys()].map((n) => n + 1)));
  assert.deepEqual(new Set(answers.map(({ held }) => held)), new Set([`goods:${id}`]));
}

async function checkBusy(app: INestApplication): Promise<void> {
  const locks = app.get(LockService);
  const grab = async () => fetch(`${await app.getUrl()}/goods/9/grab`, { method: 'POST' });
  await locks.using(resource`goods:${9}`, { ttlMs: 20_000 }, async (lock) => {
    assert((await locks.inspect('goods:9'))?.fencingToken === lock.fencingToken);
    const response = await grab();
    assert.equal(response.status, 423);
    assert.equal(response.headers.get('retry-after'), '1');
    assert.equal(((await response.json()) as { code: string }).code, 'LOCK_TIMEOUT');
    assert.equal(await locks.tryAcquire('goods:9').then((nested) => nested?.release()), true);
  });
  assert.equal((await grab()).status, 201);
}

/** Terminus 11 and 12 show that locks can be acquired. */
async function checkHealth(app: INestApplication): Promise<void> {
  const indicator = new RedisLockHealthIndicator(new HealthIndicatorService(), app.get(ModuleRef));
  const { locks } = await indicator.isHealthy('locks', { timeout: 10_000 });
  assert.deepEqual([locks.status, locks.handoff, (locks.servers as unknown[]).length], ['up', 'subscription', 1]);
}

/** `nestjs-redis-lock/board` serves a page of the application's own module, behind its guards. */
export async function checkBoard(): Promise<void> {
  const guard = { canActivate: () => true };
  const boards = ['locks', 'more/locks'].map((route) => RedisLockBoardModule.forRoot({ guards: [guard], route }));
  const locks = RedisLockModule.forRoot({ redis: redisUrl(), prefix: ownPrefix() });
  const app = await NestFactory.create({ module: TestApp, imports: [locks, ...boards] }, QUIET);
  try {
    await app.listen(0, '127.0.0.1');
    for (const route of ['locks', 'more/locks']) {
      const page = await fetch(`${await app.getUrl()}/${route}`, { headers: { connection: 'close' } });
      assert.equal(page.status, 200);
      assert.match(await page.text(), /^<!doctype html>/);
      const state = await fetch(`${await app.getUrl()}/${route}/state`, { headers: { connection: 'close' } });
      assert.deepEqual(((await state.json()) as { locks: unknown }).locks, []);
    }
    assert.throws(() => RedisLockBoardModule.forRoot({}), { code: 'LOCK_CONFIG' });
  } finally {
    await app.close();
  }
}

/** A message handler replies under its lock, and refuses while others hold it. */
async function checkMessage(app: INestApplication): Promise<void> {
  const port = await freePort();
  app.connectMicroservice(
    { transport: Transport.TCP, options: { host: '127.0.0.1', port } },
    { inheritAppConfig: true },
  );
  await app.startAllMicroservices();
  const proxy = ClientProxyFactory.create({ transport: Transport.TCP, options: { host: '127.0.0.1', port } });
  const send = () => lastValueFrom(proxy.send<unknown>('buy', { id: 11 }));
  try {
    assert.equal(await send(), 'goods:11');
    const refused = await app.get(LockService).using('goods:11', () => send().catch((error: unknown) => error));
    assert.equal((refused as { code: string }).code, 'LOCK_TIMEOUT');
  } finally {
    await proxy.close();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const SET = `return redis.call('SET', KEYS[1], ARGV[1])`;

/** `nestjs-redis-lock/fence` takes the client of either version of ioredis. Its errors are those of the root. */
export async function checkFence(): Promise<void> {
  const client = new Redis(redisUrl());
  const key = ownPrefix();
  try {
    const fence = new RedisFence(client, key);
    await fence.open(1);
    const set = (value: string) => ({ lua: SET, keys: [key], args: [value] });
    assert.equal(await fence.write(1, set('new')), 'OK');
    await fence.open(2);
    const error = await fence.write(1, set('late')).catch((refusal: unknown) => refusal);
    assert(error instanceof StaleFenceError);
    assert(error instanceof LockError, 'the fence has another copy of the errors');
    assert.equal(await client.get(key), 'new');
    assert.throws(() => new SqlFence('sqlite').write(() => [], key, 1), { code: 'LOCK_STALE' });
  } finally {
    await client.del(key, `{${key}}|opened`);
    client.disconnect();
  }
}

/** `nestjs-redis-lock/node-redis` takes the client of either version of node-redis, and contends with ioredis. */
export async function checkNodeRedis(): Promise<void> {
  const prefix = ownPrefix();
  const client = createClient({ url: redisUrl() });
  const errors: unknown[] = [];
  client.on('error', (error) => errors.push(error));
  await client.connect();
  const redis = fromNodeRedis(client);
  try {
    await withApp({ redis, prefix, waitMs: 20_000 }, async (app) => {
      await checkExclusion(app, 7);
      await checkHandoffs(app, { redis: redisUrl(), prefix, waitMs: 20_000 });
      await checkHealth(app);
    });
    assert.equal(client.isReady, true, 'the module has closed a client that is not its own');
    const fence = new RedisFence(redis, prefix);
    await fence.open(1);
    assert.equal(await fence.write(1, { lua: SET, keys: [prefix], args: ['new'] }), 'OK');
    assert.equal(await client.get(prefix), 'new');
    assert.throws(() => fromNodeRedis({} as typeof client), { code: 'LOCK_CONFIG' });
    assert.deepEqual(errors, []);
  } finally {
    await client.del([prefix, `{${prefix}}|opened`]);
    client.destroy();
  }
}

/** An application and another one pass a lock to each other. */
async function checkHandoffs(app: INestApplication, options: RedisLockModuleOptions): Promise<void> {
  const other = await contextOf({ imports: [RedisLockModule.forRoot(options)] });
  let sold = 0;
  const sell = (locks: LockService): Promise<void> =>
    locks.using('goods:10', async () => {
      const before = sold;
      await sleep(2);
      sold = before + 1;
    });
  const both = [app.get(LockService), other.get(LockService)];
  await Promise.all([...both, ...both, ...both].map(sell));
  await other.close();
  assert.equal(sold, 6);
}

/** The stores that are entry points of their own work in the module of the root, and throw its errors. */
export async function checkStores(): Promise<void> {
  const stores: Record<string, StoreFactory> = { redisson: redisson({ fencing: true }), timestamp: timestamp() };
  for (const [name, store] of Object.entries(stores)) {
    const options = { redis: redisUrl(), prefix: ownPrefix(), store, ttlMs: 30_000 };
    const context = await contextOf({ imports: [RedisLockModule.forRoot(options)] });
    const locks = context.get(LockService);
    const lock = await locks.acquire('goods:1');
    const refused = await locks.acquire('goods:1', { waitMs: 0 }).catch((error: unknown) => error);
    assert.equal(await lock.release(), true);
    await context.close();
    assert.equal((refused as object).constructor, LockTimeoutError, `${name}: ${String(refused)}`);
  }
  const isOurs = (error: Error): boolean => error.constructor === LockConfigError;
  assert.throws(() => createTestLocks({ store: quorum([redisUrl()]) }), isOurs);
  assert.throws(() => timestamp({ retryDelayMs: 0 }), isOurs);
}

/** `nestjs-redis-lock/standalone` contends with an application, and uses its classes. */
export async function checkStandalone(): Promise<void> {
  const prefix = ownPrefix();
  const context = await contextOf({ imports: [RedisLockModule.forRoot({ redis: redisUrl(), prefix })] });
  const locks = createLocks({ redis: redisUrl(), prefix, logger: { ...console, log: () => undefined } });
  assert(locks instanceof LockService, 'standalone has another copy of LockService');
  const buy = locks.wrap('goods:<id>', { waitMs: 0 }, async (id: number) => `goods ${id} are sold`);
  const refused = await context.get(LockService).using('goods:1', () => buy(1).catch((error: unknown) => error));
  assert.equal((refused as object).constructor, LockTimeoutError, String(refused));
  assert.equal(await buy(1), 'goods 1 are sold');
  await locks.close();
  await context.close();
}

/** A bundler renames what has one name in two modules: no exported class may be among that. */
export function checkNames(): void {
  for (const [path, namespace] of Object.entries(entries)) {
    for (const [name, value] of Object.entries(namespace) as [string, unknown][]) {
      if (typeof value === 'function') assert.equal(value.name, name, `an export of ${path} has another name`);
    }
  }
}

/** `nestjs-redis-lock/testing` uses the classes of `nestjs-redis-lock`, and needs no Redis. */
export async function checkTesting(): Promise<void> {
  const clock = new ManualClock();
  const locks = createTestLocks({ clock, ttlMs: 1_000, maxHoldMs: 1_000, waitMs: 200 });
  assert(locks instanceof LockService, 'testing has another copy of LockService');
  const lock = await locks.acquire('goods:1');
  const refused = locks.acquire('goods:1').catch((error: unknown) => error);
  await clock.advance(250);
  const error = await refused;
  assert(error instanceof LockTimeoutError && error instanceof LockError && !(error instanceof LockKeyError));
  assert.deepEqual([error.code, error.name], ['LOCK_TIMEOUT', 'LockTimeoutError']);
  assert.equal((error as object).constructor, LockTimeoutError, 'testing has another copy of the errors');
  await clock.advance(1_000);
  assert.throws(() => lock.assertHeld(), { code: 'LOCK_LOST' });

  const goods = withLocks(new GoodsService());
  assert.deepEqual(await Promise.all([goods.take(1), goods.take(1), goods.take(1)]), [1, 2, 3]);
  await assert.rejects(new GoodsService().take(1), { code: 'LOCK_CONFIG' });

  const context = await contextOf({ imports: [RedisLockTestingModule.forRoot()], providers: [GoodsService] });
  assert.deepEqual(await Promise.all([1, 2, 3].map(() => context.get(GoodsService).take(2))), [1, 2, 3]);
  await context.close();
}

/** `nestjs-redis-lock/transactional` keeps the locks of `nestjs-redis-lock` until the transaction has committed. */
export async function checkTransactional(): Promise<void> {
  const locks = createTestLocks();
  const isHeld = async (): Promise<boolean> => (await locks.inspect('goods:1')) !== null;
  const atCommit: boolean[] = [];
  const adapter = withLockScope({
    connection: 'connection',
    optionsFactory: (connection: string) => ({
      wrapWithTransaction: async (_: object, fn: () => Promise<unknown>, setTx: (tx?: string) => void) => {
        setTx(`transaction of ${connection}`);
        const result = await fn();
        atCommit.push(await isHeld());
        return result;
      },
      getFallbackInstance: () => connection,
    }),
  });
  const cls = ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] });
  const context = await contextOf({ imports: [cls] });
  const host = context.get<TransactionHost<typeof adapter>>(TransactionHost);
  const tx: string = await host.withTransaction(() => locks.using('goods:1', () => host.tx));
  assert.deepEqual([tx, atCommit, await isHeld()], ['transaction of connection', [true], false]);
  await context.close();
}
