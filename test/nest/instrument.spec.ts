import { Controller, Get, Injectable, type LoggerService, Module, type ModuleMetadata, Param } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Locked, LockService, memory, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { deferred } from '../support/async.js';
import { infosOf } from '../support/listed.js';
import { lockModule } from '../support/lock-module.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { Foreign } from './support/wrappers.js';

type Decorate = <T>(instance: T) => T;

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Proxies that an application may put around its providers by the option `instrument`. */
const PROXIES: Record<string, Decorate> = {
  empty: (instance) => (isObject(instance) ? new Proxy(instance, {}) : instance),
  binding: (instance) => bindingProxy(instance, () => undefined),
  'binding, with metadata': (instance) => bindingProxy(instance, copyMetadata),
};

function bindingProxy<T>(instance: T, prepare: (original: object, bound: object) => void): T {
  if (!isObject(instance)) return instance;
  return new Proxy(instance, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function' || key === 'constructor') return value;
      const bound = value.bind(target) as object;
      prepare(value, bound);
      return bound;
    },
  });
}

function copyMetadata(original: object, bound: object): void {
  for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, original), bound);
  }
}

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

/** Starts an application. Returns it, and the warnings and errors in its log. */
async function start(decorate: Decorate, metadata: ModuleMetadata) {
  const logged: string[] = [];
  const keep = (message: unknown): void => void logged.push(String(message));
  const logger: LoggerService = { log: () => undefined, warn: keep, error: keep };
  @Module(metadata)
  class AppModule {}
  const app = await NestFactory.create(AppModule, {
    logger,
    abortOnError: false,
    instrument: { instanceDecorator: decorate },
  });
  closing.push(app);
  await app.listen(0, '127.0.0.1');
  return { app, logged };
}

const inMemory = () => RedisLockModule.forRoot({ store: memory() });

@Injectable()
class Reports {
  readonly begun = deferred();
  terms = 0;

  constructor(readonly locks: LockService) {}

  @WhileLeader('report')
  async run(signal: AbortSignal): Promise<void> {
    this.terms += 1;
    this.begun.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }
}

@Injectable()
class Synchronous {
  @Locked('goods:<id>')
  async isFree(id: number): Promise<boolean> {
    return id > 0;
  }
}

@Injectable()
class Stock {
  @Locked('goods:<id>')
  async buy(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Wrapped {
  @Foreign()
  @Locked('goods:<id>')
  async buy(id: number): Promise<number> {
    return id;
  }
}

@Controller()
class GoodsController {
  constructor(private readonly locks: LockService) {}

  @Get('buy/:id')
  @Locked('goods:<id>')
  async buy(@Param('id') id: string): Promise<number | undefined> {
    return this.locks.current()?.fencingToken && Number(id);
  }
}

describe.each(Object.entries(PROXIES))('an application with an %s proxy around each provider', (kind, decorate) => {
  it('starts one leader for one instance, even if two providers have it', async () => {
    const again = { provide: 'again', inject: [Reports], useFactory: (reports: Reports) => reports };
    const { app } = await start(decorate, { imports: [inMemory()], providers: [Reports, again] });
    const reports = app.get(Reports);
    await reports.begun.promise;
    const listed = await infosOf(reports.locks.list());
    expect(reports.terms).toBe(1);
    expect(listed).toMatchObject([{ isHeld: true, waitingHere: 0, waiting: [] }]);
  });

  it('refuses a synchronous method at start', async () => {
    const started = start(decorate, { imports: [inMemory()], providers: [Synchronous] });
    await expect(started).rejects.toThrow(/Synchronous\.isFree is @Locked and declares that it returns boolean/);
  });

  it('warns of a decorator that replaces the method', async () => {
    const { logged } = await start(decorate, { imports: [inMemory()], providers: [Wrapped] });
    expect(logged).toEqual([expect.stringMatching(/^Wrapped\.buy: another decorator is above @Locked/)]);
  });

  it('locks a handler, and says in one line if Nest cannot see its metadata', async () => {
    const { app, logged } = await start(decorate, { imports: [inMemory()], controllers: [GoodsController] });
    const response = await fetch(`${await app.getUrl()}/buy/7`, { headers: { connection: 'close' } });
    expect(await response.text()).toBe('7');
    const line = /^GoodsController\.buy: the `instrument` of the application replaces these handlers/;
    expect(logged.map((each) => line.test(each))).toEqual(kind === 'binding' ? [true] : []);
  });

  it('gives an instance that two applications have the service of the one that started last', async () => {
    const stock = new Stock();
    for (let time = 1; time <= 2; time += 1) {
      const providers = [{ provide: Stock, useValue: stock }];
      const { app } = await start(decorate, { imports: [inMemory()], providers });
      expect(await app.get(Stock).buy(7)).toBe(7);
      await app.close();
    }
  });

  it('says in one line that a test has replaced the service', async () => {
    const replaced = { provide: LockService, useFactory: () => createTestLocks() };
    const locks = inMemory();
    const imports = [{ ...locks, providers: [...(locks.providers ?? []), replaced] }];
    const { app, logged } = await start(decorate, { imports, providers: [Synchronous, Reports] });
    expect(logged).toEqual([
      expect.stringMatching(/^LockService was replaced by another one\. So this module checks no/),
    ]);
    expect(app.get(Reports).terms).toBe(0);
  });
});

describe('an application with proxies on a Redis that evicts locks', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ local: true, args: ['--maxmemory-policy', 'volatile-lru', '--maxmemory', '100mb'] });
  });
  afterAll(() => server.stop());

  it.each(Object.entries(PROXIES))('does not start with checks: error (%s)', async (_kind, decorate) => {
    const imports = [lockModule({ redis: server.url, checks: 'error', requestTimeoutMs: 60_000 })];
    await expect(start(decorate, { imports })).rejects.toThrow(/may delete locks that are held/);
  });
});
