import { LockRuntime } from '../../../../lib/lock-runtime.js';
import type { LockService } from '../../../../lib/lock.service.js';
import type { RedisLockModuleOptions } from '../../../../lib/options/redis-lock.options.js';
import { quorum } from '../../../../lib/stores/quorum/quorum.store.js';
import { redisson } from '../../../../lib/stores/redisson/redisson.js';
import { timestamp } from '../../../../lib/stores/timestamp/timestamp.js';
import { silent } from '../../silent-logger.js';
import { type LockPlace, PREFIX, type StoreName, type WorkerTask } from './orders.js';

/** Module options of each store. */
const stores: Record<StoreName, (places: readonly LockPlace[]) => RedisLockModuleOptions> = {
  token: ([redis]) => ({ redis }),
  timestamp: ([redis]) => ({ redis, store: timestamp({ unit: 'ms', retryDelayMs: 20 }) }),
  redisson: ([redis]) => ({ redis, store: redisson({ fencing: true }) }),
  quorum: (places) => ({ store: quorum(places.map(String)) }),
};

/** A module instance. */
export interface RunningLocks {
  readonly service: LockService;
  /** Does what SIGTERM makes the module do: waits for the calls and holds that there are, and closes. */
  shutDown(): Promise<void>;
  /** Closes without that wait. */
  close(): Promise<void>;
}

/** Starts a module instance as an application does. */
export function startLocks({ store, places, terms }: Pick<WorkerTask, 'store' | 'places' | 'terms'>): RunningLocks {
  const { requestTimeoutMs, passing, ...options } = terms;
  const given = { prefix: PREFIX, shutdownGraceMs: 2_000, unavailableAfterMs: Infinity, ...options };
  const runtime = LockRuntime.start({ ...given, ...stores[store](places) }, undefined, {
    requestTimeoutMs,
    passing,
    logger: silent,
  });
  runtime.connect();
  const shutDown = async (): Promise<void> => {
    runtime.beginShutdown();
    await runtime.settle();
    await runtime.close();
  };
  return { service: runtime.service, shutDown, close: () => runtime.close() };
}
