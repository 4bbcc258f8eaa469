import { checkOptions, milliseconds, oneOf, type OptionRules, wholeNumberFrom } from '../../core/check-options.js';
import type { RetryPolicy } from '../../core/store/lock-store.js';

/** What the times in a timestamp lock's value count. */
export type TimestampUnit = 's' | 'ms';

/**
 * The options of {@link timestamp}: as the other clients of the same keys have them. Their lease is the module's `ttlMs`,
 * and their keys are made to the letter by its `key`.
 *
 * @publicApi
 */
export interface TimestampOptions {
  /**
   * What the times in the value count: seconds or milliseconds since 1970. All clients of a key have to agree. With seconds
   * leases are whole seconds: another `ttlMs` of the module is refused at start; another one of a single lock, or a
   * `minHoldMs`, is rounded up to the next second in Redis.
   *
   * @default 's'
   */
  readonly unit?: TimestampUnit;

  /**
   * Whether each verb is one Lua script. Off: plain SETNX, GET, GETSET, SET, EXPIRE and DEL, for servers and proxies without
   * scripts; between two of them others may come, and a command that is delayed in the network for longer than the lease,
   * or sent again after the connection was lost, can meet another holder's key.
   *
   * @default true
   */
  readonly scripts?: boolean;

  /**
   * How often a lock that others hold is asked for again before whoever waits is refused, if `waitMs` is not over before; a
   * whole number from 0 up, or Infinity. Who waits for the same lock in one module instance is asked for together; each has
   * a count of its own.
   *
   * @default Infinity
   */
  readonly retryCount?: number;

  /**
   * The pause before asking again, in milliseconds; each one is jittered down to half of it. Long: a lock that became free
   * stays unused. Short: everybody who waits costs requests.
   *
   * @default 100
   * @minimum 1
   */
  readonly retryDelayMs?: number;
}

/** The options with every default filled in. */
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

/** @throws LockConfigError naming the option, what was given and what is allowed. */
export function resolveTimestampOptions(given: TimestampOptions): ResolvedTimestampOptions {
  const known = checkOptions('timestamp()', given, RULES);
  const { unit, scripts, retryCount, retryDelayMs } = { ...DEFAULTS, ...known };
  // The first ask is no retry.
  return { unit, scripts, retry: { pauseMs: retryDelayMs, limit: retryCount + 1 } };
}
