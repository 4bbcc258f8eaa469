import { LockRuntime } from '../../../../lib/lock-runtime.js';
import type { LockService } from '../../../../lib/lock.service.js';
import type { RedisLockModuleOptions } from '../../../../lib/options/redis-lock.options.js';
import type { RedisClient } from '../../../../lib/redis/redis-client.js';
import { quorum } from '../../../../lib/stores/quorum/quorum.store.js';
import { redisson } from '../../../../lib/stores/redisson/redisson.js';
import { timestamp } from '../../../../lib/stores/timestamp/timestamp.js';
import { silent } from '../../silent-logger.js';
import { type ClientName, type LockPlace, PREFIX, type StoreName, type WorkerTask } from './orders.js';

/** Module options of each store. */
const stores: Record<StoreName, (places: readonly (LockPlace | RedisClient)[]) => RedisLockModuleOptions> = {
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

/** Returns what an application gives to the module: an address, or a client that it has made. */
async function givenFor(place: LockPlace, client: ClientName | undefined): Promise<LockPlace | RedisClient> {
  if (client === undefined || client === 'ioredis 5') return place;
  // Only here, because it loads all libraries.
  const { ioredis, NODE_REDIS } = await import('../../client-libraries.js');
  const library = client === 'node-redis' ? NODE_REDIS[0] : ioredis;
  if (typeof place === 'string') return (await library.connect(place)).client;
  if (!('nodes' in place)) throw new Error(`${client} finds no servers by Sentinel here`);
  return (await library.connectCluster(place.nodes)).client;
}

/** Starts a module instance as an application does. */
export async function startLocks(
  task: Pick<WorkerTask, 'store' | 'places' | 'terms' | 'client'>,
): Promise<RunningLocks> {
  const { store, terms, client } = task;
  const places = await Promise.all(task.places.map((place) => givenFor(place, client)));
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
