import type { CanActivate, FactoryProvider, ModuleMetadata, Type } from '@nestjs/common';
import { aFunction, checkOptions, oneOf, type OptionRule, type OptionRules } from '../core/checks/check-options.js';
import { LockConfigError } from '../core/errors.js';
import { instanceName } from '../options/instance-name.js';

/**
 * The part of a request of Express or Fastify that the board reads.
 *
 * @publicApi
 */
export interface LockBoardRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /**
   * `http` or `https`, as the framework reports it. Behind a proxy, this needs the framework's option to trust the
   * proxy.
   */
  readonly protocol?: string | undefined;
  /** The remote address. */
  readonly ip?: string | undefined;
  /** What a guard or a strategy of Passport has set. */
  readonly user?: unknown;
}

/**
 * The options of the board that Nest needs before it creates providers: next to the others in `forRoot()`, and outside
 * of the factory in `forRootAsync()`.
 *
 * @publicApi
 */
export interface RedisLockBoardModuleExtras {
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
   * The name of the module instance whose locks are shown.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
  /** Modules with the providers that the guards and the factory inject. */
  readonly imports?: ModuleMetadata['imports'] | undefined;
}

/**
 * The options of the board that a factory may return.
 *
 * @publicApi
 */
export interface RedisLockBoardOptions<R = LockBoardRequest> {
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
   * Returns who sends a request, for the log line of a release by force. Default: the name or id of `request.user` and
   * the remote address, or only that address.
   */
  readonly who?: ((request: R) => string) | undefined;
}

/**
 * The options of `RedisLockBoardModule.forRootAsync()`.
 *
 * @publicApi
 */
export interface RedisLockBoardAsyncOptions<R = LockBoardRequest> extends RedisLockBoardModuleExtras {
  readonly useFactory: (...args: never[]) => RedisLockBoardOptions<R> | Promise<RedisLockBoardOptions<R>>;
  readonly inject?: FactoryProvider['inject'] | undefined;
}

const list: OptionRule = { allowed: 'a list', fits: Array.isArray };
const isGuard = (value: unknown): boolean =>
  typeof value === 'function' || typeof (value as Partial<CanActivate> | null)?.canActivate === 'function';

const EXTRAS_RULES: OptionRules<RedisLockBoardModuleExtras> = {
  route: {
    allowed: "a path of letters, digits, '-', '_', '.', '~' and '/'",
    fits: (value) => typeof value === 'string' && /^[\w.~/-]*$/.test(value),
  },
  guards: { allowed: 'a list of guards', fits: (value) => Array.isArray(value) && value.every(isGuard) },
  unprotected: oneOf(true, false),
  name: instanceName,
  imports: list,
};

const HOST = /^\.?[a-z\d_-]+(?:\.[a-z\d_-]+)*$/i;
const isHost = (value: unknown): boolean => typeof value === 'string' && HOST.test(value);

const RULES: OptionRules<RedisLockBoardOptions<never>> = {
  allowRelease: oneOf(true, false),
  hosts: {
    allowed: 'a list of host names without a port, such as admin.example.com or .example.com',
    fits: (value) => Array.isArray(value) && value.every(isHost),
  },
  who: aFunction,
};

/** Checks the options that a factory returned. @throws LockConfigError if one is not allowed. */
export function checkBoardOptions(place: string, given: RedisLockBoardOptions<never>): RedisLockBoardOptions<never> {
  return checkOptions<RedisLockBoardOptions<never>>(place, given, RULES);
}

/** Checks all options of `forRoot()`. @throws LockConfigError if one is not allowed, or nothing protects the page. */
export function checkRootOptions<T extends RedisLockBoardModuleExtras & RedisLockBoardOptions<never>>(
  place: string,
  given: T,
): T {
  const known = checkOptions<RedisLockBoardModuleExtras & RedisLockBoardOptions<never>>(place, given, {
    ...EXTRAS_RULES,
    ...RULES,
  });
  checkProtection(place, known);
  return known as T;
}

/** Checks the options of `forRootAsync()`. @throws LockConfigError as {@link checkRootOptions} does. */
export function checkAsyncOptions<R>(
  place: string,
  given: RedisLockBoardAsyncOptions<R>,
): RedisLockBoardAsyncOptions<R> {
  const rules = { ...EXTRAS_RULES, useFactory: aFunction, inject: list };
  const known = checkOptions<RedisLockBoardAsyncOptions<R>>(place, given, rules);
  if (known.useFactory === undefined) {
    throw new LockConfigError(`${place}: there is no source of options; use useFactory.`);
  }
  checkProtection(place, known);
  return known;
}

function checkProtection(place: string, { guards = [], unprotected = false }: RedisLockBoardModuleExtras): void {
  if (guards.length > 0 && unprotected) {
    throw new LockConfigError(`${place}: unprotected and guards are both set; use only one of them.`);
  }
  if (guards.length === 0 && !unprotected) {
    throw new LockConfigError(
      `${place}: guards is missing or empty, so everyone could see the locks; ` +
        'give at least one guard, or unprotected: true if something else protects the page.',
    );
  }
}
