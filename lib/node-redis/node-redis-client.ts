import { runOutside } from '../common/async-context.js';
import { SystemClock, type Timer } from '../clock/clock.js';
import type { ClientListener, FurtherConnection, ServerClient, ServerTarget } from '../redis/client-port.js';
import { isErrorReply } from '../redis/redis-errors.js';

/**
 * The part of a client of `redis` (5.9 to 6) that locks use. It is typed by its methods: the classes of the two
 * versions are not assignable to each other, and the package `redis` is not needed to load this module.
 *
 * @publicApi
 */
export interface NodeRedisClient {
  /** True from `connect()` until the client is closed or gives up. */
  readonly isOpen: boolean;
  /** True while the connection accepts commands. */
  readonly isReady: boolean;
  /** The options that the client was made with. */
  readonly options?: object | undefined;
  connect(): Promise<unknown>;
  /** Sends a command as it is: the client's `keyPrefix` is not added. */
  sendCommand(args: readonly string[], options?: object): Promise<unknown>;
  /** Makes a client with the same options but for these. */
  duplicate(overrides?: object): NodeRedisClient;
  subscribe(channel: string, listener: MessageListener): Promise<unknown>;
  unsubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  sSubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  sUnsubscribe(channel: string, listener: MessageListener): Promise<unknown>;
  /** Cuts the connection permanently. */
  destroy(): void;
  on(event: string, listener: (error: Error) => void): unknown;
}

/** Receives the messages of a channel. */
export type MessageListener = (message: string, channel: string) => void;

/** The address of a server. */
type Address = { readonly host: string; readonly port: number };

/** The options of a client that are read here. */
interface Options {
  readonly socket?: Pick<ServerTarget, 'host' | 'port' | 'path' | 'tls'> | undefined;
  readonly database?: number | undefined;
  /** Since version 6. */
  readonly keyPrefix?: string | undefined;
}

/**
 * Options of each command. Without them the client's own `commandOptions` would apply: a `typeMapping` gives buffers
 * for texts, and a `timeout` (5 s in version 6) gives up commands that wait for the connection.
 */
export const PLAIN = { typeMapping: {}, timeout: undefined, abortSignal: undefined, asap: false };

/** A reply of a server that is an error begins with its code. No error of a connection begins like this. */
const ERROR_REPLY = /^[A-Z][A-Z\d]{2,}(?: |$)/;

/** The pause before the next attempt to connect, for each that has failed, and the longest. They vary by half. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;

const clock = new SystemClock();

/** What the caller's client and a connection of its own have in common. */
abstract class NodeRedisServer {
  readonly target: ServerTarget;
  status: 'wait' | 'connecting' | 'connect' | 'ready' | 'reconnecting' | 'end' = 'wait';
  private readonly listeners = new Set<ClientListener>();

  /**
   * @param original the client whose options count.
   * @param address the address of the server, if it differs from that in the options.
   * @param name the name of a further connection at the server.
   */
  constructor(
    protected readonly original: NodeRedisClient,
    readonly keyPrefix: string,
    protected readonly address?: Address,
    protected readonly name = '',
  ) {
    const { socket, database } = optionsOf(original);
    this.target = { host: 'localhost', port: 6379, db: database, ...socket, ...address };
  }

  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.request([command, script, String(keys.length), ...keys.map(this.named), ...args]);
  }

  send(command: string, keys: readonly string[] = [], args: readonly string[] = []): Promise<unknown> {
    return this.request([command, ...keys.map(this.named), ...args]);
  }

  watch(listener: ClientListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  open(purpose: 'handoffs' | 'replicas'): OwnConnection {
    return new OwnConnection(this.original, this.keyPrefix, this.address, `nestjs-redis-lock:${purpose}`);
  }

  protected abstract request(words: readonly string[]): Promise<unknown>;

  /** Called after an error of the client, and at its end. */
  protected abstract onLost(): void;

  /** True while the client may be connected without a report of it. */
  protected get isIdle(): boolean {
    return this.status === 'wait' || this.status === 'end';
  }

  /** Reports what happens to a client. node-redis ends the process if nobody listens to its errors. */
  protected follow(client: NodeRedisClient, isFollowed = (): boolean => true): void {
    const on = (event: string, then: (error: Error) => void): void =>
      void client.on(event, (error) => isFollowed() && then(error));
    on('connect', () => this.enter('connect'));
    on('ready', () => this.enter('ready'));
    on('error', (error) => {
      this.report('error', error);
      // A listener may have cut the connection.
      if (isFollowed()) this.onLost();
    });
    on('end', () => this.onLost());
  }

  protected enter(status: 'connecting' | 'connect' | 'ready'): void {
    if (this.isIdle && status === 'connect') this.enter('connecting');
    this.status = status;
    this.report(status);
  }

  protected report<E extends keyof ClientListener>(
    event: E,
    ...args: Parameters<NonNullable<ClientListener[E]>>
  ): void {
    for (const listener of this.listeners) (listener[event] as ((...each: typeof args) => void) | undefined)?.(...args);
  }

  private readonly named = (key: string): string => this.keyPrefix + key;
}

/** A node-redis client that belongs to the caller. It is never connected, closed or changed. It gets four listeners. */
export class SharedClient extends NodeRedisServer implements ServerClient {
  constructor(client: NodeRedisClient) {
    super(client, optionsOf(client).keyPrefix ?? '');
    if (client.isOpen) this.status = client.isReady ? 'ready' : 'connecting';
    this.follow(client);
  }

