import type { Redis } from 'ioredis';
import type { SteeredClock } from '../../support/clock-ahead.js';
import type { RedisProxy } from '../../support/proxy.js';
import type { RedisServer } from '../../support/redis/index.js';

/** One of the servers that keep the lock. */
export interface LockServer {
  readonly server: RedisServer;
  /** A way to it that no fault touches. */
  readonly admin: Redis;
  /** Its wall clock; undefined where it was not asked for. */
  readonly clock: SteeredClock | undefined;
}

/** What the servers are started with. */
export interface TopologyOptions {
  /** Their clocks can be set. */
  readonly clocks: boolean;
  /** Each change is on the disk before it is answered: a server that is killed comes back with its data. */
  readonly durable: boolean;
}

/**
 * The servers that keep the lock, and how processes reach them. One server, or several masters; a master with its replicas and
 * sentinels, or a cluster, would be a further class behind this interface, whose `victim` is the master.
 */
export interface Topology {
  /** For the result. */
  readonly version: string;
  readonly servers: readonly LockServer[];
  /** The server that trouble comes to. */
  readonly victim: LockServer;
  /** A way of its own to each server for one process, which can be cut. */
  ways(): Promise<readonly RedisProxy[]>;
  /** Keys of locks and queues, on all servers. */
  leftovers(): Promise<readonly string[]>;
  close(): Promise<void>;
}
