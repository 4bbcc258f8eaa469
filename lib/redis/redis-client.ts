import type { ClusterNode, ClusterOptions } from 'ioredis';
import type { ClusterClient, ServerClient } from './client-port.js';

/**
 * The part of a client or a Cluster of ioredis (version 5 or 6) by which it is recognized. The classes of the two
 * versions are not assignable to each other, so a client is typed by its commands.
 */
export interface IoredisClient {
  readonly status: string;
  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown>;
  on(event: 'ready', listener: () => void): unknown;
  off(event: 'ready', listener: () => void): unknown;
}

/**
 * A client that was given: an ioredis client, or what `fromNodeRedis` returned.
 *
 * @publicApi
 */
export type RedisClient = IoredisClient | ServerClient | ClusterClient;

/**
 * A Redis Cluster: some of its nodes and ioredis' own options for a Cluster. ioredis learns the other nodes from these.
 *
 * @publicApi
 */
export interface RedisClusterOptions extends ClusterOptions {
  /** At least one node. Each is a URL, a port, or an object with host and port. */
  readonly nodes: readonly ClusterNode[];
}
