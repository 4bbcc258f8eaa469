import type { Lock } from '../engine/lock.js';
import type { LeaderCallbacks } from '../engine/leadership.js';
import { checkAt } from './option-table.js';
import type { ResolvedLockOptions } from './resolve-options.js';

/**
 * The options of `LockService.lead()`.
 *
 * @publicApi
 */
export interface LeadOptions {
  /**
   * The lease in milliseconds. If the leader's process dies, the next leader takes over within this time. A leader that
   * cannot reach Redis is deposed within this time. The leader renews the lock after each third of the lease.
   *
   * @default the `ttlMs` of the module
   * @minimum 50
   */
  readonly ttlMs?: number | undefined;

  /** Closes the leadership when the signal aborts. `onDeposed` gets the reason of the signal. */
  readonly signal?: AbortSignal | undefined;

  /**
   * Called at the beginning of each term, with a hold whose `signal` aborts at the end of the term. Work that runs
   * inside can acquire the same resource again. The term continues even if this function returns or releases its hold.
   *
   * If this function throws or rejects, the error is logged and the leader steps down. The candidate campaigns again
   * after a pause of 1 to 2 s. Each further failure doubles the pause, up to 30 s.
   */
  readonly onElected?: ((lock: Lock) => unknown) | undefined;

  /**
   * Called once at the end of each term, even if `onElected` is still running. The reason is a `LockLostError` if the
   * lock was lost, a `LockClosedError` if the leadership was closed, or the error of `onElected`. This candidate
   * campaigns again when both functions have settled. An error is logged, and so are functions that have not settled
   * after 10 s.
   */
  readonly onDeposed?: ((reason: unknown) => unknown) | undefined;
}

/** How a candidate acquires its lock, regardless of the module's defaults. */
const LEADER = {
  mode: 'exclusive',
  waitMs: Infinity,
  // A candidate campaigns through an outage.
  unavailableAfterMs: Infinity,
  maxWaiting: Infinity,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  warnHeldMs: false,
  onLost: 'ignore',
  awaitRelease: true,
} as const;

/**
 * Returns the options of a leadership, with the module's as defaults.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function resolveLeadOptions(
  given: LeadOptions,
  { ttlMs: defaultTtlMs }: ResolvedLockOptions,
): { readonly candidacy: LeaderCallbacks; readonly lock: ResolvedLockOptions } {
  const { ttlMs = defaultTtlMs, signal, ...candidacy } = checkAt('lead()', given);
  return { candidacy, lock: { ...LEADER, ttlMs, signal } };
}
