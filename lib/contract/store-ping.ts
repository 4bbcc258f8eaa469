/**
 * What a ping found about one server.
 *
 * @publicApi
 */
export interface ServerPing {
  /** The server's name, as in the warnings: `redis.internal:6379`. Behind Sentinel, the address of the master. */
  readonly server: string;
  /** Whether the server replied in time. */
  readonly isUp: boolean;
  /** How long the reply took, in milliseconds. Undefined if there was none. */
  readonly latencyMs: number | undefined;
  /** Why the server is not up: the client's error, or the server's. Undefined if it is up. */
  readonly error: string | undefined;
}

/**
 * What a ping found about the servers of a store.
 *
 * @publicApi
 */
export interface StorePing {
  /** Whether all locks can be acquired: the server, a majority of a quorum, or every master of a cluster is up. */
  readonly isUp: boolean;
  /** How waiters learn of a release: from a message, or through repeated requests. */
  readonly handoff: 'subscription' | 'polling';
  /** What is limited and why, or why a server refuses locks. Undefined if nothing is limited, as far as is known. */
  readonly degraded: string | undefined;
  /** The servers. Empty for a store that has none, such as `memory()`. */
  readonly servers: readonly ServerPing[];
}

/** Returns how waiters learn of a release. @param polling why not from messages. Undefined if they do. */
export function handoffOf(polling: string | undefined): StorePing['handoff'] {
  return polling === undefined ? 'subscription' : 'polling';
}

/** Returns the ping of a server that cannot be reached. */
export function downServer(server: string, error: string): ServerPing {
  return { server, isUp: false, latencyMs: undefined, error };
}
