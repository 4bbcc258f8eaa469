import type { Target } from '../events/call.js';
import type { HoldUse } from '../hold/lock.js';
import type { OnLost } from '../hold/run-under.js';
import type { Grant, HoldOptions, OwnershipDeps, PassingLimits } from '../lease/grant.js';
import type { Releaser } from '../lease/releaser.js';
import type { LockStore } from '../store/lock-store.js';
import type { Outage, StoreHealth } from '../store/store-health.js';
import { driftOf } from '../time/clock.js';
import type { LimitRequest } from '../time/timeout-pool.js';
import type { Admission } from './admission.js';
import type { Turns } from './turns.js';

/** How a caller waits for a lock. */
export interface WaitOptions extends HoldOptions {
  /** How long to wait for other holders, in milliseconds. 0 does not wait, Infinity waits forever. */
  readonly waitMs: number;
  /**
   * How long to wait for a store that cannot be reached or refuses all requests, in milliseconds, regardless of
   * `waitMs`. Infinity, the default: until `waitMs` has elapsed.
   */
  readonly unavailableAfterMs?: number | undefined;
  /**
   * How many callers of the module instance may wait for the key. Further callers are refused immediately. Default:
   * Infinity. See {@link READERS_PER_PLACE}.
   */
  readonly maxWaiting?: number;
  /** Ends the wait with its reason when it aborts. */
  readonly signal: AbortSignal | undefined;
  /**
   * Called with the grant before any other code can run. The callback is then removed, because the grant keeps its
   * options and would otherwise keep the caller's handle.
   */
  onGranted?: ((grant: Grant) => void) | undefined;
}

/** A caller that waits for a lock. */
export interface WaitingCaller extends Target {
  readonly options: WaitOptions;
  /** The local moment of the call. */
  readonly enteredAt: number;
}

/** How a lock is acquired, with all defaults filled in. */
export interface AcquireOptions extends WaitOptions, HoldUse {
  /** What a loss means to the lock scopes that keep the lock. Default: `throw`. */
  readonly onLost?: OnLost;
}

/**
 * How many waiting readers of a module instance count as one caller for `maxWaiting`, because one request serves all of
 * them. In strict order, each reader counts as one caller.
 */
export const READERS_PER_PLACE = 50;

/** Returns how far a module instance may pass a lock on. In strict order, each grant comes from the store. */
export function passingLimitsOf(fairness: 'throughput' | 'strict'): PassingLimits {
  return fairness === 'strict' ? STRICT : THROUGHPUT;
}

// A fencing token is reserved for every pass. Tokens are microseconds and must not run ahead of the clock.
const THROUGHPUT: PassingLimits = { maxLocalPasses: 16, maxLocalHoldMs: 50 };
const STRICT: PassingLimits = { maxLocalPasses: 0, maxLocalHoldMs: 0 };

/** What lines and acquire requests use of their engine. */
export interface AcquireDeps extends OwnershipDeps {
  readonly store: Pick<LockStore, 'acquire' | 'capabilities'>;
  readonly releaser: Pick<Releaser, 'release' | 'releaseBehind' | 'isReleasing'>;
  readonly health: StoreHealth;
  readonly requestTimeoutMs: number;
  /** By how much Redis keeps a lock longer than its lease, in milliseconds (`lockDelayMs`). */
  readonly lockDelayMs: number;
  /** Limits how many requests are without a reply. Default: no limit. */
  readonly admission?: Admission;
  /** Shares keys with other instances if the store has no queue. */
  readonly turns?: Turns;
  /** Calls a function when a request got no reply, and the key's server was silent, for `requestTimeoutMs`. */
  readonly limitRequest: LimitRequest;
  /** Returns an owner that no other attempt has. */
  nextOwner(): string;
}

/** Returns the lease to request, in milliseconds: that of renewals, or less if `maxHoldMs` ends sooner. */
export function leaseOf(options: WaitOptions): number {
  const { ttlMs, maxHoldMs } = options;
  return Math.min(ttlMs, Math.ceil(maxHoldMs + driftOf(ttlMs)));
}

/** Returns the outage of the key's server, if a caller with these options no longer waits for its end. */
export function outageFor(
  health: Pick<StoreHealth, 'outage'>,
  key: string,
  { unavailableAfterMs = Infinity }: Pick<WaitOptions, 'unavailableAfterMs'>,
): Outage | undefined {
  const outage = health.outage(key);
  return outage !== undefined && outage.seenForMs >= unavailableAfterMs ? outage : undefined;
}
