/**
 * How many replicas have to know of a lock before it counts.
 *
 * @publicApi
 */
export interface ReplicaOptions {
  /** How many replicas have to acknowledge each grant and each renewal, from 1 up. */
  readonly min: number;
  /**
   * How long they may take for it, in milliseconds. Long: callers learn late that a replica is gone. Short: a slow one looks gone.
   *
   * @default 50
   */
  readonly timeoutMs?: number;
}

/** The demand on the replicas, and where to wait for them. */
export interface ReplicaDemand extends Required<ReplicaOptions> {
  /**
   * A connection to where the client leads, not yet connected, for its caller to close; undefined where the client cannot be
   * duplicated, or is of a cluster, to whose nodes the store connects by itself. It sends nothing again by itself: a WAIT that is sent again, on a new connection, counts for nothing.
   */
  connect(): ReplicaConnection | undefined;
}

/** What a store uses of a connection that waits for replicas, of ioredis 5 or 6. */
export interface ReplicaConnection {
  readonly status: string;
  connect(): Promise<void>;
  /** Cuts the connection; it comes back if `reconnect` is true. */
  disconnect(reconnect?: boolean): void;
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
  info(section: string): Promise<unknown>;
  pipeline(): ReplicaPipeline;
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

export interface ReplicaPipeline {
  eval(script: string, keyCount: number, ...args: string[]): unknown;
  wait(replicas: number, timeoutMs: number): unknown;
  exec(): Promise<[error: Error | null, result: unknown][] | null>;
}
