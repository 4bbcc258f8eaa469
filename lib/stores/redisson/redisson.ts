import { checkOptions, oneOf } from '../../common/check-options.js';
import type { StoreFactory } from '../store-context.js';
import { RedissonStore } from './redisson.store.js';

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

/**
 * Keeps locks in the format of Redisson 3 and 4 for Java, so that both can contend for them: `RedissonLock` behind
 * `RLock`, and `RFencedLock` with `fencing: true`. Works with a single Redis 6.2 or later, and with a cluster. A lock's
 * name in Redisson is its key here, as built by the module's `key` option.
 *
 * The guarantee is Redisson's: exclusion while the server keeps its data. Waiting callers are notified by Redisson's
 * pub/sub messages, in no particular order. A caller whose message is lost retries after at most 3 s, or when the
 * holder's lease expires. In a cluster, the messages need Redis 7. Without it, waiting callers poll.
 *
 * @throws LockConfigError if an option is unknown or not allowed.
 * @throws LockConfigError at the start of the module if `fencing` is on and the client has a `keyPrefix`, because such
 * a client cannot reach the key of Redisson's token.
 * @publicApi
 */
export function redisson(options: RedissonStoreOptions = {}): StoreFactory {
  const rules = { fencing: oneOf(true, false) };
  const { fencing = false } = checkOptions<RedissonStoreOptions>('redisson()', options, rules);
  return (context) => new RedissonStore(fencing, context);
}
