import { LockConfigError } from '../../core/errors.js';

/**
 * Options of `redisson()`.
 *
 * @publicApi
 */
export interface RedissonStoreOptions {
  /**
   * Locks as Redisson's `RFencedLock` does, with a fencing token for every grant, instead of its `RLock`. All who share a
   * lock have to agree on this: an `RLock` leaves the token as it is. The tokens are counted one by one, so that every caller
   * asks Redis, and none passes the lock on to the next (`maxLocalPasses` has no effect).
   *
   * @default false
   */
  readonly fencing?: boolean;
}

/** Whether tokens are wanted. @throws LockConfigError */
export function fencingOf(options: RedissonStoreOptions): boolean {
  if (typeof options !== 'object' || options === null)
    throw new LockConfigError(`redisson: ${String(options)} is no object of options; allowed is { fencing: true }.`);
  const { fencing = false, ...unknown } = options;
  const [stranger] = Object.keys(unknown);
  if (stranger !== undefined) throw new LockConfigError(`redisson: there is no option ${stranger}; there is fencing.`);
  if (typeof fencing !== 'boolean')
    throw new LockConfigError('redisson: fencing is not a boolean; allowed is true or false.');
  return fencing;
}
