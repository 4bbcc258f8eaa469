import { SystemClock, withTimeout } from '../core/time/clock.js';
import { messageOf } from '../core/errors.js';
import type { NodeAddress } from '../redis/redirection.js';
import type { NodeRedisClient, NodeRedisOptions } from './node-redis.js';
import { OwnConnection } from './own-connection.js';

/**
 * The Sentinels of a master.
 *
 * @publicApi
 */
export interface NodeRedisSentinels {
  /** At least one. The others are not learned from it, so name all of them. */
  readonly sentinels: readonly { readonly host: string; readonly port: number }[];
  /** The name of the master at its Sentinels. */
  readonly name: string;
  /**
   * Options of node-redis for the connections to Sentinels, such as `username`, `password` and `socket`. Default: those
   * of the client, but for the user and the database.
   */
  readonly sentinelOptions?: object | undefined;
}

/** How long a Sentinel may take to connect and to reply, in milliseconds. */
const SENTINEL_TIMEOUT_MS = 2_000;

const clock = new SystemClock();

/** The Sentinels of a master: they name its address, and report a failover. */
export class Sentinels {
  private order: readonly NodeAddress[];

  constructor(
    private readonly template: NodeRedisClient,
    private readonly given: NodeRedisSentinels,
  ) {
    this.order = [...given.sentinels];
  }

  /** Requests the address of the master, first from the Sentinel that replied last. */
  readonly locate = async (signal: AbortSignal): Promise<NodeAddress> => {
    const failures: string[] = [];
    for (const sentinel of this.order) {
      if (signal.aborted) break;
      try {
        const master = await this.ask(sentinel, signal);
        this.prefer(sentinel);
        return master;
      } catch (error) {
        failures.push(`${sentinel.host}:${sentinel.port}: ${messageOf(error)}`);
      }
    }
    throw new Error(`no Sentinel knows the master ${this.given.name} (${failures.join('; ')})`);
  };

  /** Calls `onFailover` whenever a Sentinel reports a new master. Returns a function that ends it. */
  watch(onFailover: (master: NodeAddress) => void): () => void {
    const connections = this.given.sentinels.map((sentinel) => {
      const connection = this.connectionTo(sentinel, true);
      connection.on('ready', () => void connection.subscribe('+switch-master').catch(() => undefined));
      connection.on('message', (_: string, message: string) => {
        const [name, , , host, port] = message.split(' ');
        if (name !== this.given.name) return;
        this.prefer(sentinel);
        onFailover({ host, port: Number(port) });
      });
      void connection.connect();
      return connection;
    });
    return () => {
      for (const connection of connections) connection.disconnect();
    };
  }

  private async ask(sentinel: NodeAddress, signal: AbortSignal): Promise<NodeAddress> {
    const connection = this.connectionTo(sentinel, false);
    signal.addEventListener('abort', () => connection.disconnect(), { once: true });
    try {
      const reply = connection.masterOf(this.given.name);
      return await withTimeout(clock, SENTINEL_TIMEOUT_MS, reply, () => {
        throw new Error(`no reply within ${SENTINEL_TIMEOUT_MS} ms`);
      });
    } finally {
      connection.disconnect();
    }
  }

  private prefer(sentinel: NodeAddress): void {
    this.order = [sentinel, ...this.order.filter((other) => other !== sentinel)];
  }

  private connectionTo(address: NodeAddress, reconnects: boolean): SentinelConnection {
    const overrides: NodeRedisOptions = { ...NO_LOGIN, ...this.given.sentinelOptions };
    const name = 'nestjs-redis-lock:sentinel';
    return new SentinelConnection(this.template, { name, address, reconnects, prefix: '', overrides });
  }
}

/** The options of a master that a Sentinel does not share. */
const NO_LOGIN: object = {
  name: undefined,
  username: undefined,
  password: undefined,
  credentialsProvider: undefined,
  database: undefined,
  readonly: undefined,
};

/** A connection to a Sentinel. */
class SentinelConnection extends OwnConnection {
  /** Connects, and returns the address of a master. */
  masterOf(name: string): Promise<NodeAddress> {
    let lastError: unknown;
    this.on('error', (error: Error) => (lastError = error));
    void this.connect();
    const reply = this.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
    return reply.then(
      (address) => {
        if (!Array.isArray(address)) throw new Error('it does not know the master');
        return { host: String(address[0]), port: Number(address[1]) };
      },
      (error: unknown) => {
        throw lastError ?? error;
      },
    );
  }
}
