import type { LockState } from './lock-state.js';

/** A request for all locks of a module. */
export interface ListRequest {
  /**
   * A glob, as Redis' SCAN has them, that all wanted locks match by their keys, and their helper keys too. It may match
   * other keys.
   */
  readonly pattern: string;
  /** Returns whether a lock is wanted, by its key. */
  readonly selects: (key: string) => boolean;
  /** About how many keys the store looks at in one step. */
  readonly count: number;
}

/** A lock that is held or waited for. */
export interface ListedLock {
  readonly key: string;
  readonly state: LockState;
}
