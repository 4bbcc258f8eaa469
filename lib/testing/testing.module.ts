import type { DynamicModule } from '@nestjs/common';
import { checkOptions, checkValue, copyOptions, hasMethods, type OptionRule } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import { type Clock, SystemClock } from '../clock/clock.js';
import type { LockService } from '../lock.service.js';
import { LockRuntime } from '../lock-runtime.js';
import { bindLocksAt } from '../nest/bind.js';
import { loggerOf } from '../nest/logger.js';
import { RedisLockModule } from '../nest/module.js';
import {
  copyModuleOptions,
  FOR_ROOT,
  LOCK_RUNTIME,
  MODULE_EXTRAS,
  type ModuleExtras,
  REDIS_LOCK_MODULE_OPTIONS,
  type RedisLockModuleExtras,
} from '../nest/module-definition.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { memory } from '../stores/memory/memory.store.js';
import { startOnBench, TestBench } from './test-bench.js';

/**
 * The options of {@link RedisLockTestingModule}: the options of `RedisLockModule`, and a clock.
 *
 * @publicApi
 */
export interface TestingOptions extends RedisLockModuleOptions {
  /** The clock, for example a `ManualClock`. Default: the system's clock. */
  readonly clock?: Clock | undefined;
  /**
   * The bench that decides what happens to the locks, from `createTestBench()`. It has a clock and a store, so neither
   * may be given with it. Default: none.
   */
  readonly bench?: TestBench | undefined;
}

const clockRule: OptionRule = {
  allowed: 'a Clock such as ManualClock: an object with now(), wallTime(), schedule() and random()',
  fits: (value) => hasMethods(value, ['now', 'wallTime', 'schedule', 'random']),
};
const benchRule: OptionRule = {
  allowed: 'the result of createTestBench()',
  fits: (value) => value instanceof TestBench,
};
const builderRule: OptionRule = {
  allowed: 'the result of Test.createTestingModule()',
  fits: (value) => hasMethods(value, ['overrideProvider', 'compile']),
};

const KNOWN = { ...FOR_ROOT, clock: undefined, bench: undefined };

/**
 * `RedisLockModule` with the store `memory()`: real locks, queues and errors in one process, without Redis.
 *
 * @publicApi
 */
export class RedisLockTestingModule {
  /**
   * Replaces `RedisLockModule.forRoot()` in a test.
   *
   * @throws LockConfigError at startup if an option is invalid, and immediately if it is unknown.
   */
  static forRoot(given: TestingOptions & RedisLockModuleExtras = {}): DynamicModule {
    const place = 'RedisLockTestingModule.forRoot()';
    const { clock, bench, ...options } = copyModuleOptions(place, given, KNOWN);
    const start = starterOf(place, { clock, bench, store: options.store });
    const definition = RedisLockModule.forRoot({ store: memory(), ...options });
    const { name, isGlobal: _isGlobal, ...moduleOptions } = { store: memory(), ...options };
    const runtime = { provide: LOCK_RUNTIME, useFactory: () => start(moduleOptions, name) };
    return { ...definition, providers: [...(definition.providers ?? []), runtime] };
  }
}

type Start = (options: RedisLockModuleOptions, name: string | undefined) => LockRuntime;

/**
 * Returns a function that starts the module instances of a test.
 *
 * @throws LockConfigError if the clock or the bench is not valid, or if an option is given that the bench already has.
 */
function starterOf(place: string, { bench, clock, store }: Pick<TestingOptions, 'bench' | 'clock' | 'store'>): Start {
  if (bench === undefined) {
    const own = clock === undefined ? new SystemClock() : clock;
    checkValue(place, 'clock', own, clockRule);
    return (options, name) => LockRuntime.start(options, name, { clock: own, logger: loggerOf(name) });
  }
  checkValue(place, 'bench', bench, benchRule);
  const beside = clock === undefined ? store && 'store' : 'clock';
  if (beside === undefined) return (options, name) => startOnBench(bench, options, name);
  throw new LockConfigError(
    `${place}: bench and ${beside} are both set; use only one of them, because a bench has its own ${beside}.`,
  );
}

/** The part of Nest's `TestingModuleBuilder` that {@link withMemoryLocks} uses. */
interface ProviderOverrides {
  overrideProvider(token: unknown): {
    useFactory(options: { factory: (...args: never[]) => unknown; inject: unknown[] }): unknown;
  };
}

/**
 * Makes all instances of `RedisLockModule` in a testing module lock in memory, with the options of the application.
 * Opens no connection to Redis, so the options `redis`, `store` and `replicas` have no effect, and no server is
 * checked. Each instance has its own memory. Changes the builder and returns it.
 *
 * ```ts
 * const module = await withMemoryLocks(Test.createTestingModule({ imports: [AppModule] })).compile();
 * ```
 *
 * @param builder the result of `Test.createTestingModule()`.
 * @param options `clock`: the clock of all instances, for example a `ManualClock`. Default: the system's clock.
 * `bench`: the bench of all instances, which then share its memory.
 * @throws LockConfigError if an argument has the wrong type.
 *
 * @publicApi
 */
export function withMemoryLocks<B extends ProviderOverrides>(
  builder: B,
  options: Pick<TestingOptions, 'bench' | 'clock'> = {},
): B {
  checkValue('withMemoryLocks()', 'the builder', builder, builderRule);
  const rules = { bench: benchRule, clock: clockRule };
  const { bench, clock } = checkOptions('withMemoryLocks()', options, rules);
  const start = starterOf('withMemoryLocks()', { bench, clock });
  const factory = (given: RedisLockModuleOptions, { name }: ModuleExtras): LockRuntime => {
    const { redis: _redis, replicas: _replicas, ...others } = given;
    return start({ ...others, store: memory() }, name);
  };
  builder.overrideProvider(LOCK_RUNTIME).useFactory({ factory, inject: [REDIS_LOCK_MODULE_OPTIONS, MODULE_EXTRAS] });
  return builder;
}

/**
 * Returns a lock service with the store `memory()`, without a Nest module, for unit tests of a class that injects one.
 *
 * @throws LockConfigError if an option is invalid.
 *
 * @publicApi
 */
export function createTestLocks(given: TestingOptions = {}): LockService {
  const { clock, bench, ...options } = copyOptions('createTestLocks()', given);
  const start = starterOf('createTestLocks()', { clock, bench, store: options.store });
  return start({ store: memory(), ...options }, DEFAULT_INSTANCE).service;
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
 * @param locks the lock service. Default: a new one, in memory. Pass the same service to instances that must exclude
 * each other.
 * @param name the module instance that the methods name in `@Locked(…, { name })`. Default: `default`.
 * @throws LockConfigError if an argument has the wrong type.
 *
 * @publicApi
 */
export function withLocks<T extends object>(
  instance: T,
  locks: LockService = createTestLocks(),
  name: string = DEFAULT_INSTANCE,
): T {
  return bindLocksAt('withLocks()', instance, locks, name);
}
