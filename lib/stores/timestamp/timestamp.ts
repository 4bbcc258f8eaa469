import { checkOptions, milliseconds, oneOf, wholeNumberFrom } from '../../common/check-options.js';
import type { StoreFactory } from '../store-context.js';
import type { TimestampUnit } from './expiry-clock.js';
import { TimestampStore } from './timestamp.store.js';

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

const DEFAULTS: Required<TimestampOptions> = { unit: 's', scripts: true, retryCount: Infinity, retryDelayMs: 100 };

const RULES = {
  unit: oneOf('s', 'ms'),
  scripts: oneOf(true, false),
  retryCount: wholeNumberFrom(0),
  retryDelayMs: milliseconds(1, 2 ** 31 - 1),
};

/**
 * Keeps locks as keys whose value is the time of their expiry: the SETNX/GETSET pattern of the Redis page on
 * {@link https://redis.io/docs/latest/commands/setnx/ | SETNX}. For locks that are shared with services that already
 * use that pattern. For other locks, the store `token()` is safer and faster.
 *
 * Leases are measured by the clients' wall clocks, so these must agree to well within a lease. All clients of a key
 * should use leases of about the same length, because a client that loses the race for an expired lock overwrites the
 * winner's expiry. The store gives no fencing tokens and has no queue: waiting callers retry.
 *
 * With scripts, a second key `{key}||holder` makes repeated requests harmless, and shows whether another client has
 * written the key. A lock whose key another client wrote is lost, and its key is left as it is. The loser of a
 * race is tolerated in the first half of a lease of 1 s or more. With plain commands, leases below 1 s are refused, and
 * a request that is repeated or delayed beyond the lease can end the lock of another client.
 *
 * @throws LockConfigError if an option is unknown or not allowed.
 * @throws LockConfigError at the start of the module if the client is a Cluster.
 * @publicApi
 */
export function timestamp(options: TimestampOptions = {}): StoreFactory {
  const resolved = { ...DEFAULTS, ...checkOptions<TimestampOptions>('timestamp()', options, RULES) };
  return (context) => new TimestampStore(context, resolved);
}
