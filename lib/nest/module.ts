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
import { ApplicationConfig, DiscoveryService, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import type { Timer } from '../clock/clock.js';
import { shared } from '../common/brand.js';
import { LockConfigError } from '../common/errors.js';
import type { LockRuntime } from '../lock-runtime.js';
import { isSameService } from '../lock.service.js';
import type { RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { checkProviders, singletonsOf } from './checks.js';
import { ErrorResponses } from './error-responses.js';
import { startLeaders } from './leader.js';
import {
  ConfigurableModuleClass,
  copyAsyncOptions,
  copyModuleOptions,
  LOCK_RUNTIME,
  MODULE_EXTRAS,
  type ModuleExtras,
  PROVIDED_SERVICE,
  type RedisLockModuleExtras,
} from './module-definition.js';
import { getLockServiceToken } from './service-token.js';
import { warnWithoutHooks } from './shutdown-hooks.js';

/**
 * A class that creates the options of the module, for `useClass` and `useExisting` of `forRootAsync()`.
 *
 * @publicApi
 */
export interface RedisLockOptionsFactory {
  createRedisLockOptions(): RedisLockModuleOptions | Promise<RedisLockModuleOptions>;
}

/**
 * The options of `RedisLockModule.forRootAsync()`: `useFactory` with `inject`, `useClass`, or `useExisting`. `name`
 * and `isGlobal` are next to them, because Nest needs them before it creates providers.
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
  /** The injection token of the lock service. */
  private readonly token: unknown;
  private hooksTimer: Timer | undefined;

  constructor(
    @Inject(LOCK_RUNTIME) private readonly runtime: LockRuntime,
    @Inject(PROVIDED_SERVICE) private readonly provided: unknown,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(MODULE_EXTRAS) extras: ModuleExtras,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(ApplicationConfig) application: ApplicationConfig,
  ) {
    super();
    claimName(modules, extras);
    this.token = getLockServiceToken(extras.name);
    ErrorResponses.of(application).add(runtime.http);
  }

  /**
   * Configures the module. Without options, it uses `redis://127.0.0.1:6379`. If Redis is down, the application still
   * starts, with one warning.
   *
   * @throws {LockConfigError} immediately, if the options are not an object, if one is unknown, or if `name` or
   * `isGlobal` is not allowed.
   * When the application starts, if another option is not allowed or the store does not support it, if another module
   * of the application has the same name, or if `checks` is `error` and a check has a finding.
   * @throws {LockUnavailableError} when the application starts, if `checks` is `error` and Redis cannot be reached.
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
    return super.forRootAsync(copyAsyncOptions(options));
  }

  /** @internal */
  async onModuleInit(): Promise<void> {
    const { runtime, token } = this;
    // A test has replaced the service, so no call uses this module's connections.
    if (!this.isUsed) return runtime.warn(REPLACED);
    const { service, checkLevel: level } = runtime;
    checkProviders(this.discovery, { service, token, level, warn: (line) => runtime.warn(line) });
    runtime.connect();
    await runtime.preflight();
  }

  /** @internal */
  onApplicationBootstrap(): void {
    if (!this.isUsed) return;
    const { modules, adapterHost, runtime } = this;
    const { leaseAfterKillMs: ttlMs, service } = runtime;
    for (const instance of singletonsOf(this.discovery)) startLeaders(instance, service, this.token);
    const { clock } = service.engine;
    if (ttlMs > 0)
      this.hooksTimer = warnWithoutHooks({ modules, adapterHost, clock, ttlMs, warn: (line) => runtime.warn(line) });
  }

  /** @internal */
  // The first hook of a shutdown, so that other candidates can lead before this application has ended its work.
  onModuleDestroy(): void {
    this.hooksTimer?.cancel();
    this.runtime.beginShutdown();
  }

  /** @internal */
  // Before Nest closes its servers, so that messages and jobs that have their locks can still reply.
  beforeApplicationShutdown(): Promise<void> {
    return this.runtime.settle();
  }

  /** @internal */
  onApplicationShutdown(): Promise<void> {
    return this.runtime.retire();
  }

  /** Whether the service that this module provides is its own. */
  private get isUsed(): boolean {
    return isSameService(this.runtime.service, this.provided);
  }
}

const REPLACED =
  'LockService was replaced by another one. So this module checks no @Locked method, starts no @WhileLeader method ' +
  'and opens no connection.';

/** The names of the module instances of each application. */
const names = shared('module-names', () => new WeakMap<ModulesContainer, Set<string>>());

/**
 * Registers a module instance of an application.
 *
 * @param modules the modules of the application.
 * @throws LockConfigError if another module instance of the application has the name.
 */
function claimName(modules: ModulesContainer, { name, isGlobal }: ModuleExtras): void {
  const claimed = names.get(modules) ?? new Set();
  if (claimed.has(name)) throw new LockConfigError(importedTwice(modules, name, isGlobal));
  names.set(modules, claimed.add(name));
}

function importedTwice(modules: ModulesContainer, name: string, isGlobal: boolean): string {
  const isTest = [...modules.values()].some(({ metatype }) => metatype.name === 'RootTestModule');
  const problem =
    `This application imports RedisLockModule twice as '${name}'. Two modules make two LockServices: their nested ` +
    'calls would wait for each other, and their keys could differ.';
  const advice = isGlobal
    ? 'Import it once, in AppModule: it is global, so every module can inject LockService.'
    : 'With isGlobal: false, keep what forRoot() returns in one constant, and import that constant in each module.';
  const inTest = isTest ? ' In a test, import AppModule or RedisLockModule, not both.' : '';
  return `${problem} ${advice} For a second Redis or prefix, give one of them a name.${inTest}`;
}
