import type { Target } from './core/acquire/acquire-options.js';
import type { HolderInfo, LockMode, LockState } from './core/store/lock-store.js';

/**
 * One who holds a lock, as Redis knows it.
 *
 * @publicApi
 */
export interface LockHolder {
  /** The id of the module instance that holds it, random at each start; or what another system wrote into the key. */
  readonly holder: string;
  /** Whether that is this module instance. */
  readonly isOwn: boolean;
  /** Remaining life of the lease, in milliseconds; Infinity for a key without expiry, which another system wrote. */
  readonly expiresInMs: number;
  /** Undefined where the store gives none, or keeps none: those of holders who share a lock are not kept. */
  readonly fencingToken: number | undefined;
}

/**
 * How a lock is shared.
 *
 * @publicApi
 */
export interface LockSharing {
  /** `shared` where there are permits, too: they are held beside one another. */
  readonly mode: 'exclusive' | 'shared';
  /** How many may hold it at once; undefined where that is not limited, or not shared. */
  readonly permits: number | undefined;
}

/**
 * A module instance that waits in a lock's queue.
 *
 * @publicApi
 */
export interface LockWaiter extends LockSharing {
  /** Its id. */
  readonly waiter: string;
  /** Whether that is this module instance. */
  readonly isOwn: boolean;
}

/**
 * Who holds a lock, as Redis knows it: the only holder, or the first of those who share it.
 *
 * @publicApi
 */
export interface LockInfo extends LockHolder, LockSharing {
  readonly resource: string;
  readonly key: string;
  /** All others who hold it. */
  readonly others: readonly LockHolder[];
  /** Who waits in the queue, first come first; instances that ask again and again instead are not in it. */
  readonly waiting: readonly LockWaiter[];
}

/** What is told of a locked resource. */
export function infoOf({ resource, key }: Target, state: LockState, isOwn: (instanceId: string) => boolean): LockInfo {
  const { mode = 'exclusive', others = [], waiting = [] } = state;
  const told = ({ holder, remainingMs, token }: HolderInfo): LockHolder => {
    return { holder, isOwn: isOwn(holder), expiresInMs: remainingMs, fencingToken: token };
  };
  return {
    resource,
    key,
    ...told(state),
    ...sharingOf(mode),
    others: others.map(told),
    waiting: waiting.map((one) => ({ waiter: one.waiter, isOwn: isOwn(one.waiter), ...sharingOf(one.mode) })),
  };
}

function sharingOf(mode: LockMode): LockSharing {
  return { mode: mode === 'exclusive' ? mode : 'shared', permits: typeof mode === 'number' ? mode : undefined };
}
