import {
  checkOptions,
  milliseconds,
  oneOf,
  type OptionRules,
  wholeNumberFrom,
} from '../../core/checks/check-options.js';
import type { RetryPolicy } from '../../core/store/lock-store.js';

/** The unit of the expiry in a key: seconds or milliseconds since 1970. */
export type TimestampUnit = 's' | 'ms';

/**
 * The options of {@link timestamp}. They must match the other clients of the same keys. The lease is the module's
 * `ttlMs`, and the module's `key` option makes the names of the keys.
 *
 * @publicApi
 */
export interface TimestampOptions {
  /**
   * The unit of the expiry in a key: seconds or milliseconds since 1970. All clients of a key must use the same. With
   * seconds, leases are whole seconds: a `ttlMs` of the module that is not a multiple of 1,000 throws at startup. A
   * `ttlMs` of one lock and a `minHoldMs` are rounded up to the next second in Redis.
   *
   * @default 's'
   */
  readonly unit?: TimestampUnit | undefined;

  /**
   * `true`: each step is one Lua script. `false`: SETNX, GET, GETSET, SET, EXPIRE and DEL, for servers and proxies
   * without scripts. Commands of other clients may run between two of these. A command that is delayed for longer than
   * the lease, or repeated after a lost connection, can hit the key of another holder. Leases below 1,000 ms are
   * refused.
   *
   * @default true
   */
  readonly scripts?: boolean | undefined;

  /**
   * How often a held lock is requested again before a waiting caller is refused, unless its `waitMs` ends first: a
   * whole number, at least 0, or Infinity. Callers of one module instance that wait for the same lock share requests.
   * Each has its own count.
   *
   * @default Infinity
   */
  readonly retryCount?: number | undefined;

  /**
   * The pause between two requests of a waiting caller, in milliseconds, at least 1. Each pause is jittered down to
   * half of it. Long: a released lock stays unused for longer. Short: waiting costs more requests.
   *
   * @default 100
   * @minimum 1
   */
  readonly retryDelayMs?: number | undefined;
}

/** The options with their defaults. */
export interface ResolvedTimestampOptions {
  readonly unit: TimestampUnit;
  readonly scripts: boolean;
  readonly retry: RetryPolicy;
}

const DEFAULTS: Required<TimestampOptions> = { unit: 's', scripts: true, retryCount: Infinity, retryDelayMs: 100 };

const RULES: OptionRules<TimestampOptions> = {
  unit: oneOf('s', 'ms'),
  scripts: oneOf(true, false),
  retryCount: wholeNumberFrom(0),
  retryDelayMs: milliseconds(1, 2 ** 31 - 1),
};

/** Returns the options with their defaults. @throws LockConfigError if an option is unknown or not allowed. */
export function resolveTimestampOptions(given: TimestampOptions): ResolvedTimestampOptions {
  const known = checkOptions('timestamp()', given, RULES);
  const { unit, scripts, retryCount, retryDelayMs } = { ...DEFAULTS, ...known };
  // The first request is not a retry.
  return { unit, scripts, retry: { pauseMs: retryDelayMs, limit: retryCount + 1 } };
}
