import type { StoreFactory } from '../store-context.js';
import { ReplicatedStore } from './replicated.store.js';
import { TokenStore } from './token.store.js';

/**
 * Makes the default store. Each lock is one key with its owner and its fencing token. The store needs one Redis (or
 * Valkey) server of version 6.2 or later, or a cluster, where the lock is on the node that has the key's slot.
 *
 * Leases and tokens are based on the server's clock. Exclusion can be violated only if the server loses data: through a
 * failover that loses the write, a flush, or an eviction policy that removes keys with a TTL.
 *
 * @publicApi
 */
export function token(): StoreFactory {
  return (context) =>
    context.replicas === undefined ? new TokenStore(context) : new ReplicatedStore(context, context.replicas);
}
