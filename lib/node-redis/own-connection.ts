import { runOutside } from '../core/context/async-context.js';
import { SystemClock, type Timer } from '../core/time/clock.js';
import type { ClusterNodeClient } from '../redis/cluster/cluster-client.js';
import type { ShardClient } from '../redis/pubsub/sharded-subscriber.js';
import type { RedisSubscriber, ReplicaConnection } from '../redis/redis-client.js';
import type { NodeAddress } from '../redis/redirection.js';
import { isErrorReply, toError } from '../redis/redis-errors.js';
import { ConnectionStream } from './connection-stream.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { type ClientEvent, listen, type NodeRedisClient, optionsOf, rethrow, send } from './node-redis.js';

/** What a connection needs besides the client that it is a copy of. */
export interface OwnConnectionOptions {
  /** The name of the connection at the server. */
  readonly name: string;
  /** The address of another server. Default: that of the client. */
  readonly address?: NodeAddress | undefined;
  /** Whether it comes back after a loss. Default: true. */
  readonly reconnects?: boolean | undefined;
  /** What stands before each key. Default: the `keyPrefix` of the client. */
  readonly prefix?: string | undefined;
}

/** The options of `duplicate` that count here, by the names of ioredis. */
interface CopyOptions {
  readonly host?: string;
  readonly port?: number;
  readonly connectionName?: string;
  /** A function if the copy comes back after a loss. */
  readonly retryStrategy?: unknown;
}

/** The pauses before the next attempt to connect, in milliseconds. They vary by half. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;

/** A server that accepts a connection and is not ready for this long is given up, in milliseconds. */
const READY_WITHIN_MS = 10_000;

const clock = new SystemClock();

/**
 * A connection of its own, with the options of a client of node-redis. Each connection is a new client that is ended
 * with it: nothing that was sent or subscribed over one connection is repeated over the next one, and a connection can
 * be cut at any moment.
 */
