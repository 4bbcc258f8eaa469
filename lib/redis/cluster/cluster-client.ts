import { LockConfigError } from '../../core/errors.js';
import type { RedisClient, RedisPipeline, RedisSubscriber } from '../redis-client.js';
import { isShardingMissing } from '../redis-errors.js';

/** What is used of ioredis' client of a cluster, of version 5 or 6: its nodes, and which has which slot. */
export interface RedisCluster {
  readonly isCluster: true;
  readonly status: string;
  readonly options?: {
    readonly keyPrefix?: string | undefined;
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined;
    readonly natMap?: NatMap | undefined;
  };
  /** By slot, `host:port` of its master, then of its replicas. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: 'all'): readonly ClusterNodeClient[];
  connect(): Promise<void>;
  refreshSlotsCache(done: (error?: unknown) => void): void;
  on(event: 'refresh', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'refresh', listener: () => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  listenerCount(event: string): number;
}

/** Where the nodes are from here, by where they say that they are. */
type NatMap =
  | { readonly [address: string]: { readonly host: string; readonly port: number } }
  | ((address: string) => { readonly host: string; readonly port: number } | null);

/** The client of one node. It ends with its connection; another one is made when the node is there again. */
export interface ClusterNodeClient extends RedisClient {
  readonly options: {
    readonly host?: string;
    readonly port?: number;
    readonly keyPrefix?: string;
    readonly retryStrategy?: unknown;
  };
  connect(): Promise<void>;
  pipeline(): RedisPipeline & AskingPipeline;
  duplicate(options: object): ClusterNodeClient & ShardClient;
  disconnect(): void;
}

/** What a pipeline is used for where a node has to be told that it was asked for. */
export interface AskingPipeline {
  asking(): unknown;
  eval(script: string, keyCount: number, ...args: string[]): unknown;
}

/** A connection to one node, for sharded channels. */
export interface ShardClient extends Omit<RedisSubscriber, 'on'> {
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  on(
    event: 'connect' | 'ready' | 'close' | 'end' | 'error' | 'message' | 'smessage' | 'moved',
    listener: (...args: never[]) => void,
  ): unknown;
}

export function isCluster(client: object): client is RedisCluster {
  return 'isCluster' in client && client.isCluster === true;
}

/** @throws LockConfigError where the client is of a cluster. */
export function refuseCluster(client: object, store: string): void {
  if (!isCluster(client)) return;
  throw new LockConfigError(
    `redis is a Cluster, which store ${store} cannot use; allowed is one Redis, or token() or redisson().`,
  );
}

/** Sharded channels, subscribed like others. */
export class ShardedSubscriber implements RedisSubscriber {
  /** What was subscribed as plain channels. */
  private readonly plain = new Set<string>();

  /** @param plainToo whether plain channels will do where the server has no sharded ones. */
  constructor(
    private readonly client: ShardClient,
    private readonly plainToo: boolean,
  ) {}

  get status(): string {
    return this.client.status;
  }

  connect(): Promise<void> {
    return this.client.connect();
  }

  subscribe(channel: string): Promise<unknown> {
    this.plain.delete(channel);
    const subscribed = this.client.ssubscribe(channel);
    if (!this.plainToo) return subscribed;
    return subscribed.catch((error: unknown) => {
      if (!isShardingMissing(error)) throw error;
      this.plain.add(channel);
      return this.client.subscribe(channel);
    });
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.plain.delete(channel) ? this.client.unsubscribe(channel) : this.client.sunsubscribe(channel);
  }

  ping(): Promise<unknown> {
    return this.client.ping();
  }

  on(
    event: 'connect' | 'ready' | 'close' | 'end' | 'error' | 'message',
    listener: (...args: never[]) => void,
  ): unknown {
    if (event === 'message') this.client.on('smessage', listener);
    return this.client.on(event, listener);
  }

  disconnect(reconnect?: boolean): void {
    this.client.disconnect(reconnect);
  }
}
