import { describeCall, type LockCall } from '../events/call.js';
import type { LockMode } from '../contract/store.js';
import type { Lock } from './lock.js';
import type { Waiter } from './waiter.js';

/** The names of a call, from its caller or its method. */
export type CallNames = Pick<LockCall, 'method' | 'label'>;

/** The calls of a module instance for one key. */
export interface KeyCalls {
  readonly locks: readonly Lock[];
  readonly waiting: readonly Waiter[];
}

/** Returns the calls of a module instance by key. @param only the only key of interest. Default: all keys. */
export function callsByKey(
  locks: Iterable<Lock>,
  waiting: Iterable<Waiter>,
  only?: string,
): ReadonlyMap<string, KeyCalls> {
  const found = new Map<string, { locks: Lock[]; waiting: Waiter[] }>();
  const at = (key: string) => {
    let calls = found.get(key);
    if (calls === undefined) found.set(key, (calls = { locks: [], waiting: [] }));
    return calls;
  };
  for (const lock of locks) if (only === undefined || lock.key === only) at(lock.key).locks.push(lock);
  for (const waiter of waiting) at(waiter.target.key).waiting.push(waiter);
  return found;
}

/**
 * Finds the calls behind the holders and waiters of a module instance that a store has listed for one key. A call is
 * found once. A store lists an instance once for all callers that wait for one exclusive lock, and once for all readers
 * that share one grant. The oldest call is found for them.
 */
export class CallFinder {
  private readonly locks: Lock[];
  private readonly waiting: Waiter[];

  constructor({ locks, waiting }: KeyCalls) {
    const oldest = new Map<string, Lock>();
    for (const lock of locks.toSorted((a, b) => a.grantedAt - b.grantedAt))
      if (!oldest.has(lock.lease.owner)) oldest.set(lock.lease.owner, lock);
    this.locks = [...oldest.values()];
    // A call with a `waitMs` of 0 has no place in a queue.
    this.waiting = waiting.filter(({ isPatient }) => isPatient).toSorted((a, b) => a.enteredAt - b.enteredAt);
  }

  /**
   * Returns the names of the call behind the next holder in that mode. Undefined if no caller holds the lock.
   *
   * @param token the fencing token of the grant in the store. Callers that it was passed on to have higher tokens.
   */
  holder(mode: LockMode, token: number | undefined): CallNames | undefined {
    const isIt = (lock: Lock): boolean =>
      lock.mode === mode && (lock.token === undefined || lock.token >= (token ?? Infinity));
    const lock = take(this.locks, isIt);
    return lock && describeCall(lock, lock.options);
  }

  /** Returns the names of the call behind the next waiter in that mode. Undefined if its caller no longer waits. */
  waiter(mode: LockMode): CallNames | undefined {
    const waiter = take(this.waiting, (each) => each.mode === mode);
    return waiter && describeCall(waiter.target, waiter.options);
  }
}

/** Removes and returns the first item that fits. */
function take<T>(list: T[], fits: (each: T) => boolean): T | undefined {
  const place = list.findIndex(fits);
  return place === -1 ? undefined : list.splice(place, 1)[0];
}
