import { shownLabel } from './common/format-value.js';
import type { CallDetails, Target } from './events/call.js';
import { identityOf } from './contract/instance-id.js';
import type { LockMode } from './contract/lock-mode.js';
import type { HolderInfo, HolderWork, LockState } from './contract/lock-state.js';

/**
 * One holder of a lock.
 *
 * @publicApi
 */
export interface LockHolder {
  /**
   * The id of the module instance, random at each start. `detached` for a lock that `Lock.detach()` keeps for a ticket.
   * For a key that another system wrote, the value of the key. For a lock that stays closed after its release
   * (`minHoldMs`, `onceMs`): the former holder, or empty with `memory()`.
   */
  readonly holder: string;
  /** The `identity` of the module instance, such as `api-7f9c-31`. Undefined if it has none or the store keeps none. */
  readonly identity: string | undefined;
  /** True if the holder is this module instance. */
  readonly isOwn: boolean;
  /** The remaining lease in milliseconds. Infinity for a key without an expiry, which another system wrote. */
  readonly expiresInMs: number;
  /** Undefined if the store has no tokens, or if the lock is shared. The tokens of shared locks are not stored. */
  readonly fencingToken: number | undefined;
  /**
   * How long the instance has had the lock, in milliseconds. Its callers may have passed the lock on meanwhile.
   * Undefined if the store does not know the time, as with a shared lock.
   */
  readonly heldForMs?: number | undefined;
  /**
   * The `@Locked` or `@WhileLeader` method that holds the lock, `GoodsController.buy`. Undefined for a call of
   * `LockService`. For an exclusive lock of another instance: the method of the first caller of its grant, in at most
   * 120 characters. The grant may have been passed on since. Undefined if the lock is shared there, and right after a
   * handoff. Readers of this instance may share an entry, with the oldest call. Any client of Redis can write it.
   */
  readonly method?: string | undefined;
  /** The `label` of that call, under the same conditions. */
  readonly label?: string | undefined;
  /** The wire version of a holder with another version of this library. Undefined if it is equal, or not known. */
  readonly wireVersion?: number | undefined;
}

/**
 * How a lock is shared.
 *
 * @publicApi
 */
export interface LockSharing {
  /** Also `shared` for a lock with permits. */
  readonly mode: 'exclusive' | 'shared';
  /** The maximum number of holders. Undefined for a lock without permits. */
  readonly permits: number | undefined;
}

/**
 * A module instance in the queue of a lock.
 *
 * @publicApi
 */
export interface LockWaiter extends LockSharing {
  /** The id of the module instance. */
  readonly waiter: string;
  /** The `identity` of the module instance. Undefined if it has none. */
  readonly identity: string | undefined;
  /** True if the waiter is this module instance. */
  readonly isOwn: boolean;
  /**
   * The method of the call that has waited longest. All callers of an instance share one entry for an exclusive lock.
   * Undefined for a call of `LockService`, and for another instance, because the queue has no names.
   */
  readonly method?: string | undefined;
  /** The `label` of that call. Undefined for another instance. */
  readonly label?: string | undefined;
  /** The wire version of a waiter with another version of this library. Undefined if it is equal, or not known. */
  readonly wireVersion?: number | undefined;
}

/** What every description of a lock has. */
interface DescribedLock {
  /** The resource, `goods:300`. */
  readonly resource: string;
  /** The Redis key, `{lock_goods}:300`. */
  readonly key: string;
  /** All other holders of a shared lock. */
  readonly others: readonly LockHolder[];
  /** The queue in arrival order. Instances that poll because they cannot subscribe are not in it. */
  readonly waiting: readonly LockWaiter[];
  /** How many callers of this module instance wait for the lock. */
  readonly waitingHere?: number | undefined;
}

/**
 * A held lock, with its only holder, or the first of those that share it and the others.
 *
 * @publicApi
 */
