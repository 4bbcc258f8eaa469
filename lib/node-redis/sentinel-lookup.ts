import { SystemClock, withTimeout } from '../core/time/clock.js';
import { messageOf } from '../core/errors.js';
import type { NodeAddress } from '../redis/redirection.js';
import { listen, type NodeRedisClient, optionsOf, send } from './node-redis.js';

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
  /** Options of node-redis for the connections to Sentinels, such as `username` and `password`. Default: none. */
  readonly sentinelOptions?: object | undefined;
}

/** How long a Sentinel may take to connect and to reply, in milliseconds. */
const SENTINEL_TIMEOUT_MS = 2_000;

const clock = new SystemClock();

/** Requests the address of the master from its Sentinels, first from the Sentinel that replied last. */
export class SentinelLookup {
  private order: NodeRedisSentinels['sentinels'];

  constructor(
    /** The options of its clients apply to Sentinels as well, but for the user and the database. */
    private readonly template: NodeRedisClient,
    private readonly options: NodeRedisSentinels,
  ) {
    this.order = [...options.sentinels];
  }

  readonly locate = async (): Promise<NodeAddress> => {
    const failures: string[] = [];
    for (const sentinel of this.order) {
      try {
        const address = await this.ask(sentinel);
        this.order = [sentinel, ...this.order.filter((other) => other !== sentinel)];
        return address;
      } catch (error) {
        failures.push(`${sentinel.host}:${sentinel.port}: ${messageOf(error)}`);
      }
    }
    throw new Error(`no Sentinel knows the master ${this.options.name} (${failures.join('; ')})`);
  };

  private async ask(sentinel: NodeAddress): Promise<NodeAddress> {
    const controller = new AbortController();
    const client = this.template.duplicate(this.overrides(sentinel, controller.signal));
    listen(client, 'error', () => undefined);
    const asking = client
      .connect()
      .then(() => send(client, ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.options.name]));
    try {
      const reply = await withTimeout(clock, SENTINEL_TIMEOUT_MS, asking, () => {
        throw new Error(`no reply within ${SENTINEL_TIMEOUT_MS} ms`);
      });
      if (!Array.isArray(reply)) throw new Error('it does not know the master');
      return { host: String(reply[0]), port: Number(reply[1]) };
    } finally {
      try {
        client.destroy();
      } catch {
        // Version 5 throws for a client that is closed.
      }
      controller.abort();
    }
  }

  private overrides(sentinel: NodeAddress, signal: AbortSignal): object {
    const { socket } = optionsOf(this.template);
    return {
      url: undefined,
      name: undefined,
      username: undefined,
      password: undefined,
      credentialsProvider: undefined,
      database: undefined,
      readonly: undefined,
      clientSideCache: undefined,
      emitInvalidate: undefined,
      pingInterval: undefined,
      maintNotifications: 'disabled',
      ...this.options.sentinelOptions,
      socket: { ...socket, ...sentinel, reconnectStrategy: false, signal },
    };
  }
}
