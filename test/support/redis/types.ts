export type RedisKind = 'url' | 'docker' | 'binary' | 'packages';

export interface StartOptions {
  /** Further arguments of redis-server; they win over ours. */
  readonly args?: readonly string[];
  /** A free port by default. */
  readonly port?: number;
  /** Starts a Sentinel with these lines of configuration; it needs a local process. */
  readonly sentinel?: string;
}

/** Where a Redis can be had on this machine. */
export interface RedisSource {
  readonly kind: RedisKind;
  readonly version: string;
  /** For people: which server, from where. */
  readonly description: string;
  start(options?: StartOptions): Promise<RedisServer>;
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Of the server itself; undefined where it is no child of ours. */
  readonly pid: number | undefined;
  readonly version: string;
  readonly description: string;
  /** Ends what was started; a server given by REDIS_URL goes on. */
  stop(): Promise<void>;
  /** SIGKILL. This and the next three need a local process: `startRedis({ local: true })`. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /** Kills it if it runs, and starts it empty on the same port. */
  restart(): Promise<void>;
}

/** One way to a Redis; `find` answers a source, or throws why there is none. */
export interface RedisCandidate {
  readonly name: string;
  /** The user asked for this one by name: if it fails, do not quietly take another. */
  readonly explicit?: boolean;
  find(): Promise<RedisSource>;
}
