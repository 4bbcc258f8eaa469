import type { LockMode } from '../../lib/core/store/lock-store.js';
import type { WaitOptions } from '../../lib/core/acquire/waiters.js';

/** As much of an AbortSignal as a gate uses, with a state that can be put back. */
export interface CallerSignal {
  /** Makes the caller leave; undefined once it does not wait any more. */
  leave: (() => void) | undefined;
}

/** Somebody who wants the lock, for as long as it takes. */
export function callerOf(
  leaseMs: number,
  mode: LockMode,
): { readonly signal: CallerSignal; readonly terms: WaitOptions } {
  const signal: CallerSignal = { leave: undefined };
  const abortSignal = {
    reason: 'gone home',
    addEventListener: (_: string, listener: () => void) => (signal.leave = listener),
    removeEventListener: () => (signal.leave = undefined),
  } as unknown as AbortSignal;
  const terms: WaitOptions = {
    mode,
    ttlMs: leaseMs,
    // Renewal is left out of the model, but for the lease of a hand-off, which is made up for at once.
    renew: false,
    maxHoldMs: Infinity,
    minHoldMs: 0,
    waitMs: Infinity,
    signal: abortSignal,
  };
  return { signal, terms };
}
