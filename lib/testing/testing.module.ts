import type { DynamicModule } from '@nestjs/common';
import { type Clock, SystemClock } from '../core/time/clock.js';
import type { LockService } from '../lock.service.js';
import { LockRuntime } from '../lock-runtime.js';
import { serviceProperty } from '../decorators/locked.decorator.js';
import { RedisLockModule } from '../redis-lock.module.js';
import type { RedisLockModuleExtras } from '../redis-lock.module-definition.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { memory } from '../stores/memory/memory.store.js';

/**
 * The options of {@link RedisLockTestingModule}: the options of `RedisLockModule`, and a clock.
 *
 * @publicApi
 */
export interface TestingOptions extends RedisLockModuleOptions {
  /** The clock, for example a `ManualClock`. Default: the system's clock. */
  readonly clock?: Clock;
}

/**
 * `RedisLockModule` with the store `memory()`: real locks, queues and errors in one process, without Redis.
 *
 * @publicApi
 */
export class RedisLockTestingModule {
  /**
   * Replaces `RedisLockModule.forRoot()` in a test.
   *
   * @throws LockConfigError at start if an option cannot work.
   */
  static forRoot(given: TestingOptions & RedisLockModuleExtras = {}): DynamicModule {
    const { clock = new SystemClock(), ...options } = given;
    const definition = RedisLockModule.forRoot({ store: memory(), ...options });
    const { name, isGlobal: _isGlobal, ...moduleOptions } = { store: memory(), ...options };
    const runtime = { provide: LockRuntime, useFactory: () => LockRuntime.start(moduleOptions, name, clock) };
    return { ...definition, providers: [...(definition.providers ?? []), runtime] };
  }
}

/**
 * Returns a lock service with the store `memory()`, without a Nest module: for unit tests of a class that injects one.
 *
 * @throws LockConfigError if an option cannot work.
 *
 * @publicApi
 */
export function createTestLocks({ clock = new SystemClock(), ...options }: TestingOptions = {}): LockService {
  return LockRuntime.start({ store: memory(), ...options }, DEFAULT_INSTANCE, clock).service;
}

/**
 * Gives locks to an instance that Nest did not create, so that a unit test can call its `@Locked` methods. Changes the
 * instance and returns it.
 *
 * ```ts
 * const goods = withLocks(new GoodsService(repository));
 * ```
 *
 * @param instance an instance created with `new`.
 * @param locks the lock service. Default: one of its own, in memory. Pass the same service to instances that must
 * exclude each other.
 * @param name the module instance that the methods name in `@Locked(…, { name })`. Default: `default`.
 *
 * @publicApi
 */
export function withLocks<T extends object>(
  instance: T,
  locks: LockService = createTestLocks(),
  name: string = DEFAULT_INSTANCE,
): T {
  Object.defineProperty(instance, serviceProperty(name), { value: locks, configurable: true });
  return instance;
}
