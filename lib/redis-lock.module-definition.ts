import { ConfigurableModuleBuilder, type DynamicModule, type Provider } from '@nestjs/common';
import { getLockServiceToken } from './decorators/inject-lock-service.decorator.js';
import { LockRuntime } from './lock-runtime.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from './options/redis-lock.options.js';

/**
 * The options of `RedisLockModule` that Nest needs before it creates providers: beside the others in `forRoot()`, and
 * outside of the factory in `forRootAsync()`.
 *
 * @publicApi
 */
export interface RedisLockModuleExtras {
  /**
   * The name of the module instance, if an application has several: `@InjectLockService(name)`, `@Locked(…, { name })`.
   *
   * @default 'default'
   */
  readonly name?: string;
  /**
   * Makes `LockService` available in every module, without importing this one there.
   *
   * @default true
   */
  readonly isGlobal?: boolean;
}

const EXTRAS: RedisLockModuleExtras = { name: DEFAULT_INSTANCE, isGlobal: true };

export const {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN: REDIS_LOCK_MODULE_OPTIONS,
  ASYNC_OPTIONS_TYPE,
} = new ConfigurableModuleBuilder<RedisLockModuleOptions>({ moduleName: 'RedisLock' })
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  .setExtras(EXTRAS, withInstance)
  .build();

/** Adds the providers of one module instance, under its name. */
function withInstance(definition: DynamicModule, { name = DEFAULT_INSTANCE, isGlobal = true }: RedisLockModuleExtras) {
  const service = getLockServiceToken(name);
  const providers: Provider[] = [
    {
      provide: LockRuntime,
      inject: [REDIS_LOCK_MODULE_OPTIONS],
      useFactory: (options: RedisLockModuleOptions) => LockRuntime.start(options, name),
    },
    { provide: service, inject: [LockRuntime], useFactory: (runtime: LockRuntime) => runtime.service },
  ];
  return {
    ...definition,
    global: isGlobal,
    providers: [...(definition.providers ?? []), ...providers],
    exports: [...(definition.exports ?? []), service],
  };
}
