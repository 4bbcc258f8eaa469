import {
  type DynamicModule,
  Inject,
  Module,
  type OnModuleDestroy,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { SystemClock } from '../core/time/clock.js';
import { getLockServiceToken } from '../decorators/inject-lock-service.decorator.js';
import type { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { BOARD_OPTIONS, createBoardController } from './board.controller.js';
import {
  checkAsyncOptions,
  checkBoardOptions,
  checkRootOptions,
  type LockBoardRequest,
  type RedisLockBoardAsyncOptions,
  type RedisLockBoardModuleExtras,
  type RedisLockBoardOptions,
} from './board-options.js';
import { LockServiceSource } from './board-source.js';
import { LockBoard } from './lock-board.js';

const BOARD_PLACE = Symbol.for('nestjs-redis-lock:board-place');

/**
 * A page of all locks of a `RedisLockModule`: who holds them, who waits, which were lost. Import it next to
 * `RedisLockModule`:
 *
 * ```ts
 * RedisLockBoardModule.forRoot({ route: 'locks', guards: [AdminGuard] });
 * ```
 *
 * The page is a controller of the application, so the application's guards, global prefix and versioning apply. It
 * reads the locks at most once a second, and only while a browser shows it.
 *
 * @publicApi
 */
@Module({})
export class RedisLockBoardModule implements OnModuleInit, OnModuleDestroy {
  constructor(@Inject(LockBoard) private readonly board: LockBoard) {}

  /**
   * Configures the page.
   *
   * @throws {LockConfigError} at once if an option is not allowed, or if there is no guard and `unprotected` is not
   * true.
   */
  static forRoot<R = LockBoardRequest>(options: RedisLockBoardModuleExtras & RedisLockBoardOptions<R>): DynamicModule {
    const place = 'RedisLockBoardModule.forRoot()';
    const { allowRelease, hosts, who, ...extras } = checkRootOptions(
      place,
      options as RedisLockBoardModuleExtras & RedisLockBoardOptions<never>,
    );
    return moduleOf(extras, { provide: BOARD_OPTIONS, useValue: { allowRelease, hosts, who } });
  }

  /**
   * Configures the page with `allowRelease`, `hosts` and `who` from a factory.
   *
   * @throws {LockConfigError} at once, as `forRoot()` does, or when the application starts, if the factory returns
   * an option that is not allowed.
   */
  static forRootAsync<R = LockBoardRequest>(options: RedisLockBoardAsyncOptions<R>): DynamicModule {
    const place = 'RedisLockBoardModule.forRootAsync()';
    const { useFactory, inject = [], ...extras } = checkAsyncOptions(place, options);
    const useChecked = async (...args: never[]): Promise<RedisLockBoardOptions<never>> =>
      checkBoardOptions(place, await useFactory(...args));
    return moduleOf(extras, { provide: BOARD_OPTIONS, inject, useFactory: useChecked });
  }

  /** @internal */
  onModuleInit(): void {
    this.board.open();
  }

  /** @internal */
  onModuleDestroy(): void {
    this.board.close();
  }
}

function moduleOf(extras: RedisLockBoardModuleExtras, options: Provider): DynamicModule {
  const { name = DEFAULT_INSTANCE, route, imports = [] } = extras;
  const board: Provider = {
    provide: LockBoard,
    inject: [getLockServiceToken(name)],
    useFactory: (locks: LockService) => boardOf(name, locks),
  };
  return {
    module: RedisLockBoardModule,
    imports,
    controllers: [createBoardController(extras)],
    // Nest 10 treats modules with equal metadata as one, and the two controller classes share a name.
    providers: [options, board, { provide: BOARD_PLACE, useValue: { name, route } }],
  };
}

function boardOf(name: string, locks: LockService): LockBoard {
  const clock = new SystemClock();
  return new LockBoard(name, new LockServiceSource(locks, clock), clock);
}
