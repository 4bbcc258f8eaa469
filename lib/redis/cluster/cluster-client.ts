import { LockConfigError } from '../../core/errors.js';
import type { NatMap } from '../redirection.js';
import type { ShardClient } from '../pubsub/sharded-subscriber.js';
import type { RedisClient, RedisPipeline, ReplicaPipeline } from '../redis-client.js';

/** The part of ioredis' Cluster (version 5 or 6) that stores use: its nodes and its slot table. */
export interface RedisCluster {
  readonly isCluster: true;
  readonly status: string;
  readonly options?: {
    readonly keyPrefix?: string | undefined;
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined;
    readonly natMap?: NatMap | undefined;
  };
  /** For each slot `host:port` of its master, then of its replicas. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: 'all' | 'master'): readonly ClusterNodeClient[];
  connect(): Promise<void>;
  refreshSlotsCache(done: (error?: unknown) => void): void;
  on(event: 'refresh', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'refresh', listener: () => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  listenerCount(event: string): number;
}

/** ioredis' client of one node. It ends with its connection. ioredis makes another one when the node is back. */
export interface ClusterNodeClient extends RedisClient {
  readonly options: {
    readonly host?: string;
    readonly port?: number;
    readonly keyPrefix?: string;
    readonly enableAutoPipelining?: boolean;
    readonly retryStrategy?: unknown;
  };
  connect(): Promise<void>;
  pipeline(): RedisPipeline & AskingPipeline;
  duplicate(options: object): ClusterNodeClient & ShardClient;
  disconnect(): void;
}

/** A pipeline that can send ASKING. */
export interface AskingPipeline extends ReplicaPipeline {
  asking(): unknown;
}

/** Returns true if the client is of a cluster. */
export function isCluster(client: object): client is RedisCluster {
  return 'isCluster' in client && client.isCluster === true;
}

/** @throws LockConfigError if the client is of a cluster. */
export function refuseCluster(client: object, store: string): void {
  if (!isCluster(client)) return;
  throw new LockConfigError(
    `redis is a Cluster, which store ${store} cannot use; allowed is one Redis, or token() or redisson().`,
  );
}
