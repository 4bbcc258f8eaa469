import type { LockState } from './lock-state.js';

/** A request for all locks of a module. */
export interface ListRequest {
  /**
   * A glob in the syntax of Redis' SCAN. The keys of all wanted locks match it, and so do their helper keys. It may
   * match other keys.
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
