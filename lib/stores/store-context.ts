import type { Clock } from '../core/time/clock.js';
import type { LockStore } from '../core/store/lock-store.js';
import type { RedisClient, RedisSubscriber } from '../redis/redis-client.js';
import type { ReplicaDemand } from './token/replication/replica-options.js';

/** A Redis, as a store uses it. */
export interface RedisEndpoint {
  readonly client: RedisClient;
  /** Another connection to the same place, not yet connected, for its caller to close; undefined if there can be none. */
  subscriber(): RedisSubscriber | undefined;
}

/**
 * What a module instance gives to the store that it makes.
 *
 * @publicApi
 */
export interface StoreContext {
  readonly clock: Clock;
  /** How long a request may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** How many replicas have to know of a lock; undefined where none has to. */
  readonly replicas?: ReplicaDemand | undefined;
  /** The module's client; opened at the first call, so that a store without Redis opens none. */
  redis(): RedisClient;
  /**
   * Opens connections to a further Redis, by a URL, options of ioredis or a client: connected when the application starts,
   * closed with the module.
   */
  open(redis: unknown): RedisEndpoint;
  /**
   * A second connection to where `redis()` leads, not yet connected, to hear of hand-offs on; whoever calls this closes it.
   * Undefined where the client cannot be duplicated.
   */
  subscriber(): RedisSubscriber | undefined;
}

/**
 * Makes a store for one module instance. What it makes is closed with the module; a store that is given ready-made is not.
 *
 * @publicApi
 */
export type StoreFactory = (context: StoreContext) => LockStore;
