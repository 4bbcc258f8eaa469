import type { Redis } from 'ioredis';
import type { SteeredClock } from '../../support/clock-ahead.js';
import type { RedisProxy } from '../../support/proxy.js';
import type { RedisServer } from '../../support/redis/index.js';
import type { LockPlace } from '../workload/orders.js';

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

/** How one process reaches the servers. */
export interface Access {
  /** What its store is told of them. */
  readonly places: readonly LockPlace[];
  /** Ways of its own that can be cut; none where it finds the servers by itself. */
  readonly ways: readonly RedisProxy[];
}

/** Whose replica takes the master's place when that dies. */
export interface Succession {
  /**
   * Kills the master; no replica gets what it is told during `lastWrites`, and all have what it was told before. Answers when
   * another one has its place.
   */
  failOverWithout(lastWrites: () => Promise<unknown>): Promise<void>;
}

/** The servers that keep the lock, and how processes reach them. */
export interface Topology {
  /** For the result. */
  readonly version: string;
  readonly servers: readonly LockServer[];
  /** The server that trouble comes to: where there are replicas, the master. */
  readonly victim: LockServer;
  /** For one process more. */
  access(): Promise<Access>;
  /** Keys of locks and queues, on all servers. */
  leftovers(): Promise<readonly string[]>;
  close(): Promise<void>;
}
