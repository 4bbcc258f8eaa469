import { type DynamicModule, Module } from '@nestjs/common';
import { SystemClock } from '../clock/clock.js';
import { getLockServiceToken } from '../nest/service-token.js';
import type { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { BOARD_SETTINGS, type BoardSettings, boardControllerAt } from './board.controller.js';
import { checkBoardOptions, type RedisLockBoardOptions } from './board-options.js';
import { LockBoard } from './lock-board.js';

/**
 * A page of all locks of a `RedisLockModule`: who holds them, and who waits. Import it next to `RedisLockModule`:
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
export class RedisLockBoardModule {
  /**
   * Configures the page.
   *
   * @throws {LockConfigError} if an option is not allowed, or if there is no guard and `unprotected` is not true.
   */
  static forRoot(options: RedisLockBoardOptions): DynamicModule {
    const { name = DEFAULT_INSTANCE, route = 'locks', guards = [], imports = [], ...rest } = checkBoardOptions(options);
    // Nest 10 treats modules with equal metadata as one. The route distinguishes two boards of an application.
    const settings: BoardSettings = { name, route, ...rest };
    return {
      module: RedisLockBoardModule,
      imports,
      controllers: [boardControllerAt(route, guards)],
      providers: [
        { provide: BOARD_SETTINGS, useValue: settings },
        {
          provide: LockBoard,
          inject: [getLockServiceToken(name)],
          useFactory: (locks: LockService) => new LockBoard(locks, new SystemClock()),
        },
      ],
    };
  }
}
