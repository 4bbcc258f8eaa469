/**
 * What a store uses of an ioredis client, of version 5 or 6. Their classes are not assignable to each other, so that the
 * client is typed by the commands used.
 */
export interface RedisClient {
  /** `wait`, `connecting`, `connect`, `ready`, `reconnecting`, `close`, `end` … */
  readonly status: string;
  /** What it was made with. */
  readonly options?: { readonly keyPrefix?: string | undefined };
  /** The socket, while there is one. */
  readonly stream?: { cork(): void; uncork(): void };
  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
  eval(script: string, keyCount: number, ...args: string[]): Promise<unknown>;
  time(): Promise<unknown>;
  pipeline(): RedisPipeline;
  on(event: 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'ready' | 'close' | 'end', listener: () => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  listenerCount(event: string): number;
}

/** What a store uses of ioredis' pipelines. */
export interface RedisPipeline {
  evalsha(sha: string, keyCount: number, ...args: string[]): unknown;
  exec(): Promise<[error: Error | null, result: unknown][] | null>;
}

/** What a store uses of a connection that listens to a channel. */
export interface RedisSubscriber {
  readonly status: string;
  connect(): Promise<void>;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
  on(event: 'connect' | 'ready' | 'close' | 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  /** Cuts the connection; it comes back if `reconnect` is true. */
  disconnect(reconnect?: boolean): void;
}
