import type { AddressInfo } from 'node:net';
import {
  type INestApplication,
  type LoggerService,
  Module,
  type ModuleMetadata,
  type NestApplicationOptions,
} from '@nestjs/common';
import { type AbstractHttpAdapter, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import type { LockRuntime } from '../../../lib/lock-runtime.js';
import { LOCK_RUNTIME } from '../../../lib/nest/module-definition.js';
import { lockModule } from '../../support/lock-module.js';
import type { InstanceOptions } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import type { StoppedServers } from '../../support/server-clock/stopped-servers.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';
import { LockLog } from './lock-log.js';
import { Room } from './room.js';

export type Platform = 'express' | 'fastify';

const adapters: Partial<Record<Platform, () => AbstractHttpAdapter>> = { express: () => new ExpressAdapter() };

/** The platforms of the tests that run on each. `fastify.slow.spec.ts` runs them again. */
export const PLATFORMS: Platform[] = ['express'];

/** Makes a platform known, with the function that creates its adapter. */
export function addPlatform(platform: Platform, adapter: () => AbstractHttpAdapter): void {
  adapters[platform] = adapter;
}

export interface AppSetUp extends ModuleMetadata {
  readonly platform?: Platform;
  /** The options of `RedisLockModule.forRoot()`, which is the first import. */
  readonly locks?: InstanceOptions;
  /** Returns the modules to import instead of it. */
  readonly lockModules?: (prefix: string) => NonNullable<ModuleMetadata['imports']>;
  readonly prefix?: string;
  readonly instrument?: NestApplicationOptions['instrument'];
  /** Called after the application is created and before it starts. */
  readonly prepare?: (app: INestApplication) => unknown;
}

export interface AppResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // oxlint-disable-next-line no-explicit-any -- the response of the application under test
  readonly body: any;
}

/** A running application, with what its tests observe. */
export class TestApp {
  readonly room: Room;
  readonly logged: string[];

  constructor(
    readonly nest: INestApplication,
    readonly prefix: string,
    readonly log: LockLog,
    logged: string[],
  ) {
    this.room = nest.get(Room);
    this.logged = logged;
  }

  get locks(): LockService {
    return this.nest.get(LockService);
  }

  get url(): string {
    const { port } = (this.nest.getHttpServer() as { address(): AddressInfo }).address();
    return `http://127.0.0.1:${port}`;
  }

  async call(path: string, init?: RequestInit): Promise<AppResponse> {
    // Not kept alive: a closing server would wait for the client.
    const headers = new Headers(init?.headers);
    headers.set('connection', 'close');
    const response = await fetch(this.url + path, { ...init, headers });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : text };
  }

  /** Reads the key from Redis, without the library. */
  async isLocked(resource: string, prefix = this.prefix): Promise<boolean> {
    return (await rawRedis().exists(keyOf(prefix, resource))) === 1;
  }

  async close(): Promise<void> {
    running.delete(this);
    await this.nest.close();
    this.log.close();
  }

  /** Ends what the modules keep open for later calls after `close()`. */
  async disconnect(): Promise<void> {
    const runtimes: LockRuntime[] = this.nest.get(LOCK_RUNTIME, { strict: false, each: true });
    await Promise.all(runtimes.map((runtime) => runtime.close()));
  }
}

const started = new Set<TestApp>();
const running = new Set<TestApp>();
let raw: Redis | undefined;
let stopped: StoppedServers | undefined;
let clock: ServerManualClock | undefined;

/** Lets the applications use a server whose clock stands still from now on, or the server of the run again. */
export function useServer(servers: StoppedServers | undefined): void {
  stopped = servers;
}

/** Returns the clock of the applications of a test, which are on a server that stands still. Otherwise undefined. */
export function clockOfApps(): ServerManualClock | undefined {
  return (clock ??= stopped?.clock());
}

const redisUrl = (): string => stopped?.url ?? testRedisUrl();

/** Returns a connection that the library does not use. */
export function rawRedis(): Redis {
  return (raw ??= new Redis(redisUrl()));
}

/** Returns the Redis key of a resource: `{lock_goods}:300`. */
export function keyOf(prefix: string, resource: string): string {
  const [family, ...rest] = resource.split(':');
  return [`{${prefix}${family}}`, ...rest].join(':');
}

export async function startApp(setUp: AppSetUp): Promise<TestApp> {
  const { platform = 'express', locks, lockModules, prefix = uniquePrefix(), instrument, prepare, ...metadata } = setUp;
  // On a busy machine a slow Redis is not an outage.
  const lockOptions = { redis: redisUrl(), clock: clockOfApps(), prefix, unavailableAfterMs: Infinity, ...locks };
  const imports = lockModules?.(prefix) ?? [lockModule(lockOptions)];
  @Module({
    ...metadata,
    imports: [...imports, ...(metadata.imports ?? [])],
    providers: [Room, ...(metadata.providers ?? [])],
  })
  class AppModule {}
  const logged: string[] = [];
  const adapter = adapters[platform]?.();
  if (adapter === undefined) throw new Error(`addPlatform() has not been called for ${platform}`);
  const options = { logger: recorder(logged), abortOnError: false, ...(instrument && { instrument }) };
  const nest = await NestFactory.create(AppModule, adapter, options);
  try {
    await prepare?.(nest);
    await nest.listen(0, '127.0.0.1');
  } catch (error) {
    await nest.close();
    throw error;
  }
  const app = new TestApp(nest, prefix, new LockLog(prefix), logged);
  started.add(app);
  running.add(app);
  return app;
}

/** Closes all applications of a test. For `afterEach`. */
export async function closeApps(): Promise<void> {
  const closing = async (): Promise<void> => {
    for (const app of running) await app.close();
    // Otherwise they would stay connected and log for a second, or as long as the clock stands still.
    for (const app of started) await app.disconnect();
  };
  await (clock?.until(closing()) ?? closing());
  started.clear();
  clock = undefined;
  await raw?.quit();
  raw = undefined;
}

/** Returns a logger that records warnings and errors and writes nothing. */
function recorder(lines: string[]): LoggerService {
  const keep =
    (level: string) =>
    (message: unknown): void => {
      lines.push(`${level} ${message instanceof Error ? withCause(message) : String(message)}`);
    };
  return {
    log: () => undefined,
    debug: () => undefined,
    verbose: () => undefined,
    warn: keep('warn'),
    error: keep('error'),
  };
}

/** Returns what the logger of Nest prints, without stacks. */
function withCause({ message, cause }: Error): string {
  return cause instanceof Error ? `${message} [cause]: ${cause.message}` : message;
}
