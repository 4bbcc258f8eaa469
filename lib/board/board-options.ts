import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { checkOptions, oneOf, type OptionRules } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import { instanceName } from '../options/redis-lock.options.js';

/**
 * The options of `RedisLockBoardModule.forRoot()`.
 *
 * @publicApi
 */
export interface RedisLockBoardOptions {
  /**
   * The path of the page, behind the application's global prefix: letters, digits, `-`, `_`, `.`, `~` and `/`.
   *
   * @default 'locks'
   */
  readonly route?: string | undefined;
  /**
   * Guards of all routes of the board, as for `@UseGuards()`. At least one, unless `unprotected` is true. Nest creates
   * them inside the board's module: `imports` brings what they inject.
   */
  readonly guards?: readonly (Type<CanActivate> | CanActivate)[] | undefined;
  /**
   * `true`: the board has no guard of its own. Use it only if something else denies access, such as a global guard or a
   * proxy, or on a developer's machine. Not together with `guards`. Requests to a host name other than localhost are
   * refused, unless `hosts` contains it.
   *
   * @default false
   */
  readonly unprotected?: boolean | undefined;
  /**
   * `true`: the page can release locks by force. The holder's work continues until it notices.
   *
   * @default false
   */
  readonly allowRelease?: boolean | undefined;
  /**
   * The host names of the page: `admin.example.com`, or `.example.com` with all its subdomains.
   * Requests with another `Host` get the status 403, apart from localhost and IP addresses. So the page of another site
   * cannot reach the board through a name that resolves to this machine (DNS rebinding). Default: all names if there
   * are `guards`, none if `unprotected` is true.
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * The name of the module instance whose locks are shown.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
  /** Modules with the providers that the guards inject. */
  readonly imports?: ModuleMetadata['imports'] | undefined;
}

const isGuard = (value: unknown): boolean =>
  typeof value === 'function' || typeof (value as Partial<CanActivate> | null)?.canActivate === 'function';

const HOST = /^\.?[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i;
const isHost = (value: unknown): boolean => typeof value === 'string' && HOST.test(value);

const RULES: OptionRules<RedisLockBoardOptions> = {
  route: {
    allowed: "a path of letters, digits, '-', '_', '.', '~' and '/'",
    fits: (value) => typeof value === 'string' && /^[\w.~/-]*$/.test(value),
  },
  guards: { allowed: 'a list of guards', fits: (value) => Array.isArray(value) && value.every(isGuard) },
  unprotected: oneOf(true, false),
  allowRelease: oneOf(true, false),
  hosts: {
    allowed: 'a list of host names without a port, such as admin.example.com or .example.com',
    fits: (value) => Array.isArray(value) && value.every(isHost),
  },
  name: instanceName,
  imports: { allowed: 'a list', fits: Array.isArray },
};

/** Checks the options of a board. @throws LockConfigError if one is not allowed, or nothing protects the page. */
export function checkBoardOptions(given: RedisLockBoardOptions): RedisLockBoardOptions {
  const place = 'RedisLockBoardModule.forRoot()';
  const known = checkOptions<RedisLockBoardOptions>(place, given, RULES);
  const { guards = [], unprotected = false } = known;
  if (guards.length > 0 && unprotected) {
    throw new LockConfigError(`${place}: unprotected and guards are both set; use only one of them.`);
  }
  if (guards.length === 0 && !unprotected) {
    throw new LockConfigError(
      `${place}: guards is missing or empty, so everyone could see the locks; ` +
        'give at least one guard, or unprotected: true if something else protects the page.',
    );
  }
  return known;
}
