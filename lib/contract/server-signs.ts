import type { Servers } from './server-connection.js';

/** What was read from a server, and when, on a clock that leaves out blocked time. */
interface Signs {
  received: number;
  /** When something was last read, or up to one look later. */
  heardAt: number;
  isProbed: boolean;
  /** See `ServerConnection.lostAt`. It is on the engine's clock. */
  lostAt: number;
}

/**
 * After this many time limits of silence, a connection is replaced or carries no more requests. The network may carry
 * requests and no replies, and a lock would then be kept by requests whose replies never arrive.
 */
export const SILENT_LIMITS = 3;

/** A rounding error, in milliseconds. */
const EPSILON_MS = 0.001;

/**
 * Knows when something was last read from each server of a store. A server from which nothing is read gets a probe
 * after half of the time limit, so that a server that works on one request for a long time does not count as silent.
 */
export class ServerSigns {
  private readonly signs = new Map<string | undefined, Signs>();

  constructor(
    private readonly store: Servers,
    /** How long a server may be silent, in milliseconds. */
    private readonly limitMs: number,
  ) {}

  /**
   * Checks what was read since the last check.
   *
   * @param now the time on a clock that leaves out blocked time.
   * @param oldestMs how long the oldest request has waited for its reply.
   */
  onLook(now: number, oldestMs: number): void {
    for (const connection of this.store.connections?.() ?? []) {
      const { server, received, lostAt } = connection;
      const known = this.signs.get(server);
      if (known?.received !== received || known.lostAt !== lostAt)
        this.signs.set(server, { received, heardAt: now, isProbed: false, lostAt });
      else if (now - known.heardAt >= SILENT_LIMITS * this.limitMs - EPSILON_MS) connection.onLongSilence?.();
      else if (!known.isProbed && Math.min(oldestMs, now - known.heardAt) >= this.limitMs / 2 - EPSILON_MS) {
        known.isProbed = true;
        connection.probe();
      }
    }
  }

  /**
   * Returns whether a request without a reply for the limit has failed, because nothing was read from the key's server
   * for the limit or its connection has ended. True for an unknown server.
   *
   * @param sentAt when the request was sent, on the engine's clock.
   */
  hasFailed(key: string, sentAt: number, now: number): boolean {
    const known = this.signs.get(this.store.serverOf?.(key));
    if (known === undefined || known.lostAt >= sentAt) return true;
    return now - known.heardAt >= this.limitMs - EPSILON_MS;
  }
}