export class OwnConnection
  extends NodeRedisCommands
  implements RedisSubscriber, ReplicaConnection, ClusterNodeClient, ShardClient
{
  /** Where it leads to, by the names of ioredis. */
  readonly options: ClusterNodeClient['options'];
  status: 'wait' | 'connecting' | 'connect' | 'ready' | 'reconnecting' | 'end' = 'wait';
  stream: ConnectionStream | undefined;
  protected readonly prefix: string;
  /** The client of the present connection, or of the attempt to connect. */
  private client: NodeRedisClient | undefined;
  /** Aborts the attempt to connect. */
  private attempt = new AbortController();
  /** Ends an attempt to connect, or begins the next one. */
  private timer: Timer | undefined;
  /** Attempts in a row that have failed. */
  private failures = 0;

  constructor(
    private readonly original: NodeRedisClient,
    private readonly settings: OwnConnectionOptions,
  ) {
    super();
    const { socket, keyPrefix = '' } = optionsOf(original);
    this.prefix = settings.prefix ?? keyPrefix;
    const { host = 'localhost', port = 6379 } = settings.address ?? socket ?? {};
    this.options = { host, port };
  }

  /** Connects in the background. Does nothing if it is connected or connecting already. */
  connect(): Promise<void> {
    if (this.status === 'wait' || this.status === 'end') runOutside(() => this.open());
    return Promise.resolve();
  }

  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect = false): void {
    if (this.status === 'end') return;
    const wasWaiting = this.status === 'wait';
    this.status = reconnect ? 'reconnecting' : 'end';
    this.cut();
    if (reconnect) this.openLater();
    // As with ioredis, the caller has gone on by then.
    queueMicrotask(() => {
      if (!wasWaiting) this.emit('close');
      // It may have been connected again since.
      if (!reconnect && this.status === 'end') this.emit('end');
    });
  }

  /** Returns a connection with the same options but for these, not yet connected. */
  duplicate(options: CopyOptions): OwnConnection {
    const { name, prefix } = this.settings;
    const { host = String(this.options.host), port = Number(this.options.port) } = options;
    const reconnects = typeof options.retryStrategy === 'function';
    const address = { host, port };
    return new OwnConnection(this.original, { name: options.connectionName ?? name, address, reconnects, prefix });
  }

  subscribe(channel: string): Promise<unknown> {
    return this.withClient((client) => client.subscribe(channel, this.onMessage).catch(rethrow));
  }

  unsubscribe(channel: string): Promise<unknown> {
    // With the listener node-redis knows that a subscription which follows has to be sent.
    return this.withClient((client) => client.unsubscribe(channel, this.onMessage).catch(rethrow));
  }

  ssubscribe(channel: string): Promise<unknown> {
    return this.withClient((client) => client.sSubscribe(channel, this.onShardedMessage).catch(rethrow));
  }

  sunsubscribe(channel: string): Promise<unknown> {
    return this.withClient((client) => client.sUnsubscribe(channel, this.onShardedMessage).catch(rethrow));
  }

  protected send(args: readonly string[]): Promise<unknown> {
    return this.withClient((client) => send(client, args));
  }

  private readonly onMessage = (message: string, channel: string): void => {
    this.emit('message', channel, message);
  };

  private readonly onShardedMessage = (message: string, channel: string): void => {
    this.emit('smessage', channel, message);
  };

  private withClient(use: (client: NodeRedisClient) => Promise<unknown>): Promise<unknown> {
    const { client } = this;
    if (client === undefined) return Promise.reject(connectionClosed());
    return use(client).catch((error: unknown) => {
      if (this.client === client || isErrorReply(error)) throw error;
      throw connectionClosed(error);
    });
  }

  private open(): void {
    const { signal } = (this.attempt = new AbortController());
    this.status = 'connecting';
    this.emit('connecting');
    let client: NodeRedisClient;
    try {
      client = this.original.duplicate(this.optionsFor(signal));
    } catch (error) {
      // Options that node-redis refuses. The caller of `connect` has gone on by then.
      queueMicrotask(() => this.onFailed(toError(error), signal));
      return;
    }
    this.client = client;
    const onEvent = (event: ClientEvent, then: (error: Error) => void): void =>
      listen(client, event, (error) => {
        if (this.client === client) then(error);
      });
    onEvent('connect', () => this.onConnect());
    onEvent('ready', () => this.onReady(client));
    // After an error of its decoder, node-redis would go on with replies to other requests.
    onEvent('error', (error) => this.onFailed(error, signal));
    onEvent('reconnecting', () => this.onLost());
    onEvent('end', () => this.onLost());
    onEvent('sharded-channel-moved', () => this.emit('moved'));
    this.timer = clock.schedule(READY_WITHIN_MS, () => this.onLost(), true);
    client.connect().catch((error: unknown) => this.onFailed(toError(error), signal));
  }

  private optionsFor(signal: AbortSignal): object {
    const { address } = this.settings;
    return {
      disableOfflineQueue: false,
      commandsQueueMaxLength: undefined,
      clientSideCache: undefined,
      emitInvalidate: undefined,
      pingInterval: undefined,
      // A server that is being replaced would move the connection to another one without an event.
      maintNotifications: 'disabled',
      ...(address && { url: undefined }),
      socket: {
        ...optionsOf(this.original).socket,
        ...address,
        // A connection for subscriptions may be silent for long, and each request has its own timeout.
        socketTimeout: undefined,
        // With `false`, version 5 would not release what belongs to a client whose connection has ended.
        reconnectStrategy: 1,
        signal,
      },
    };
  }

  private onConnect(): void {
    this.status = 'connect';
    this.emit('connect');
  }

  private onReady(client: NodeRedisClient): void {
    this.timer?.cancel();
    // As the option `name`, a server that refuses it would refuse the connection in version 5.
    send(client, ['CLIENT', 'SETNAME', this.settings.name]).catch(() => undefined);
    this.stream = new ConnectionStream();
    this.status = 'ready';
    this.failures = 0;
    this.emit('ready');
  }

  private onFailed(error: Error, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.emit('error', error);
    if (!signal.aborted) this.onLost();
  }

  private onLost(): void {
    const { reconnects = true } = this.settings;
    this.failures += 1;
    this.status = reconnects ? 'reconnecting' : 'end';
    this.cut();
    if (reconnects) this.openLater();
    this.emit('close');
    if (!reconnects) this.emit('end');
  }

  /** Ends the present connection or attempt. It has no effect any more. */
  private cut(): void {
    const { client } = this;
    this.client = undefined;
    this.stream = undefined;
    this.timer?.cancel();
    try {
      client?.destroy();
    } catch {
      // Version 5 throws for a client that is closed.
    }
    // `destroy` leaves a socket that is being opened.
    this.attempt.abort();
  }

  private openLater(): void {
    const pauseMs = Math.min(this.failures * PAUSE_MS, LONGEST_PAUSE_MS) * (0.5 + clock.random());
    this.timer = runOutside(() => clock.schedule(pauseMs, () => this.open(), true));
  }
}

/** Returns the error of ioredis by which a cluster's routing knows that the node did not serve the request. */
function connectionClosed(cause?: unknown): Error {
  return new Error('Connection is closed.', { cause });
}
