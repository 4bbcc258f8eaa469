import type { Clock } from '../core/clock.js';
import type { LockStore } from '../core/lock-store.js';
import type { RedisClient, RedisSubscriber } from './redis-client.js';

/**
 * What a module instance gives to the store that it makes.
 *
 * @publicApi
 */
export interface StoreContext {
  readonly clock: Clock;
  /** How long a request may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** The module's client; opened at the first call, so that a store without Redis opens none. */
  redis(): RedisClient;
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
