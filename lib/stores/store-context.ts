import type { Clock } from '../core/time/clock.js';
import type { LockStore } from '../core/store/lock-store.js';
import type { RedisClient, RedisEndpoint, RedisSubscriber, ReplicaConnection } from '../redis/redis-client.js';

/**
 * How many replicas must have a lock before it counts.
 *
 * @publicApi
 */
export interface ReplicaOptions {
  /** How many replicas must acknowledge each grant and each renewal. At least 1. */
  readonly min: number;
  /**
   * How long the replicas may take, in milliseconds. If it is long, callers learn late that a replica is gone. If it is
   * short, a slow replica counts as gone.
   *
   * @default 50
   */
  readonly timeoutMs?: number | undefined;
}

/** How many replicas must have a lock, and how to open the connection that waits for them. */
export interface ReplicaDemand extends Required<ReplicaOptions> {
  /**
   * Returns a new connection to the server of the client, not yet connected. The caller closes it. Returns undefined if
   * the client cannot be duplicated, or is of a cluster. The connection does not resend commands, because WAIT counts
   * only for what was written over the same connection.
   */
  connect(): ReplicaConnection | undefined;
}

/**
 * What a module instance passes to the factory of its store.
 *
 * @publicApi
 */
export interface StoreContext {
  readonly clock: Clock;
  /** How long a request may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** The module's `prefix`, which the store's own keys and channels begin with. */
  readonly prefix: string;
  /** How many replicas must have a lock. Undefined if the module's `replicas` option is not set. */
  readonly replicas?: ReplicaDemand | undefined;
  /** Returns the module's client. It is made by the first call, so a store without Redis opens no connection. */
  redis(): RedisClient;
  /**
   * Opens a further Redis by a URL, options of ioredis or a client. It is connected when the application starts and
   * closed with the module.
   */
  open(redis: unknown): RedisEndpoint;
  /**
   * Returns a new connection to the server of `redis()`, not yet connected, for subscriptions. The caller closes it.
   * Returns undefined if the client cannot be duplicated.
   */
  subscriber(): RedisSubscriber | undefined;
}

/**
 * Makes a store for one module instance. The module closes this store. It does not close a store that was given
 * ready-made.
 *
 * @publicApi
 */
export type StoreFactory = (context: StoreContext) => LockStore;
