import { runOutside } from '../core/context/async-context.js';
import { SystemClock, type Timer } from '../core/time/clock.js';
import type { FurtherConnection, ServerTarget } from '../redis/client-port.js';
import { hostAndPort } from '../redis/redirection.js';
import { isErrorReply, toError } from '../redis/redis-errors.js';
import { type NodeRedisClient, optionsOf, rethrow, send } from './node-redis.js';
import { NodeRedisServer } from './node-redis-server.js';

/** What a connection needs besides the client that it is a copy of. */
export interface OwnConnectionOptions {
  /** The name of the connection at the server. */
  readonly name: string;
  /** The address of another server, `host:port`. Default: that of the client. */
  readonly address?: string | undefined;
  /** Whether it comes back after a loss. Default: true. */
  readonly reconnects?: boolean | undefined;
  /** What stands before each key. Default: the `keyPrefix` of the client. */
  readonly keyPrefix?: string | undefined;
}

/** The pauses before the next attempt to connect, in milliseconds. They vary by half. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;

/** A server that accepts a connection and is not ready for this long is given up, in milliseconds. */
const READY_WITHIN_MS = 10_000;

const clock = new SystemClock();

/**
 * A connection of its own, with the options of a node-redis client. Each connection is a new client that ends with
 * it: nothing that was sent or subscribed over one connection is repeated over the next one, and a connection can
 * be cut at any moment.
 */
export class OwnConnection extends NodeRedisServer implements FurtherConnection {
  readonly keyPrefix: string;
  readonly reconnects: boolean;
  readonly target: ServerTarget;
  status: 'wait' | 'connecting' | 'connect' | 'ready' | 'reconnecting' | 'end' = 'wait';
  /** The client of the current connection, or of the attempt to connect. */
  private client: NodeRedisClient | undefined;
  /** Aborts the attempt to connect. */
  private attempt = new AbortController();
  /** Ends an attempt to connect, or begins the next one. */
  private timer: Timer | undefined;
  /** Attempts in a row that failed. */
  private failures = 0;

  constructor(
    private readonly original: NodeRedisClient,
    private readonly settings: OwnConnectionOptions,
  ) {
    super();
    const { socket, keyPrefix = '' } = optionsOf(original);
    const { address, reconnects = true } = settings;
    this.keyPrefix = settings.keyPrefix ?? keyPrefix;
    this.reconnects = reconnects;
    this.target = { host: 'localhost', port: 6379, ...(address === undefined ? socket : hostAndPort(address)) };
  }

  /** Connects in the background. Does nothing if it is connected or connecting already. */
  connect(): void {
    if (this.status === 'wait' || this.status === 'end') runOutside(() => this.attemptToConnect());
  }

  /** Cuts the connection. It comes back if `reconnect` is true. */
  disconnect(reconnect = false): void {
    if (this.status === 'end') return;
    const wasWaiting = this.status === 'wait';
    this.status = reconnect ? 'reconnecting' : 'end';
    this.cut();
    if (reconnect) this.openLater();
    // The caller has gone on by then.
    queueMicrotask(() => {
      if (!wasWaiting) this.report('close');
      // It may have been connected again since.
      if (!reconnect && this.status === 'end') this.report('end');
    });
  }

  /** Returns a connection to the same server, as a node of a cluster needs it. */
  open(purpose: 'handoffs' | 'replicas'): OwnConnection {
    return new OwnConnection(this.original, {
      ...this.settings,
      name: `nestjs-redis-lock:${purpose}`,
      reconnects: true,
    });
  }

  subscribe(channel: string, isSharded: boolean): Promise<unknown> {
    const method = isSharded ? 'sSubscribe' : 'subscribe';
    return this.withClient((client) => client[method](channel, this.onMessage).catch(rethrow));
  }

  unsubscribe(channel: string, isSharded: boolean): Promise<unknown> {
    const method = isSharded ? 'sUnsubscribe' : 'unsubscribe';
    // With the listener node-redis knows that a subscription which follows has to be sent.
    return this.withClient((client) => client[method](channel, this.onMessage).catch(rethrow));
  }

  protected request(words: readonly string[]): Promise<unknown> {
    return this.withClient((client) => send(client, words));
  }

  private readonly onMessage = (message: string, channel: string): void => {
    this.report('message', channel, message);
  };

  private withClient(use: (client: NodeRedisClient) => Promise<unknown>): Promise<unknown> {
    const { client } = this;
    if (client === undefined) return Promise.reject(connectionClosed());
    return use(client).catch((error: unknown) => {
      if (this.client === client || isErrorReply(error)) throw error;
      throw connectionClosed(error);
    });
  }

  private attemptToConnect(): void {
    const { signal } = (this.attempt = new AbortController());
    this.status = 'connecting';
    this.report('connecting');
    let client: NodeRedisClient;
    try {
      client = this.original.duplicate(this.optionsFor(signal));
    } catch (error) {
      // Options that node-redis refuses. The caller of `connect` has gone on by then.
      queueMicrotask(() => this.onFailed(toError(error), signal));
      return;
    }
    this.client = client;
    const onEvent = (event: string, then: (error: Error) => void): void => {
      client.on(event, (error) => {
        if (this.client === client) then(error);
      });
    };
    onEvent('connect', () => this.onConnect());
    onEvent('ready', () => this.onReady(client));
    // After an error of its decoder, node-redis would continue with replies to other requests.
    onEvent('error', (error) => this.onFailed(error, signal));
    onEvent('reconnecting', () => this.onLost());
    onEvent('end', () => this.onLost());
    onEvent('sharded-channel-moved', () => this.report('moved'));
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
      ...(address !== undefined && { url: undefined }),
      socket: {
        ...optionsOf(this.original).socket,
        ...(address !== undefined && hostAndPort(address)),
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
    this.report('connect');
  }

  private onReady(client: NodeRedisClient): void {
    this.timer?.cancel();
    // As the option `name`, a server that refuses it would refuse the connection in version 5.
    send(client, ['CLIENT', 'SETNAME', this.settings.name]).catch(() => undefined);
    this.status = 'ready';
    this.failures = 0;
    this.report('ready');
  }

  private onFailed(error: Error, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.report('error', error);
    if (!signal.aborted) this.onLost();
  }

  private onLost(): void {
    const { reconnects } = this;
    this.failures += 1;
    this.status = reconnects ? 'reconnecting' : 'end';
    this.cut();
    if (reconnects) this.openLater();
    this.report('close');
    if (!reconnects) this.report('end');
  }

  /** Ends the current connection or attempt, which then no longer has an effect. */
  private cut(): void {
    const { client } = this;
    this.client = undefined;
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
    this.timer = runOutside(() => clock.schedule(pauseMs, () => this.attemptToConnect(), true));
  }
}

/** Returns the error of ioredis by which a cluster's routing knows that the node did not serve the request. */
function connectionClosed(cause?: unknown): Error {
  return new Error('Connection is closed.', { cause });
}
