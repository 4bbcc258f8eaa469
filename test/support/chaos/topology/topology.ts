import type { Redis } from 'ioredis';
import type { WallClock } from '../../server-clock/wall-clock.js';
import type { RedisProxy } from '../../proxy.js';
import type { RedisServer } from '../../redis/index.js';
import type { LockPlace } from '../workload/orders.js';

/** A server that keeps the lock. */
export interface LockServer {
  readonly server: RedisServer;
  /** A connection that no fault touches. */
  readonly admin: Redis;
  /** Its wall clock. Undefined if it was not requested. */
  readonly clock?: WallClock | undefined;
}

/** Options of the servers. */
export interface TopologyOptions {
  /** Gives them clocks that can be set. */
  readonly clocks: boolean;
  /** Writes each change to disk before the reply, so that a killed server restarts with its data. */
  readonly durable: boolean;
}

/** How one process reaches the servers. */
export interface Access {
  /** The addresses for its store. */
  readonly places: readonly LockPlace[];
  /** Its own proxies, which faults can cut. Empty if it discovers the servers by itself. */
  readonly ways: readonly RedisProxy[];
}

/** The servers that keep the lock, and how processes reach them. */
export interface Topology {
  readonly servers: readonly LockServer[];
  /** The server that faults hit. With replicas, the master. */
  readonly victim: LockServer;
  /** Prepares the access of one more process. */
  access(): Promise<Access>;
  close(): Promise<void>;
}
