import { runOutside } from '../core/async-context.js';
import { SystemClock, type Timer } from '../core/time/clock.js';
import type { ClusterNodeClient } from '../redis/cluster/cluster-client.js';
import type { ShardClient } from '../redis/pubsub/sharded-subscriber.js';
import type { RedisSubscriber, ReplicaConnection } from '../redis/redis-client.js';
import type { NodeAddress } from '../redis/redirection.js';
import { isErrorReply, toError } from '../redis/redis-errors.js';
import { ConnectionStream } from './connection-stream.js';
import { type AdapterEvent, ClientEvents } from './client-events.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { listen, type NodeRedisClient, optionsOf, rethrow, send } from './node-redis.js';

/** What a connection needs besides the client that it is a copy of. */
export interface OwnConnectionOptions {
  /** The name of the connection at the server. */
  readonly name: string;
  /** The address of another server. Default: that of the client. */
  readonly address?: NodeAddress | undefined;
  /** Finds the address before each attempt to connect. */
  readonly locate?: (() => Promise<NodeAddress>) | undefined;
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

/** The pauses before the next attempt to connect, in milliseconds. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** A server that accepts a connection and is not ready for this long is given up, in milliseconds. */
const READY_WITHIN_MS = 10_000;

const clock = new SystemClock();

/**
 * A connection of its own, with the options of a client of node-redis. Each connection is a new client that does not
 * reconnect: nothing that was sent or subscribed over one connection is repeated over the next one, and a connection
 * can be cut at any moment.
 */
export class OwnConnection
  extends NodeRedisCommands
  implements RedisSubscriber, ReplicaConnection, ClusterNodeClient, ShardClient
{
  /** Where it leads to, by the names of ioredis. */
  readonly options: ClusterNodeClient['options'];
  status: 'wait' | 'connecting' | 'ready' | 'reconnecting' | 'end' = 'wait';
  stream: ConnectionStream | undefined;
  protected connections = 0;
  protected readonly prefix: string;
  private readonly events = new ClientEvents();
  private current: { readonly client: NodeRedisClient; cut(): void } | undefined;
  /** Ends an attempt to connect, or begins the next one. */
  private timer: Timer | undefined;
  /** Changes with each attempt to connect. An earlier one has no effect any more. */
  private attempt = 0;
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
    if (this.status === 'wait' || this.status === 'end') this.open();
    return Promise.resolve();
  }

  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect = false): void {
    const { current } = this;
    this.forget();
    if (this.status === 'end') return;
    const wasWaiting = this.status === 'wait';
    this.status = reconnect ? 'reconnecting' : 'end';
    current?.cut();
    if (reconnect) this.openLater();
    // As with ioredis, the caller has gone on by then.
    queueMicrotask(() => {
      if (!wasWaiting) this.events.emit('close');
      if (!reconnect) this.events.emit('end');
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

  on(event: AdapterEvent, listener: (...args: never[]) => void): this {
    this.events.add(event, listener);
    return this;
  }

  off(event: AdapterEvent, listener: (...args: never[]) => void): this {
    this.events.remove(event, listener);
    return this;
  }

  // node-redis prints no errors, so a further listener silences nothing.
  listenerCount(event: string): number {
    return event === 'error' ? 1 : this.events.count(event);
  }

  protected send(args: readonly string[]): Promise<unknown> {
    return this.withClient((client) => send(client, args));
  }

  private readonly onMessage = (message: string, channel: string): void => {
    this.events.emit('message', channel, message);
  };

  private readonly onShardedMessage = (message: string, channel: string): void => {
    this.events.emit('smessage', channel, message);
  };

  private withClient(use: (client: NodeRedisClient) => Promise<unknown>): Promise<unknown> {
    const { current } = this;
    if (current === undefined) return Promise.reject(connectionClosed());
    return use(current.client).catch((error: unknown) => {
      if (this.current === current || isErrorReply(error)) throw error;
      throw connectionClosed(error);
    });
  }

  private open(): void {
    this.status = 'connecting';
    const { locate, address } = this.settings;
    if (locate === undefined) return this.openAt(address);
    const { attempt } = this;
    locate()
      .then((found) => {
        if (this.attempt === attempt) this.openAt(found);
      })
      .catch((error: unknown) => {
        if (this.attempt !== attempt) return;
        this.events.emit('error', toError(error));
        this.onLost();
      });
  }

  private openAt(address: NodeAddress | undefined): void {
    const controller = new AbortController();
    const client = this.original.duplicate(this.overrides(address, controller.signal));
    const cut = (): void => {
      try {
        client.destroy();
      } catch {
        // Version 5 throws for a client that is closed.
      }
      // `destroy` leaves a socket that is being opened.
      controller.abort();
    };
    const connection = { client, cut };
    this.current = connection;
    const isCurrent = (): boolean => this.current === connection;
    const onLost = (): void => {
      if (isCurrent()) this.onLost();
    };
    listen(client, 'connect', () => isCurrent() && this.events.emit('connect'));
    listen(client, 'ready', () => isCurrent() && this.onReady(client, address));
    listen(client, 'error', (error) => {
      if (isCurrent()) this.events.emit('error', error);
      if (!client.isReady) onLost();
    });
    listen(client, 'end', onLost);
    client.on('sharded-channel-moved', () => isCurrent() && this.events.emit('moved'));
    this.timer = clock.schedule(READY_WITHIN_MS, onLost, true);
    client.connect().catch((error: unknown) => {
      if (isCurrent()) this.events.emit('error', toError(error));
      onLost();
    });
  }

  private overrides(address: NodeAddress | undefined, signal: AbortSignal): object {
    const { socket } = optionsOf(this.original);
    return {
      // A connection for subscriptions may be silent for long, and each request has its own timeout.
      socket: { ...socket, ...address, reconnectStrategy: false, socketTimeout: undefined, signal },
      ...(address && { url: undefined }),
      disableOfflineQueue: false,
      commandsQueueMaxLength: undefined,
      clientSideCache: undefined,
      emitInvalidate: undefined,
      pingInterval: undefined,
      // A server that is being replaced would hand the connection over to another one without an event.
      maintNotifications: 'disabled',
    };
  }

  private onReady(client: NodeRedisClient, address: NodeAddress | undefined): void {
    this.timer?.cancel();
    // As the option `name`, a server that refuses it would refuse the connection in version 5.
    send(client, ['CLIENT', 'SETNAME', this.settings.name]).catch(() => undefined);
    this.stream = new ConnectionStream(address);
    this.status = 'ready';
    this.failures = 0;
    this.connections += 1;
    this.events.emit('ready');
  }

  private onLost(): void {
    const { current } = this;
    this.forget();
    this.failures += 1;
    const reconnects = this.settings.reconnects ?? true;
    this.status = reconnects ? 'reconnecting' : 'end';
    // The client gives up by itself. This ends what it may have left.
    current?.cut();
    if (reconnects) this.openLater();
    this.events.emit('close');
    if (!reconnects) this.events.emit('end');
  }

  /** Lets the present connection and attempt have no effect any more. */
  private forget(): void {
    this.current = undefined;
    this.stream = undefined;
    this.attempt += 1;
    this.timer?.cancel();
  }

  private openLater(): void {
    const pauseMs = Math.min(this.failures * PAUSE_MS, LONGEST_PAUSE_MS);
    this.timer = runOutside(() => clock.schedule(pauseMs, () => this.open(), true));
  }
}

/** Returns the error of ioredis by which a cluster's routing knows that the node did not serve the request. */
function connectionClosed(cause?: unknown): Error {
  return new Error('Connection is closed.', { cause });
}
