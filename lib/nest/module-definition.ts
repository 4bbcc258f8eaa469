import { ConfigurableModuleBuilder, type DynamicModule, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, DiscoveryModule } from '@nestjs/core';
import { checkName, copyOptions, withoutUndefined } from '../common/check-options.js';
import { keepOutside } from '../common/async-context.js';
import { LockConfigError } from '../common/errors.js';
import { checkAt, defaultsOf, optionsAt } from '../options/option-table.js';
import { LockRuntime } from '../lock-runtime.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { ApplicationInterceptor } from './interceptor.js';
import { LockExceptionFilter } from './lock-exception.filter.js';
import { loggerOf } from './logger.js';
import { getLockServiceToken } from './service-token.js';

/**
 * The options of `RedisLockModule` that Nest needs before it creates providers. They are next to the other options in
 * `forRoot()`, and outside the factory in `forRootAsync()`.
 */
export interface RedisLockModuleExtras {
  /**
   * The name of the module instance, if an application has several: `@InjectLockService(name)`, `@Locked(…, { name })`.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
  /**
   * Makes `LockService` available in every module, without importing this module there.
   *
   * @default true
   */
  readonly isGlobal?: boolean | undefined;
}

const EXTRAS: RedisLockModuleExtras = defaultsOf(optionsAt('extras'));

/** The options of `forRoot()`. */
export const FOR_ROOT: object = { ...optionsAt('module'), ...optionsAt('extras') };

/**
 * Returns a copy of a module's options. Checks all names, and the extras, which Nest needs before the application
 * starts. The values of all other options are checked when the application starts.
 *
 * @param known an object with a property for each known option.
 * @throws LockConfigError if the options cannot be read, an option is unknown, or an extra is not allowed.
 */
export function copyModuleOptions<T extends RedisLockModuleExtras>(
  place: string,
  given: T,
  known: object = FOR_ROOT,
): T {
  const options = copyOptions(place, given);
  for (const option of Object.keys(withoutUndefined(options))) checkName(place, option, known);
  const { name, isGlobal } = options;
  checkAt('extras', { name, isGlobal }, place);
  return options;
}

/** The names of what says where the options of `forRootAsync()` come from. */
const SOURCES = ['useFactory', 'useClass', 'useExisting'] as const;

// Nest itself reads the values of all but the extras.
const FOR_ROOT_ASYNC: object = {
  ...optionsAt('extras'),
  ...Object.fromEntries([...SOURCES, 'imports', 'inject', 'provideInjectionTokensFrom'].map((name) => [name, true])),
};

/**
 * Returns a copy of the options of `forRootAsync()`.
 *
 * @throws LockConfigError if an option is unknown, or if none says where the module's options come from.
 */
export function copyAsyncOptions<T extends RedisLockModuleExtras & { [K in (typeof SOURCES)[number]]?: unknown }>(
  given: T,
): T {
  const place = 'RedisLockModule.forRootAsync()';
  const options = copyModuleOptions(place, given, FOR_ROOT_ASYNC);
  if (SOURCES.some((name) => options[name] !== undefined)) return options;
  throw new LockConfigError(`${place}: there is no source of options; use useFactory, useClass or useExisting.`);
}

export const {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN: REDIS_LOCK_MODULE_OPTIONS,
  ASYNC_OPTIONS_TYPE,
} = new ConfigurableModuleBuilder<RedisLockModuleOptions>({ moduleName: 'RedisLock' })
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  .setExtras(EXTRAS, withInstance)
  .build();

// `Symbol.for`, because a process may load this package as CommonJS and as ES modules.
/** The token of the module instance's {@link ModuleExtras}. */
export const MODULE_EXTRAS = Symbol.for('nestjs-redis-lock:extras');
/** The token of the lock service that the module instance provides. A test may have replaced it. */
export const PROVIDED_SERVICE = Symbol.for('nestjs-redis-lock:provided-service');
/** The token of the {@link LockRuntime}. */
export const LOCK_RUNTIME = Symbol.for(
  'nestjs-redis-lock:runtime, import RedisLockModule.forRoot() in AppModule, and no bare RedisLockModule elsewhere',
);

/** The extras of a module instance, with their defaults. */
export type ModuleExtras = { readonly [K in keyof RedisLockModuleExtras]-?: NonNullable<RedisLockModuleExtras[K]> };

/** Adds the providers of one module instance, under its name. */
function withInstance(definition: DynamicModule, { name = DEFAULT_INSTANCE, isGlobal = true }: RedisLockModuleExtras) {
  // Before the application starts, which may happen in a tracer's span or in a request to a serverless function.
  keepOutside();
  const service = getLockServiceToken(name);
  const extras: ModuleExtras = { name, isGlobal };
  const providers: Provider[] = [
    { provide: MODULE_EXTRAS, useValue: extras },
    {
      provide: LOCK_RUNTIME,
      inject: [REDIS_LOCK_MODULE_OPTIONS],
      useFactory: (options: RedisLockModuleOptions) => LockRuntime.start(options, name, { logger: loggerOf(name) }),
    },
    { provide: service, inject: [LOCK_RUNTIME], useFactory: (runtime: LockRuntime) => runtime.service },
    { provide: PROVIDED_SERVICE, useExisting: service },
    { provide: APP_INTERCEPTOR, useClass: ApplicationInterceptor },
    { provide: APP_FILTER, useClass: LockExceptionFilter },
  ];
  return {
    ...definition,
    global: isGlobal,
    imports: [...(definition.imports ?? []), DiscoveryModule],
    providers: [...(definition.providers ?? []), ...providers],
    exports: [...(definition.exports ?? []), service],
  };
}
