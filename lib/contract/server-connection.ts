/** Returns whether an event concerns a key. */
export type KeyFilter = (key: string) => boolean;

/** The connection to a server, as far as it shows whether the server is alive. */
export interface ServerConnection {
  /** The name of the server, as `LockStore.serverOf` returns it. Undefined on a single server. */
  readonly server: string | undefined;
  /** A number that changes whenever something is read from the server. */
  readonly received: number;
  /** When the connection last ended, on the engine's clock. A request that was sent earlier may never get a reply. */
  readonly lostAt: number;
  /** Sends a cheap request, so that a server that is alive sends something. Does not throw. */
  probe(): void;
  /**
   * Called while the server has been silent for long. A connection of the module's own is replaced, and what waits in
   * its buffers is dropped. Another one carries no requests until something is read from it. Does not throw.
   */
  onLongSilence?(): void;
}

/** Which servers a store has, and what shows whether they are alive. */
export interface Servers {
  /**
   * Returns the connections on which requests for locks are sent, one for each server. Without this method, one request
   * without a reply shows that a server is silent.
   */
  readonly connections?: (() => Iterable<ServerConnection>) | undefined;
  /** Returns the name of the server that keeps a key. Undefined if it is not known, or if there is only one. */
  readonly serverOf?: ((key: string) => string | undefined) | undefined;
}
