import { checkOptions, oneOf, type OptionRules } from '../../core/checks/check-options.js';

/**
 * The options of {@link redisson}.
 *
 * @publicApi
 */
export interface RedissonStoreOptions {
  /**
   * `true`: locks are Redisson's `RFencedLock`, with a fencing token for every grant. `false`: they are its `RLock`.
   * All clients of a lock must use the same kind, because an `RLock` does not count the token. Redis counts the tokens
   * one by one, so every caller sends a request, and locks are not passed on locally (`fairness` has no effect).
   *
   * @default false
   */
  readonly fencing?: boolean | undefined;
}

const RULES: OptionRules<RedissonStoreOptions> = { fencing: oneOf(true, false) };

/** Returns whether grants have fencing tokens. @throws LockConfigError */
export function fencingOf(options: RedissonStoreOptions): boolean {
  const { fencing = false } = checkOptions<RedissonStoreOptions>('redisson()', options, RULES);
  return fencing;
}
