import {
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  Inject,
  Module,
  type NestInterceptor,
  type OnModuleInit,
} from '@nestjs/common';
import { APP_FILTER, ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { checkLockedMethods } from './locked/check-locked-methods.js';
import { LockExceptionFilter } from './locked/lock-exception.filter.js';
import { LockRuntime } from './lock-runtime.js';
import { LockedInterceptor } from './locked/locked.interceptor.js';
import { ConfigurableModuleClass, type RedisLockModuleExtras } from './redis-lock.module-definition.js';
import type { RedisLockModuleOptions } from './options/redis-lock.options.js';

/**
 * What makes the options of a module that is configured by a class.
 *
 * @publicApi
 */
export interface RedisLockOptionsFactory {
  createRedisLockOptions(): RedisLockModuleOptions | Promise<RedisLockModuleOptions>;
}

/**
 * The options of `RedisLockModule.forRootAsync()`: `useFactory` with `inject`, `useClass`, or `useExisting`. The name is
 * given here and not by the factory, because it is part of the injection token.
 *
 * @publicApi
 */
export type RedisLockModuleAsyncOptions = ConfigurableModuleAsyncOptions<
  RedisLockModuleOptions,
  'createRedisLockOptions'
> &
  RedisLockModuleExtras;

/**
 * Distributed locks on Redis. Import it once, at the root: `RedisLockModule.forRoot()`.
 *
 * It provides `LockService`, and registers the interceptor and the exception filter behind `@Locked` for the whole
 * application. Call `app.enableShutdownHooks()`, so that locks are released when the process is told to stop.
 *
 * @publicApi
 */
@Module({
  providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
})
export class RedisLockModule extends ConfigurableModuleClass implements OnModuleInit, BeforeApplicationShutdown {
  constructor(
    @Inject(LockRuntime) private readonly runtime: LockRuntime,
    @Inject(ApplicationConfig) config: ApplicationConfig,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {
    super();
    prependInterceptor(config.getGlobalInterceptors());
  }

  /** Locks with these options; without any, on `redis://127.0.0.1:6379`. */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras = {}): DynamicModule {
    return super.forRoot(options);
  }

  /** Locks with options that other providers give. */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    return super.forRootAsync(options);
  }

  /** @internal */
  onModuleInit(): void {
    checkLockedMethods(this.runtime.service, this.modules);
    this.runtime.connect();
  }

  /** @internal */
  beforeApplicationShutdown(): Promise<void> {
    return this.runtime.close();
  }
}

/**
 * Ours stands before those of the user, so that what they do after the handler, a commit for example, is still done under the
 * lock. When modules are made, none of the user's is registered yet; later a hybrid microservice may have read the order.
 */
function prependInterceptor(interceptors: NestInterceptor[]): void {
  const there = interceptors.some((interceptor) => interceptor instanceof LockedInterceptor);
  if (!there) interceptors.unshift(new LockedInterceptor());
}
