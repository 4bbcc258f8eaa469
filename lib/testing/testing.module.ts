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
 * The options of {@link RedisLockTestingModule}: those of `RedisLockModule`, and a clock.
 *
 * @publicApi
 */
export interface TestingOptions extends RedisLockModuleOptions {
  /** For example a `ManualClock`. */
  readonly clock?: Clock;
}

/**
 * `RedisLockModule` on the in-memory store: real locks, queues and errors, inside one process and without Redis.
 *
 * @publicApi
 */
export class RedisLockTestingModule {
  /** Takes the place of `RedisLockModule.forRoot()` in a test. */
  static forRoot(given: TestingOptions & RedisLockModuleExtras = {}): DynamicModule {
    const { clock = new SystemClock(), ...options } = given;
    const definition = RedisLockModule.forRoot({ store: memory(), ...options });
    const { name, isGlobal: _isGlobal, ...moduleOptions } = { store: memory(), ...options };
    const runtime = { provide: LockRuntime, useFactory: () => LockRuntime.start(moduleOptions, name, clock) };
    return { ...definition, providers: [...(definition.providers ?? []), runtime] };
  }
}

/**
 * A lock service on the in-memory store, outside of any module: for unit tests of what injects one.
 *
 * @publicApi
 */
export function createTestLocks({ clock = new SystemClock(), ...options }: TestingOptions = {}): LockService {
  return LockRuntime.start({ store: memory(), ...options }, DEFAULT_INSTANCE, clock).service;
}

/**
 * Gives locks to an instance that Nest did not make, so that its `@Locked` methods can be called in a unit test.
 *
 * ```ts
 * const goods = withLocks(new GoodsService(repository));
 * ```
 *
 * @param instance what was made with `new`; it is changed, and returned.
 * @param locks the service to lock with; one of its own, in memory, by default. Give the same to several instances that
 * must exclude each other.
 * @param name the module instance that the methods name in `@Locked(…, { name })`.
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
