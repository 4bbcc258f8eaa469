import type { WaitingCaller } from '../acquire/acquire-options.js';
import { describeCall, type LockCall } from '../events/call.js';
import type { Grant } from '../lease/grant.js';
import type { LockMode } from '../store/lock-store.js';

/** The names of a call, from its caller or its method. */
export type CallNames = Pick<LockCall, 'method' | 'label'>;

/** The calls of a module instance for one key. */
export interface KeyCalls {
  readonly grants: readonly Grant[];
  readonly waiting: readonly WaitingCaller[];
}

/** Returns the calls of a module instance by key. @param only the only key of interest. Default: all keys. */
export function callsByKey(
  grants: Iterable<Grant>,
  waiting: Iterable<WaitingCaller>,
  only?: string,
): ReadonlyMap<string, KeyCalls> {
  const found = new Map<string, { grants: Grant[]; waiting: WaitingCaller[] }>();
  const at = (key: string) => {
    let calls = found.get(key);
    if (calls === undefined) found.set(key, (calls = { grants: [], waiting: [] }));
    return calls;
  };
  for (const grant of grants) if (only === undefined || grant.key === only) at(grant.key).grants.push(grant);
  for (const caller of waiting) if (only === undefined || caller.key === only) at(caller.key).waiting.push(caller);
  return found;
}

/**
 * Finds the calls behind the holders and waiters of a module instance that a store has listed for one key. A call is
 * found once. A store lists an instance once for all callers that wait for one exclusive lock, and once for all readers
 * that share one grant. The oldest call is found for them.
 */
export class CallFinder {
  private readonly grants: Grant[];
  private readonly waiting: WaitingCaller[];

  constructor({ grants, waiting }: KeyCalls) {
    const oldest = new Map<string, Grant>();
    for (const grant of grants.toSorted((a, b) => a.grantedAt - b.grantedAt))
      if (!oldest.has(grant.owner)) oldest.set(grant.owner, grant);
    this.grants = [...oldest.values()];
    // A call with a `waitMs` of 0 has no place in a queue.
    this.waiting = waiting.filter(({ options }) => options.waitMs > 0).toSorted((a, b) => a.enteredAt - b.enteredAt);
  }

  /**
   * Returns the names of the call behind the next holder in that mode. Undefined if no caller holds the lock.
   *
   * @param token the fencing token of the grant in the store. Callers that it was passed on to have higher tokens.
   */
  holder(mode: LockMode, token: number | undefined): CallNames | undefined {
    const isIt = (grant: Grant): boolean =>
      grant.mode === mode && (grant.token === undefined || token === undefined || grant.token >= token);
    const grant = take(this.grants, isIt);
    return grant && describeCall(grant, grant.options);
  }

  /** Returns the names of the call behind the next waiter in that mode. Undefined if its caller no longer waits. */
  waiter(mode: LockMode): CallNames | undefined {
    const caller = take(this.waiting, ({ options }) => options.mode === mode);
    return caller && describeCall(caller, caller.options);
  }
}

/** Removes and returns the first item that fits. */
function take<T>(list: T[], fits: (each: T) => boolean): T | undefined {
  const place = list.findIndex(fits);
  return place === -1 ? undefined : list.splice(place, 1)[0];
}
