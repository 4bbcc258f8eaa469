import { checkOptions, oneOf, type OptionRules } from '../../core/check-options.js';

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

const RULES: OptionRules<RedissonStoreOptions> = { fencing: oneOf(true, false) };

/** Returns whether grants have fencing tokens. @throws LockConfigError */
export function fencingOf(options: RedissonStoreOptions): boolean {
  const { fencing = false } = checkOptions<RedissonStoreOptions>('redisson()', options, RULES);
  return fencing;
}
