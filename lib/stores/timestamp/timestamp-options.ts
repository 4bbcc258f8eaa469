import { LockConfigError } from '../../core/errors.js';
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

const RULES: Record<keyof TimestampOptions, { readonly allowed: string; readonly fits: (value: unknown) => boolean }> =
  {
    unit: { allowed: '"s" or "ms"', fits: (value) => value === 's' || value === 'ms' },
    scripts: { allowed: 'true or false', fits: (value) => typeof value === 'boolean' },
    retryCount: {
      allowed: 'a whole number from 0 up, or Infinity',
      fits: (value) => value === Infinity || (Number.isInteger(value) && (value as number) >= 0),
    },
    retryDelayMs: {
      allowed: `a number of milliseconds from 1 to ${2 ** 31 - 1}`,
      fits: (value) => typeof value === 'number' && value >= 1 && value < 2 ** 31,
    },
  };

/** @throws LockConfigError naming the option, what was given and what is allowed. */
export function resolveTimestampOptions(given: TimestampOptions): ResolvedTimestampOptions {
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  for (const [option, value] of Object.entries(known)) {
    if (!Object.hasOwn(RULES, option)) {
      const options = Object.keys(RULES).join(', ');
      throw new LockConfigError(`The options of timestamp(): there is no option ${option}; there are ${options}.`);
    }
    const { allowed, fits } = RULES[option as keyof TimestampOptions];
    if (!fits(value)) throw new LockConfigError(`timestamp(): ${option} is ${String(value)}; allowed is ${allowed}.`);
  }
  const { unit, scripts, retryCount, retryDelayMs } = { ...DEFAULTS, ...known };
  // The first ask is no retry.
  return { unit, scripts, retry: { pauseMs: retryDelayMs, limit: retryCount + 1 } };
}
