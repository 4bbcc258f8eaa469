import {
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  Inject,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef, type ModulesContainer } from '@nestjs/core';
import { ApplicationInterceptor } from './locked/application.interceptor.js';
import { checkLockedMethods } from './locked/check-locked-methods.js';
import { ErrorResponses } from './locked/error-responses.js';
import { LockExceptionFilter } from './locked/lock-exception.filter.js';
import { checkLeaderMethods, startLeaders } from './locked/leader-methods.js';
import type { LockRuntime } from './lock-runtime.js';
import { isSameService } from './lock.service.js';
import { LockedInterceptor } from './locked/locked.interceptor.js';
import { modulesOf } from './locked/providers.js';
import {
  checkAsyncOptions,
  ConfigurableModuleClass,
  copyModuleOptions,
  LOCK_RUNTIME,
  PROVIDED_SERVICE,
  type RedisLockModuleExtras,
} from './redis-lock.module-definition.js';
import type { RedisLockModuleOptions } from './options/redis-lock.options.js';

/**
 * A class that creates the options of the module, for `useClass` and `useExisting` of `forRootAsync()`.
 *
 * @publicApi
 */
export interface RedisLockOptionsFactory {
  createRedisLockOptions(): RedisLockModuleOptions | Promise<RedisLockModuleOptions>;
}

/**
 * The options of `RedisLockModule.forRootAsync()`: `useFactory` with `inject`, `useClass`, or `useExisting`. `name` is
 * next to them, because it is part of the injection token.
 *
 * @publicApi
 */
export type RedisLockModuleAsyncOptions = ConfigurableModuleAsyncOptions<
  RedisLockModuleOptions,
  'createRedisLockOptions'
> &
  RedisLockModuleExtras;

/**
 * Distributed locks on Redis. Import it once, in the root module: `RedisLockModule.forRoot()`.
 *
 * It provides `LockService` and registers the interceptor and the exception filter of `@Locked` for the whole
 * application. Call `app.enableShutdownHooks()`, so that locks are released when the process receives a signal to stop.
 *
 * @publicApi
 */
@Module({})
export class RedisLockModule
  extends ConfigurableModuleClass
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly modules: ModulesContainer;

  constructor(
    @Inject(LOCK_RUNTIME) private readonly runtime: LockRuntime,
    @Inject(ApplicationConfig) config: ApplicationConfig,
    @Inject(ModuleRef) moduleRef: ModuleRef,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(PROVIDED_SERVICE) private readonly provided: unknown,
  ) {
    super();
    this.modules = modulesOf(moduleRef);
    ErrorResponses.of(config).add(runtime.http, runtime.service.engine);
    prependInterceptor(config, adapterHost);
    prependFilter(config, adapterHost);
  }

  /**
   * Configures the module. Without options, it uses `redis://127.0.0.1:6379`. If Redis is down, the application still
   * starts, with one warning.
   *
   * @throws {LockConfigError} immediately, if the options are not an object, or if `name` or `isGlobal` is not allowed.
   * When the application starts, if another option is not allowed or the store does not support it, or if
   * `checks` is `error` and a check finds a mistake.
   */
  static override forRoot(options: RedisLockModuleOptions & RedisLockModuleExtras = {}): DynamicModule {
    return super.forRoot(copyModuleOptions('RedisLockModule.forRoot()', options));
  }

  /**
   * Configures the module with options from other providers.
   *
   * @throws {LockConfigError} immediately, if `options` is not allowed. At application start, as `forRoot()` does.
   */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    return super.forRootAsync(checkAsyncOptions(options));
  }

  /** @internal */
  async onModuleInit(): Promise<void> {
    const { startChecks } = this.runtime;
    // A test has replaced the service, so no call uses this module's connections.
    if (!this.isUsed) return startChecks.warn(REPLACED);
    checkLockedMethods(this.runtime.service, this.modules, startChecks);
    checkLeaderMethods(this.runtime.service, this.modules);
    this.runtime.connect();
    await this.runtime.preflight();
  }

  /** @internal */
  onApplicationBootstrap(): void {
    if (!this.isUsed) return;
    startLeaders(this.runtime.service, this.modules);
    this.runtime.watchShutdownHooks({ modules: this.modules, adapterHost: this.adapterHost });
  }

  /** Whether the service that this module provides is its own. */
  private get isUsed(): boolean {
    return isSameService(this.runtime.service, this.provided);
  }

  /** @internal */
  // The first hook of a shutdown, so that other candidates can lead before this application has ended its work.
  onModuleDestroy(): void {
    this.runtime.beginShutdown();
  }

  /** @internal */
  // Before Nest closes its servers, so that messages and jobs that have their locks can still reply.
  beforeApplicationShutdown(): Promise<void> {
    return this.runtime.settle();
  }

  /** @internal */
  // After Nest has closed its servers, because a request that needs a lock may arrive until then.
  onApplicationShutdown(): Promise<void> {
    return this.runtime.close();
  }
}

const REPLACED =
  'LockService was replaced by another one. So this module checks no @Locked method, starts no @WhileLeader method ' +
  'and opens no connection.';

/**
 * Puts the interceptor before those of the user, so that their work after the handler, such as a commit, runs under the
 * lock.
 */
function prependInterceptor(config: ApplicationConfig, adapterHost: HttpAdapterHost): void {
  // The module's constructor calls this before the user registers interceptors and before a microservice copies them.
  const interceptors = config.getGlobalInterceptors();
  const registered = interceptors.some((interceptor) => interceptor instanceof LockedInterceptor);
  if (!registered) interceptors.unshift(new ApplicationInterceptor(config, adapterHost));
}

/** Puts the filter before those of the user, because Nest tries the last filter first. */
function prependFilter(config: ApplicationConfig, adapterHost: HttpAdapterHost): void {
  const filters = config.getGlobalFilters();
  const registered = filters.some((filter) => filter instanceof LockExceptionFilter);
  if (!registered) filters.unshift(new LockExceptionFilter(adapterHost, config));
}
