import { Logger } from '@nestjs/common';
import { type Clock, SystemClock } from './core/clock.js';
import { LockConfigError } from './core/errors.js';
import { LockEngine } from './core/lock-engine.js';
import type { LockStore } from './core/lock-store.js';
import { createKeyFactory } from './core/resource-key.js';
import { LockService } from './lock.service.js';
import { type OpenedRedis, openRedis } from './open-redis.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from './redis-lock.options.js';
import { checkLockOptions, lockDefaultsOf, type ResolvedOptions, resolveOptions } from './resolve-options.js';
import { token } from './stores/token.store.js';

/** One module instance at work: what was opened for it, and how it ends. */
export class LockRuntime {
  private constructor(
    readonly service: LockService,
    private readonly engine: LockEngine,
    private readonly closers: readonly (() => Promise<void>)[],
    private readonly graceMs: number,
  ) {}

  /** @throws LockConfigError for options that cannot work, alone or with the store. */
  static start(given: RedisLockModuleOptions, instance: string = DEFAULT_INSTANCE, clock: Clock = new SystemClock()) {
    const options = resolveOptions(given);
    const { store, closers } = openStore(options, clock);
    checkStore(store, options);
    const logger = new Logger(instance === DEFAULT_INSTANCE ? 'RedisLockModule' : `RedisLockModule:${instance}`);
    const engine = new LockEngine({
      store,
      clock,
      instance,
      requestTimeoutMs: options.requestTimeoutMs,
      checkTtl: (ttlMs) => checkLockOptions({ ttlMs }, 'extend()'),
      warn: (message) => logger.warn(message),
    });
    const service = new LockService(engine, createKeyFactory(options), lockDefaultsOf(options));
    return new LockRuntime(service, engine, closers, options.shutdownGraceMs);
  }

  /** Lets running holds finish, releases the rest, and closes what `start` opened. */
  async close(): Promise<void> {
    await this.engine.close(this.graceMs);
    for (const close of this.closers) await close();
  }
}

function openStore({ store, redis, requestTimeoutMs }: ResolvedOptions, clock: Clock) {
  if (typeof store === 'object') return { store, closers: [] };
  let opened: OpenedRedis | undefined;
  const made = (store ?? token())({
    clock,
    requestTimeoutMs,
    redis: () => (opened ??= openRedis(redis, clock)).client,
  });
  return { store: made, closers: [() => made.close(), async () => opened?.close()] };
}

/** What a store cannot do is refused at start, never ignored. */
function checkStore({ capabilities }: LockStore, { ttlMs }: ResolvedOptions): void {
  if (!capabilities.modes.includes('exclusive')) {
    throw new LockConfigError('store: it has no exclusive mode; allowed is a store that has.');
  }
  if (ttlMs < capabilities.resolutionMs || ttlMs % capabilities.resolutionMs !== 0) {
    const allowed = `a multiple of ${capabilities.resolutionMs}, the resolution of the store`;
    throw new LockConfigError(`ttlMs is ${ttlMs}; allowed is ${allowed}.`);
  }
}
