import { runOutside } from '../core/async-context.js';
import { SystemClock, type Timer } from '../core/time/clock.js';
import type { ClusterNodeClient } from '../redis/cluster/cluster-client.js';
import type { ShardClient } from '../redis/pubsub/sharded-subscriber.js';
import type { RedisSubscriber, ReplicaConnection } from '../redis/redis-client.js';
import type { NodeAddress } from '../redis/redirection.js';
import { isErrorReply, toError } from '../redis/redis-errors.js';
import { ConnectionStream } from './connection-stream.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { listen, type NodeRedisClient, type NodeRedisOptions, optionsOf, rethrow, send } from './node-redis.js';

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
  /** Further options of node-redis that differ from those of the client. */
  readonly overrides?: NodeRedisOptions | undefined;
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

/**
 * A server that accepts a connection and is not ready for this long is given up, in milliseconds. Another server may
 * have the place of one that was looked up. The shorter time doubles with each attempt, because the network may be slow.
 */
const READY_WITHIN_MS = 10_000;
const LOCATED_READY_WITHIN_MS = 2_000;

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
    if (this.status === 'wait' || this.status === 'end') runOutside(() => this.open());
    return Promise.resolve();
  }

  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect = false): void {
    const { current } = this;
    if (this.status === 'end') return;
    const wasWaiting = this.status === 'wait';
    this.forget();
    this.status = reconnect ? 'reconnecting' : 'end';
    current?.cut();
    if (reconnect) this.openLater();
    // As with ioredis, the caller has gone on by then.
    queueMicrotask(() => {
      if (!wasWaiting) this.emit('close');
      // It may have been connected again since.
      if (this.status === 'end') this.emit('end');
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
    const { current } = this;
    if (current === undefined) return Promise.reject(connectionClosed());
    return use(current.client).catch((error: unknown) => {
      if (this.current === current || isErrorReply(error)) throw error;
      throw connectionClosed(error);
    });
  }

  private open(): void {
    const { locate, address } = this.settings;
    this.status = 'connecting';
    const { attempt } = this;
    const ifWanted =
      <T>(then: (value: T) => void) =>
      (value: T): void => {
        if (this.attempt === attempt) then(value);
      };
    const onFailed = ifWanted((error: unknown) => this.onFailed(toError(error)));
    this.emit('connecting');
    try {
      if (locate === undefined) ifWanted((at: NodeAddress | undefined) => this.openAt(at))(address);
      else void locate().then(ifWanted((found: NodeAddress) => this.openAt(found))).catch(onFailed);
    } catch (error) {
      // Options that node-redis refuses. The caller of `connect` has gone on by then.
      queueMicrotask(() => onFailed(error));
    }
  }

  private openAt(address: NodeAddress | undefined): void {
    const controller = new AbortController();
    const client = this.original.duplicate(this.optionsAt(address, controller.signal));
    const connection = { client, cut: () => cut(client, controller) };
    this.current = connection;
    const ifCurrent =
      (then: (error: Error) => void) =>
      (error: Error): void => {
        if (this.current === connection) then(error);
      };
    const onLost = ifCurrent(() => this.onLost());
    listen(client, 'connect', ifCurrent(() => this.onConnect()));
    listen(client, 'ready', ifCurrent(() => this.onReady(client, address)));
    listen(client, 'error', ifCurrent((error) => this.emit('error', error)));
    // An error of a ready connection is one of the decoder, after which the connection goes on.
    listen(client, 'error', (error) => client.isReady || onLost(error));
    listen(client, 'reconnecting', onLost);
    listen(client, 'end', onLost);
    listen(client, 'sharded-channel-moved', ifCurrent(() => this.emit('moved')));
    this.timer = clock.schedule(this.readyWithinMs(), () => onLost(new Error('it was not ready in time')), true);
    client.connect().catch(ifCurrent((error) => this.onFailed(error)));
  }

  private optionsAt(address: NodeAddress | undefined, signal: AbortSignal): object {
    const { overrides = {} } = this.settings;
    return {
      ...(address && { url: undefined }),
      disableOfflineQueue: false,
      commandsQueueMaxLength: undefined,
      clientSideCache: undefined,
      emitInvalidate: undefined,
      pingInterval: undefined,
      // A server that is being replaced would hand the connection over to another one without an event.
      maintNotifications: 'disabled',
      ...overrides,
      socket: {
        ...optionsOf(this.original).socket,
        ...overrides.socket,
        ...address,
        // A connection for subscriptions may be silent for long, and each request has its own timeout.
        socketTimeout: undefined,
        // With `false`, version 5 would not release what belongs to a client whose connection has ended.
        reconnectStrategy: 1,
        signal,
      },
    };
  }

  private readyWithinMs(): number {
    if (this.settings.locate === undefined) return READY_WITHIN_MS;
    return Math.min(LOCATED_READY_WITHIN_MS * 2 ** this.failures, READY_WITHIN_MS);
  }

  private onConnect(): void {
    this.status = 'connect';
    this.emit('connect');
  }

  private onReady(client: NodeRedisClient, address: NodeAddress | undefined): void {
    this.timer?.cancel();
    // As the option `name`, a server that refuses it would refuse the connection in version 5.
    send(client, ['CLIENT', 'SETNAME', this.settings.name]).catch(() => undefined);
    this.stream = new ConnectionStream(address);
    this.status = 'ready';
    this.failures = 0;
    this.emit('ready');
  }

  private onFailed(error: Error): void {
    const { attempt } = this;
    this.emit('error', error);
    if (this.attempt === attempt) this.onLost();
  }

  private onLost(): void {
    const { current } = this;
    const { reconnects = true } = this.settings;
    this.forget();
    this.failures += 1;
    this.status = reconnects ? 'reconnecting' : 'end';
    // node-redis would connect again.
    current?.cut();
    if (reconnects) this.openLater();
    this.emit('close');
    if (!reconnects) this.emit('end');
  }

  /** Lets the present connection and attempt have no effect any more. */
  private forget(): void {
    this.current = undefined;
    this.stream = undefined;
    this.attempt += 1;
    this.timer?.cancel();
  }

  private openLater(): void {
    const pauseMs = Math.min(this.failures * PAUSE_MS, LONGEST_PAUSE_MS) * (0.5 + clock.random());
    this.timer = runOutside(() => clock.schedule(pauseMs, () => this.open(), true));
  }
}

/** Ends a client for good, whatever its state is. */
function cut(client: NodeRedisClient, controller: AbortController): void {
  try {
    client.destroy();
  } catch {
    // Version 5 throws for a client that is closed.
  }
  // `destroy` leaves a socket that is being opened.
  controller.abort();
}

/** Returns the error of ioredis by which a cluster's routing knows that the node did not serve the request. */
function connectionClosed(cause?: unknown): Error {
  return new Error('Connection is closed.', { cause });
}
