import type { ClusterNode, ClusterOptions } from 'ioredis';

/**
 * The part of an ioredis client (version 5 or 6) that stores use. The classes of the two versions are not assignable to
 * each other, so the client is typed by its commands.
 */
export interface RedisClient {
  /** `wait`, `connecting`, `connect`, `ready`, `reconnecting`, `close`, `end` … */
  readonly status: string;
  /** The options that the client was made with. */
  readonly options?: {
    readonly keyPrefix?: string | undefined;
    readonly enableAutoPipelining?: boolean | undefined;
  };
  /** The socket, while there is one. `bytesRead`: how much was read from it. Undefined if that is not known. */
  readonly stream?: { cork(): void; uncork(): void; readonly bytesRead?: number };
  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown>;
  time(): Promise<unknown>;
  /**
   * Resolves when all requests that were made until now are written to their sockets. Without it, a request is written
   * in the tick that makes it.
   */
  written?(): Promise<void>;
  /** Makes further connections to the client's server. Without it, a client of ioredis is duplicated. */
  readonly furtherConnections?: FurtherConnections | undefined;
  /** Returns a command of ioredis, as `string`, that `enableAutoPipelining` does not collect. */
  createBuiltinCommand?(name: string): { readonly string: unknown };
  pipeline(): RedisPipeline;
  on(event: 'connecting' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'connecting' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  listenerCount(event: string): number;
}

/** The part of a client that scans. Stores need it for listings only. */
export interface ScanClient {
  scan(cursor: string, match: 'MATCH', pattern: string, count: 'COUNT', size: string): Promise<[string, string[]]>;
}

/** The part of an ioredis pipeline that stores use. */
export interface RedisPipeline {
  eval(script: string, keyCount: number, ...args: string[]): unknown;
  evalsha(sha: string, keyCount: number, ...args: string[]): unknown;
  exec(): Promise<[error: Error | null, result: unknown][] | null>;
}

/** A connection that subscribes to channels. */
export interface RedisSubscriber {
  readonly status: string;
  connect(): Promise<void>;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
  on(event: 'connect' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect?: boolean): void;
}

/** A connection that sends WAIT, of ioredis 5 or 6. */
export interface ReplicaConnection {
  readonly status: string;
  connect(): Promise<void>;
  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect?: boolean): void;
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
  info(section: string): Promise<unknown>;
  pipeline(): ReplicaPipeline;
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** The part of a pipeline that waits for replicas. */
export interface ReplicaPipeline {
  eval(script: string, keyCount: number, ...args: string[]): unknown;
  wait(replicas: number, timeoutMs: number): unknown;
  exec(): Promise<[error: Error | null, result: unknown][] | null>;
}

/** Makes further connections to the server of a client. They are not yet connected. The caller closes them. */
export interface FurtherConnections {
  /** Returns a connection for subscriptions. Undefined if there can be none. */
  subscriber(): RedisSubscriber | undefined;
  /** Returns a connection that waits for replicas. It repeats no command. Undefined if there can be none. */
  replicaConnection(): ReplicaConnection | undefined;
}

/** A client and further connections to the same server. */
export interface RedisEndpoint {
  readonly client: RedisClient;
  /**
   * Returns a new connection to the same server, not yet connected. The caller closes it. Returns undefined if the
   * client cannot be duplicated.
   */
  subscriber(): RedisSubscriber | undefined;
}

/**
 * A Redis Cluster: some of its nodes and ioredis' own options for a Cluster. ioredis learns the other nodes from these.
 *
 * @publicApi
 */
export interface RedisClusterOptions extends ClusterOptions {
  /** At least one node. Each is a URL, a port, or an object with host and port. */
  readonly nodes: readonly ClusterNode[];
}
