import { LockRuntime } from '../../../lib/lock-runtime.js';
import type { RedisLockModuleOptions } from '../../../lib/options/redis-lock.options.js';
import { quorum } from '../../../lib/stores/quorum/quorum.store.js';
import { redisson } from '../../../lib/stores/redisson/redisson.store.js';
import { timestamp } from '../../../lib/stores/timestamp/timestamp.store.js';
import { type LockPlace, PREFIX, type StoreName, type WorkerTask } from './orders.js';

/** Module options of each store. */
const stores: Record<StoreName, (places: readonly LockPlace[]) => RedisLockModuleOptions> = {
  token: ([redis]) => ({ redis }),
  timestamp: ([redis]) => ({ redis, store: timestamp({ unit: 'ms', retryDelayMs: 20 }) }),
  redisson: ([redis]) => ({ redis, store: redisson({ fencing: true }) }),
  quorum: (places) => ({ store: quorum(places.map(String)) }),
};

/** Starts a module instance as an application does. */
export function startLocks({ store, places, terms }: Pick<WorkerTask, 'store' | 'places' | 'terms'>): LockRuntime {
  const runtime = LockRuntime.start({
    prefix: PREFIX,
    shutdownGraceMs: 2_000,
    unavailableAfterMs: Infinity,
    ...terms,
    ...stores[store](places),
  });
  runtime.connect();
  return runtime;
}
