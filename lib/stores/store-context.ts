import type { Clock } from '../clock/clock.js';
import type { ClusterClient, ServerClient } from '../redis/client-port.js';
import type { LockStore } from '../contract/store.js';

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

/** How many replicas must have a lock. */
export type ReplicaDemand = Required<ReplicaOptions>;

/** What a module instance passes to the factory of its store. */
export interface StoreContext {
  readonly clock: Clock;
  /** How long a request may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** The module's `prefix`, which the store's own keys and channels begin with. */
  readonly prefix: string;
  /** How many replicas must have a lock. Undefined if the module's `replicas` option is not set. */
  readonly replicas?: ReplicaDemand | undefined;
  /** Returns the module's client. The first call creates it, so a store without Redis opens no connection. */
  redis(): ServerClient | ClusterClient;
  /**
   * Opens another Redis server from a URL, ioredis options or a client. It is connected when the application starts and
   * closed with the module.
   */
  open(redis: unknown): ServerClient | ClusterClient;
}

/**
 * What `token()`, `memory()`, `quorum()`, `redisson()` or `timestamp()` returns. It makes the store of one module
 * instance, which closes it.
 *
 * @publicApi
 */
export type StoreFactory = (context: StoreContext) => LockStore;
