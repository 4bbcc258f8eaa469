import type { LockMode } from '../../../lib/core/store/lock-store.js';
import type { WaitOptions } from '../../../lib/core/acquire/acquire-options.js';

/** The part of an AbortSignal that a line uses, with a state that can be restored. */
export interface CallerSignal {
  /** Aborts the signal. Undefined if the caller no longer waits. */
  leave: (() => void) | undefined;
}

/** Returns a caller that waits for the lock without limit. */
export function callerOf(
  leaseMs: number,
  mode: LockMode,
): { readonly signal: CallerSignal; readonly options: WaitOptions } {
  const signal: CallerSignal = { leave: undefined };
  const abortSignal = {
    reason: 'aborted by the caller',
    addEventListener: (_: string, listener: () => void) => (signal.leave = listener),
    removeEventListener: () => (signal.leave = undefined),
  } as unknown as AbortSignal;
  const options: WaitOptions = {
    mode,
    ttlMs: leaseMs,
    maxHoldMs: Infinity,
    minHoldMs: 0,
    waitMs: Infinity,
    signal: abortSignal,
  };
  return { signal, options };
}
