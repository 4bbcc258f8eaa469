import type { DeadlineRequests } from './deadline-requests.js';
import type { RedisConnection } from './redis-connection.js';
import type { RedisScript } from './redis-script.js';

/** One server, and what is known of it: its clock is its own, and so are the scripts that it has seen. */
export interface RedisNode {
  readonly connection: RedisConnection;
  readonly deadlineRequests: DeadlineRequests;
  /** Whether a request is sent soon, or fails, and does not wait through an outage. */
  readonly accepting: boolean;
}

/** A script's arguments for one lock, by its key. */
export interface Call {
  readonly key: string;
  /** What the script is given of it, as it is sent. */
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** Where the keys are: on one server, or each on a node of a cluster. */
export interface Topology {
  /** What the client puts before keys. */
  readonly prefix: string;
  /** The key as it is sent. */
  keyOf(key: string): string;
  /** Which server has the key, where there are several and that is known. */
  serverOf?(key: string): string | undefined;
  /** Runs it at the server that has the key. */
  run<T>(key: string, send: (server: RedisNode) => Promise<T>): Promise<T>;
  /** Runs a script of one lock for many; an answer, or an error, for each. Does not reject. */
  runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]>;
  /** Whether the owner's ask was called off by this, before it was sent. */
  cancel(owner: string): boolean;
}
