import { Logger } from '@nestjs/common';
import { type Clock, SystemClock } from './core/time/clock.js';
import { LockConfigError } from './core/errors.js';
import { LockEngine } from './core/lock-engine.js';
import { modesOf } from './core/store/lock-mode.js';
import type { LockStore } from './core/store/lock-store.js';
import { createKeyFactory } from './core/keys/resource-key.js';
import { LockService } from './lock.service.js';
import { type OpenedRedis, openRedis } from './redis/open-redis.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from './options/redis-lock.options.js';
import { checkLockOptions, lockDefaultsOf, type ResolvedOptions, resolveOptions } from './options/resolve-options.js';
import { token } from './stores/token/token.store.js';

/** One module instance at work: what was opened for it, and how it ends. */
export class LockRuntime {
  private constructor(
    /** Its name. */
    readonly instance: string,
    readonly service: LockService,
    private readonly engine: LockEngine,
    private readonly opened: OpenedStore,
    private readonly graceMs: number,
  ) {}

  /** @throws LockConfigError for options that cannot work, alone or with the store. */
  static start(given: RedisLockModuleOptions, instance: string = DEFAULT_INSTANCE, clock: Clock = new SystemClock()) {
    const options = resolveOptions(given);
    const opened = openStore(options, clock);
    const { store } = opened;
    checkStore(store, options);
    const logger = new Logger(instance === DEFAULT_INSTANCE ? 'RedisLockModule' : `RedisLockModule:${instance}`);
    const engine = new LockEngine({
      store,
      clock,
      instance,
      requestTimeoutMs: options.requestTimeoutMs,
      passing: { maxLocalPasses: options.maxLocalPasses, maxLocalHoldMs: options.maxLocalHoldMs },
      lockDelayMs: options.lockDelayMs,
      checkTtl: (ttlMs) => checkLockOptions({ ttlMs }, 'extend()'),
      warn: (message) => logger.warn(message),
    });
    const service = new LockService(engine, createKeyFactory(options), lockDefaultsOf(options));
    return new LockRuntime(instance, service, engine, opened, options.shutdownGraceMs);
  }

  /** Connects, in the background: an application starts without Redis. */
  connect(): void {
    this.opened.connect();
  }

  /** Lets running holds finish, releases the rest, and closes what `start` opened. */
  async close(): Promise<void> {
    await this.engine.close(this.graceMs);
    await this.opened.close();
  }
}

/** A store, and what was opened for it. */
interface OpenedStore {
  readonly store: LockStore;
  connect(): void;
  close(): Promise<void>;
}

function openStore({ store, redis, requestTimeoutMs, replicas }: ResolvedOptions, clock: Clock): OpenedStore {
  if (typeof store === 'object') return { store, connect: () => undefined, close: () => Promise.resolve() };
  const opened: OpenedRedis[] = [];
  const open = (where: ResolvedOptions['redis']): OpenedRedis => {
    const endpoint = openRedis(where, clock);
    opened.push(endpoint);
    return endpoint;
  };
  let main: OpenedRedis | undefined;
  const opening = (): OpenedRedis => (main ??= open(redis));
  const made = (store ?? token())({
    clock,
    requestTimeoutMs,
    redis: () => opening().client,
    subscriber: () => opening().subscriber(),
    replicas: replicas && { ...replicas, connect: () => opening().replicaConnection() },
    open: (where) => open(where as ResolvedOptions['redis']),
  });
  const connect = (): void => {
    for (const endpoint of opened) endpoint.connect();
  };
  const close = async (): Promise<void> => {
    await made.close();
    await Promise.all(opened.map((endpoint) => endpoint.close()));
  };
  return { store: made, connect, close };
}

/** What a store cannot do is refused at start, never ignored. */
function checkStore({ capabilities }: LockStore, { ttlMs, replicas }: ResolvedOptions): void {
  if (replicas !== undefined && !capabilities.replicas) {
    throw new LockConfigError('replicas: this store does not wait for them; allowed is the store token().');
  }
  if (!modesOf(capabilities).includes('exclusive')) {
    throw new LockConfigError('store: it has no exclusive mode; allowed is a store that has.');
  }
  if (ttlMs < capabilities.resolutionMs || ttlMs % capabilities.resolutionMs !== 0) {
    const allowed = `a multiple of ${capabilities.resolutionMs}, the resolution of the store`;
    throw new LockConfigError(`ttlMs is ${ttlMs}; allowed is ${allowed}.`);
  }
}
