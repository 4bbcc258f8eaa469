export interface StartOptions {
  /** Further arguments of redis-server. They override the defaults. */
  readonly args?: readonly string[];
  /** A free port by default. */
  readonly port?: number;
  /** Further environment variables of the server alone. Requires a local process. */
  readonly variables?: NodeJS.ProcessEnv;
  /** Starts a Sentinel with these lines of configuration. Requires a local process. */
  readonly sentinel?: string;
}

/** The program of a server. */
export interface RedisBinary {
  readonly path: string;
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly description: string;
}

/** A source of Redis on this machine. */
export interface RedisSource {
  /** A readable description: which server, from where. */
  readonly description: string;
  /** What is started. Undefined for a server that is not a program of this machine. */
  readonly binary?: RedisBinary;
  start(options?: StartOptions): Promise<RedisServer>;
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** The pid of the server, undefined if it is not a child process. */
  readonly pid: number | undefined;
  readonly version: string;
  readonly description: string;
  /** Stops what was started. A server given by REDIS_URL keeps running. */
  stop(): Promise<void>;
  /** SIGKILL. This and the next three need a local process: `startRedis({ local: true })`. */
  kill(): Promise<void>;
  /** Sends SIGSTOP: connections stay open without replies. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /** Kills a running server and starts an empty one on the same port. */
  restart(): Promise<void>;
}

/** One way to get a Redis. `find` returns a source or throws the reason that there is none. */
export interface RedisCandidate {
  readonly name: string;
  /** The user named this one: a failure must not lead to another one silently. */
  readonly explicit?: boolean;
  find(): Promise<RedisSource>;
}
