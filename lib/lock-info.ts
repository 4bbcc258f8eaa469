import type { Target } from './core/acquire/acquire-options.js';
import { identityOf } from './core/store/instance-id.js';
import type { HolderInfo, LockMode, LockState } from './core/store/lock-store.js';

/**
 * One holder of a lock.
 *
 * @publicApi
 */
export interface LockHolder {
  /** The id of the module instance, random at each start. For a key that another system wrote, its value. */
  readonly holder: string;
  /** The `identity` of the module instance, such as `api-7f9c-31`. Undefined if it has none or the store has not. */
  readonly identity: string | undefined;
  /** True if the holder is this module instance. */
  readonly isOwn: boolean;
  /** The rest of the lease in milliseconds. Infinity for a key without expiry, which another system wrote. */
  readonly expiresInMs: number;
  /** Undefined if the store has no tokens, or if the lock is shared: the tokens of shared locks are not stored. */
  readonly fencingToken: number | undefined;
}

/**
 * How a lock is shared.
 *
 * @publicApi
 */
export interface LockSharing {
  /** `shared` also for a lock with permits. */
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
}

/**
 * The state of a lock in Redis: its only holder, or the first of those that share it, and everyone else.
 *
 * @publicApi
 */
export interface LockInfo extends LockHolder, LockSharing {
  /** The resource that was given to `inspect`, `goods:300`. */
  readonly resource: string;
  /** The Redis key, `{lock_goods}:300`. */
  readonly key: string;
  /** All other holders. */
  readonly others: readonly LockHolder[];
  /** The queue in arrival order. Instances that poll because they cannot subscribe are not in it. */
  readonly waiting: readonly LockWaiter[];
}

/** Returns the public description of a lock's state. */
export function toLockInfo(
  { resource, key }: Target,
  state: LockState,
  isOwn: (instanceId: string) => boolean,
): LockInfo {
  const { mode = 'exclusive', others = [], waiting = [] } = state;
  const toHolder = ({ holder, remainingMs, token }: HolderInfo): LockHolder => {
    return {
      holder,
      identity: identityOf(holder),
      isOwn: isOwn(holder),
      expiresInMs: remainingMs,
      fencingToken: token,
    };
  };
  return {
    resource,
    key,
    ...toHolder(state),
    ...toSharing(mode),
    others: others.map(toHolder),
    waiting: waiting.map(({ waiter, mode: wanted }) => {
      return { waiter, identity: identityOf(waiter), isOwn: isOwn(waiter), ...toSharing(wanted) };
    }),
  };
}

function toSharing(mode: LockMode): LockSharing {
  return { mode: mode === 'exclusive' ? mode : 'shared', permits: typeof mode === 'number' ? mode : undefined };
}
