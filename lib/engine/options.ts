import type { CallDetails } from '../events/call.js';
import { driftOf } from '../clock/clock.js';

/** What happens if the lock is lost while work runs under it: `throw` a `LockLostError`, or `ignore` the loss. */
export type OnLost = 'throw' | 'ignore';

/** How a lock is held. All times are in milliseconds. */
export interface HoldOptions extends CallDetails {
  /** The lease of every renewal. */
  readonly ttlMs: number;
  /** The longest hold. Infinity for no limit. */
  readonly maxHoldMs: number;
  /** The key stays closed for this long after the grant, even if the work ends sooner. */
  readonly minHoldMs: number;
  /** For this long after the grant, work that ended without an error is done. Default: it is never done. */
  readonly onceMs?: number | undefined;
  /** A hold that is renewed for longer than this is reported once. False or Infinity: never. Default: false. */
  readonly warnHeldMs?: number | false | undefined;
  /** Whether the end of the work waits for the reply to the release. Default: true. */
  readonly awaitRelease?: boolean | undefined;
}

/** How a lock is acquired, with all defaults filled in. */
export interface AcquireOptions extends HoldOptions {
  /** How long to wait for other holders. 0 does not wait, Infinity waits forever. */
  readonly waitMs: number;
  /** How long to wait for the first reply, if that is longer than `waitMs`. */
  readonly firstReplyMs?: number | undefined;
  /**
   * How long to wait for a store that cannot be reached or refuses all requests, regardless of `waitMs`. Default: until
   * `waitMs` has elapsed.
   */
  readonly unavailableAfterMs?: number | undefined;
  /** How many callers of this instance may wait for the key. Further callers are refused at once. Default: Infinity. */
  readonly maxWaiting?: number | undefined;
  /** Ends the wait with its reason when it aborts. */
  readonly signal: AbortSignal | undefined;
  /** What a loss means to the lock scopes that keep the lock. Default: `throw`. */
  readonly onLost?: OnLost | undefined;
}

/** How far this instance may pass a lock on before other instances can get it. */
export interface PassingLimits {
  /** How many times one grant of the store may be passed on. 0: strict order, every grant comes from the store. */
  readonly maxLocalPasses: number;
  /** How many milliseconds after the grant it may be passed on. */
  readonly maxLocalHoldMs: number;
}

const STRICT: PassingLimits = { maxLocalPasses: 0, maxLocalHoldMs: 0 };
// A grant reserves a fencing token for every pass.
const THROUGHPUT: PassingLimits = { maxLocalPasses: 16, maxLocalHoldMs: 50 };

/** Returns how far a lock may be passed on. */
export function passingLimitsOf(fairness: 'throughput' | 'strict'): PassingLimits {
  return fairness === 'strict' ? STRICT : THROUGHPUT;
}

/** Returns the lease to request: that of renewals, or less if `maxHoldMs` ends sooner. */
export function leaseOf({ ttlMs, maxHoldMs }: Pick<HoldOptions, 'ttlMs' | 'maxHoldMs'>): number {
  return Math.min(ttlMs, Math.ceil(maxHoldMs + driftOf(ttlMs)));
}