  connect(): void {
    // The caller connects the client.
  }

  protected request(words: readonly string[]): Promise<unknown> {
    // node-redis has no event for the beginning of an attempt. A connection that never opens would not be noticed.
    if (this.original.isOpen && this.isIdle) this.enter('connecting');
    return this.original.sendCommand(words, PLAIN).catch(rethrow);
  }

  /** Reports the end of a connection once. node-redis has no event for it: the first one is an error, or `end`. */
  protected onLost(): void {
    // An error of its decoder, after which the connection continues.
    if (this.original.isReady) return;
    const { status } = this;
    this.status = this.original.isOpen ? 'reconnecting' : 'end';
    if (status === 'ready') this.report('close');
    if (this.status === 'end' && status !== 'end') this.report('end');
  }
}

/**
 * A connection with the options of a node-redis client. Each attempt to connect is a new client that ends with it:
 * nothing that was sent or subscribed over one connection is repeated over the next one, and a connection can be cut at
 * any moment.
 */
export class OwnConnection extends NodeRedisServer implements FurtherConnection {
  /** The client of the current connection, or of the attempt to connect. */
  private client: NodeRedisClient | undefined;
  /** Ends a socket that is being opened, which `destroy` leaves. */
  private attempt = new AbortController();
  private timer: Timer | undefined;
  /** Attempts in a row that failed. */
  private failures = 0;

  connect(): void {
    if (this.isIdle) runOutside(() => this.begin());
  }

  readonly reset = (): void => this.disconnect(true);

  disconnect(reconnect = false): void {
    const { status } = this;
    if (status === 'end') return;
    this.cut(reconnect ? 'reconnecting' : 'end');
    // The caller has gone on by then, and may have connected again.
    queueMicrotask(() => {
      if (status !== 'wait') this.report('close');
      if (this.status === 'end') this.report('end');
    });
  }

  subscribe(channel: string, isSharded: boolean): Promise<unknown> {
    return this.use((client) => client[isSharded ? 'sSubscribe' : 'subscribe'](channel, this.onMessage));
  }

  unsubscribe(channel: string, isSharded: boolean): Promise<unknown> {
    // With the listener node-redis knows that a subscription which follows has to be sent.
    return this.use((client) => client[isSharded ? 'sUnsubscribe' : 'unsubscribe'](channel, this.onMessage));
  }

  protected request(words: readonly string[]): Promise<unknown> {
    return this.use((client) => client.sendCommand(words, PLAIN));
  }

  // After an error of its decoder, node-redis would continue with replies to other requests.
  protected onLost(): void {
    this.failures += 1;
    this.cut('reconnecting');
    this.report('close');
  }

  private readonly onMessage: MessageListener = (message, channel) => this.report('message', channel, message);

  private async use(send: (client: NodeRedisClient) => Promise<unknown>): Promise<unknown> {
    const { client } = this;
    try {
      if (client !== undefined) return await send(client).catch(rethrow);
    } catch (error) {
      if (this.client === client || isErrorReply(error)) throw error;
    }
    // By this error the topology of a cluster knows that the connection has ended.
    throw new Error('Connection is closed.');
  }

  private begin(): void {
    this.attempt = new AbortController();
    const client = (this.client = this.original.duplicate(this.optionsOfAttempt()));
    this.enter('connecting');
    this.follow(client, () => this.client === client);
    client.on('sharded-channel-moved', () => this.report('moved'));
    client.on('ready', () => {
      this.failures = 0;
      // As the option `name`, a server that refuses it would refuse the connection in version 5.
      client.sendCommand(['CLIENT', 'SETNAME', this.name], PLAIN).catch(() => undefined);
    });
    // Its reason was an event.
    client.connect().catch(() => undefined);
  }

  private optionsOfAttempt(): object {
    const { address, original, attempt } = this;
    return {
      disableOfflineQueue: false,
      clientSideCache: undefined,
      // A server that is being replaced would move the connection to another one without an event.
      maintNotifications: 'disabled',
      ...(address && { url: undefined }),
      socket: {
        ...optionsOf(original).socket,
        ...address,
        // A connection for subscriptions may be silent for long.
        socketTimeout: undefined,
        // With `false`, version 5 would not release what belongs to a client whose connection has ended.
        reconnectStrategy: 1,
        signal: attempt.signal,
      },
    };
  }

  /** Ends the current connection or attempt, which then no longer has an effect. */
  private cut(status: 'reconnecting' | 'end'): void {
    const { client } = this;
    this.status = status;
    this.client = undefined;
    this.timer?.cancel();
    // Version 5 throws for a client that is closed.
    if (client?.isOpen) client.destroy();
    this.attempt.abort();
    if (status === 'end') return;
    const pauseMs = Math.min(this.failures * PAUSE_MS, LONGEST_PAUSE_MS) * (0.5 + clock.random());
    this.timer = runOutside(() => clock.schedule(pauseMs, () => this.begin(), true));
  }
}

function optionsOf(client: NodeRedisClient): Options {
  return client.options ?? {};
}

/** Throws the error. One of a server gets the name by which stores distinguish it from one of the connection. */
export function rethrow(error: unknown): never {
  if (error instanceof Error && ERROR_REPLY.test(error.message)) {
    Object.defineProperty(error, 'name', { value: 'ReplyError', configurable: true, writable: true });
  }
  throw error;
}
