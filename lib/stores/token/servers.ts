import type { StoreListener } from '../../core/lock-store.js';
import type { DatedAsks } from '../redis/dated-asks.js';
import type { RedisConnection } from '../redis/redis-connection.js';
import type { RedisScript } from '../redis/redis-script.js';
import type { HandOffListener, HandOffs } from './hand-off-channel.js';

/** One server, and what is known of it: its clock is its own, and so are the scripts that it has seen. */
export interface Server {
  readonly connection: RedisConnection;
  readonly asks: DatedAsks;
  /** Whether a request is sent soon, or fails, and does not wait through an outage. */
  readonly accepting: boolean;
}

/** A script's arguments for one lock, by its key. */
export interface Call {
  readonly key: string;
  readonly args: readonly string[];
}

/** Where the keys are: on one server, or each on a node of a cluster. */
export interface Servers {
  /** The key as it is sent. */
  keyOf(key: string): string;
  /** The lock, the last fencing token under its hash tag, and the queue for it, as they are sent. */
  keysOf(key: string): readonly string[];
  /** What a script that hands the key's lock over is told besides. */
  handOffArgs(key: string): readonly string[];
  /** Runs it at the server that has the key. */
  run<T>(key: string, send: (server: Server) => Promise<T>): Promise<T>;
  /** Runs a script of one key for many; an answer, or an error, for each. Does not reject. */
  runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]>;
  /** Whether the owner's ask was called off by this, before it was sent. */
  callOff(owner: string): boolean;
  /** Begins to watch the connections; answers how hand-offs are heard, and how to stop. */
  listen(listener: StoreListener, events: HandOffListener): Listening;
}

export interface Listening {
  readonly handOffs: HandOffs;
  stop(): void;
}
