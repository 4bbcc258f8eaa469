import type { WaitingCaller } from '../acquire/acquire-options.js';
import { describeCall, type LockCall } from '../events/call.js';
import type { Grant } from '../lease/grant.js';

/**
 * A lock that this module instance holds for a caller.
 *
 * @publicApi
 */
export interface LocalHold extends LockCall {
  /** The fencing token. Undefined if the store gives none. */
  readonly fencingToken: number | undefined;
  /** The time since the grant, in milliseconds. */
  readonly heldMs: number;
  /** The time until the local deadline without a renewal, in milliseconds. */
  readonly expiresInMs: number;
  /** How many uses have not ended, nested holds included. 0 if only a lock scope keeps the lock. */
  readonly holds: number;
}

/**
 * A caller of this module instance that waits for a lock.
 *
 * @publicApi
 */
export interface LocalWaiter extends LockCall {
  /** The time since the call, in milliseconds. */
  readonly waitedMs: number;
}

/**
 * What a module instance holds and waits for.
 *
 * @publicApi
 */
export interface LocalLockState {
  /** The locks that callers hold, the oldest first. */
  readonly holds: readonly LocalHold[];
  /** The callers that wait, the longest wait first. */
  readonly waiting: readonly LocalWaiter[];
}

/** Returns the public description of what an instance holds and waits for at `now`. */
export function toLocalState(grants: Iterable<Grant>, waiting: Iterable<WaitingCaller>, now: number): LocalLockState {
  const holds = Array.from(grants, (grant): LocalHold => {
    return {
      ...describeCall(grant, grant.options),
      fencingToken: grant.token,
      heldMs: now - grant.grantedAt,
      expiresInMs: Math.max(0, grant.deadline - now),
      holds: grant.useCount,
    };
  });
  const waiters = Array.from(waiting, (caller): LocalWaiter => {
    return { ...describeCall(caller, caller.options), waitedMs: now - caller.enteredAt };
  });
  return {
    holds: holds.toSorted((a, b) => b.heldMs - a.heldMs),
    waiting: waiters.toSorted((a, b) => b.waitedMs - a.waitedMs),
  };
}