export interface HeldLockInfo extends DescribedLock, LockHolder, LockSharing {
  readonly isHeld: true;
  /**
   * True if nobody holds the lock, and its key stays closed for `expiresInMs` because its work is done (`onceMs`). The
   * other fields are those of the run that did the work. Undefined otherwise.
   */
  readonly isDone?: true | undefined;
}

/**
 * A lock that nobody holds but callers wait for. Its last holder died, and the first waiter gets the lock with its next
 * request. A waiter that has died stays in the queue until an instance requests the lock, or until the queue expires.
 *
 * @publicApi
 */
export interface AwaitedLockInfo extends DescribedLock {
  readonly isHeld: false;
  readonly isDone?: undefined;
  readonly holder: undefined;
  readonly identity: undefined;
  readonly isOwn: false;
  readonly expiresInMs: 0;
  readonly fencingToken: undefined;
  readonly heldForMs?: undefined;
  readonly method?: undefined;
  readonly label?: undefined;
  readonly wireVersion?: undefined;
  readonly mode: undefined;
  readonly permits: undefined;
}

/**
 * The state of a lock in Redis. `isHeld` is false if it has waiters but no holder.
 *
 * @publicApi
 */
export type LockInfo = HeldLockInfo | AwaitedLockInfo;

/** The fields of the holder, for a lock that nobody holds. */
const NO_HOLDER = {
  isHeld: false,
  holder: undefined,
  identity: undefined,
  isOwn: false,
  expiresInMs: 0,
  fencingToken: undefined,
  heldForMs: undefined,
  mode: undefined,
  permits: undefined,
} as const;

/** What the module instance that reads a lock knows besides the store's state. */
export interface InstanceView {
  /** Returns true if this is the id of this module instance. */
  readonly isOwn: (instanceId: string) => boolean;
  /** The time of the state, on the clock of `since`. Default: how long the lock has been held is not known. */
  readonly now?: number;
  /** The calls of this instance behind its holders and its waiter, in the order of the store. Default: none. */
  readonly calls?: { readonly holders: readonly CallDetails[]; readonly waiting: readonly CallDetails[] } | undefined;
}

/** Returns the public description of a lock's state. */
export function toLockInfo({ resource, key }: Target, state: LockState, { isOwn, now, calls }: InstanceView): LockInfo {
  const holders = [...(calls?.holders ?? [])];
  const waiting = (state.waiting ?? []).map(({ waiter, mode, wireVersion }): LockWaiter => {
    const own = isOwn(waiter);
    // All callers of an instance in one mode share an entry.
    const names = own ? calls?.waiting.find((each) => each.mode === mode) : undefined;
    const described = { waiter, identity: identityOf(waiter), isOwn: own, ...namesOf(names), ...toSharing(mode) };
    return wireVersion === undefined ? described : { ...described, wireVersion };
  });
  if (state.holder === undefined) return { resource, key, ...NO_HOLDER, others: [], waiting };
  const { mode = 'exclusive', others = [] } = state;
  const toHolder = ({ holder, remainingMs, token, since, wireVersion, method, label }: HolderInfo): LockHolder => {
    const own = isOwn(holder);
    const names = own ? holders.shift() : undefined;
    const described = {
      holder,
      identity: identityOf(holder),
      isOwn: own,
      expiresInMs: remainingMs,
      fencingToken: token,
      // A moment in the future means that the server's clock was set back.
      heldForMs: since === undefined || now === undefined || since > now ? undefined : now - since,
      ...namesOf(names ?? { method: shownLabel(method), label }),
    };
    return wireVersion === undefined ? described : { ...described, wireVersion };
  };
  return {
    resource,
    key,
    isHeld: true,
    ...toHolder(state),
    ...toSharing(mode),
    ...(state.isDone === true && { isDone: true }),
    others: others.map(toHolder),
    waiting,
  };
}

function namesOf({ method, label }: HolderWork = {}): HolderWork {
  return { method, label: shownLabel(label) };
}

function toSharing(mode: LockMode): LockSharing {
  return { mode: mode === 'exclusive' ? mode : 'shared', permits: typeof mode === 'number' ? mode : undefined };
}
