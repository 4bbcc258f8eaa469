import {
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  Inject,
  Module,
  type NestModule,
} from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, ApplicationConfig } from '@nestjs/core';
import { LockExceptionFilter } from './lock-exception.filter.js';
import { LockRuntime } from './lock-runtime.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { ConfigurableModuleClass, type RedisLockModuleExtras } from './redis-lock.module-definition.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

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
export type RedisLockModuleAsyncOptions = ConfigurableModuleAsyncOptions<RedisLockModuleOptions, 'createRedisLockOptions'> &
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
  providers: [
    { provide: APP_INTERCEPTOR, useClass: LockedInterceptor },
    { provide: APP_FILTER, useClass: LockExceptionFilter },
  ],
})
export class RedisLockModule extends ConfigurableModuleClass implements NestModule, BeforeApplicationShutdown {
  constructor(
    @Inject(LockRuntime) private readonly runtime: LockRuntime,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
  ) {
    super();
  }

  /** Locks with these options; without any, on `redis://127.0.0.1:6379`. */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras = {}): DynamicModule {
    return super.forRoot(options);
  }

  /** Locks with options that other providers give. */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    return super.forRootAsync(options);
  }

  /**
   * Not about middleware: this is the last moment at which the order of the application's interceptors counts. Ours goes
   * to the head, so that what others do after the handler, a commit for example, is still done under the lock.
   *
   * @internal
   */
  configure(): void {
    const interceptors = this.config.getGlobalInterceptors();
    const at = interceptors.findIndex((interceptor) => interceptor instanceof LockedInterceptor);
    if (at > 0) interceptors.unshift(...interceptors.splice(at, 1));
  }

  /** @internal */
  beforeApplicationShutdown(): Promise<void> {
    return this.runtime.close();
  }
}
