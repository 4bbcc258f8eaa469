import { ConfigurableModuleBuilder, type DynamicModule, type Provider } from '@nestjs/common';
import { getLockServiceToken } from './decorators/inject-lock-service.decorator.js';
import { LockRuntime } from './lock-runtime.js';
import { DEFAULT_INSTANCE, type RedisLockModuleOptions } from './options/redis-lock.options.js';

/**
 * What `forRoot` takes beside the options, and `forRootAsync` outside its factory.
 *
 * @publicApi
 */
export interface RedisLockModuleExtras {
  /**
   * Names the instance, where an application has several: `@InjectLockService(name)`, `@Locked(…, { name })`.
   *
   * @default 'default'
   */
  readonly name?: string;
  /**
   * Makes the lock service known in every module, without importing this one there.
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

/** Adds the providers of one instance, under its name. */
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
