import { messageOf } from '../common/errors.js';
import { downServer, type ServerPing } from '../contract/store-ping.js';
import { type Clock, withTimeout } from '../clock/clock.js';
import type { ServerClient } from './client-port.js';
import type { RedisConnection } from './redis-connection.js';

/** The states of a client in which a request would wait for a connection that has failed. */
const WITHOUT_CONNECTION: readonly string[] = ['close', 'reconnecting', 'end'];

/** What a ping takes. */
export interface PingerOptions {
  readonly clock: Clock;
  /** How long a server may take to reply, in milliseconds. */
  readonly timeoutMs: number;
  /** Sends one cheap request. Default: TIME, which the user of every store with scripts may send. */
  readonly send?: ((client: ServerClient) => Promise<unknown>) | undefined;
}

const sendTime = (client: ServerClient): Promise<unknown> => client.send('time');

/**
 * Sends one request to a server and measures the time until its reply. A client has at most one of them unanswered, so
 * that frequent health checks do not pile up in the queue of a client without a connection.
 */
export class Pinger {
  private readonly unanswered = new WeakMap<ServerClient, Promise<number>>();

  constructor(private readonly options: PingerOptions) {}

  /** Returns whether the connection's server replies, within `timeoutMs`. Does not reject. */
  async ping(connection: RedisConnection, server: string): Promise<ServerPing> {
    const { clock, timeoutMs } = this.options;
    const { client } = connection;
    try {
      if (WITHOUT_CONNECTION.includes(client.status)) throw connection.whyNotReady();
      const latencyMs = await withTimeout(clock, timeoutMs, this.latencyOf(client), () => {
        throw connection.ready ? new Error(`no reply within ${timeoutMs} ms`) : connection.whyNotReady();
      });
      return { server, isUp: true, latencyMs, error: undefined };
    } catch (error) {
      return downServer(server, messageOf(error));
    }
  }

  private latencyOf(client: ServerClient): Promise<number> {
    const { clock, send = sendTime } = this.options;
    const known = this.unanswered.get(client);
    if (known !== undefined) return known;
    const sentAt = clock.now();
    const reply = send(client)
      .then(() => clock.now() - sentAt)
      .finally(() => this.unanswered.delete(client));
    this.unanswered.set(client, reply);
    return reply;
  }
}
