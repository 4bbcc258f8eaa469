import type { FurtherConnections, RedisClient } from '../redis/redis-client.js';
import { isErrorReply } from '../redis/redis-errors.js';
import { type AdapterEvent, ClientEvents } from './client-events.js';
import { ConnectionStream } from './connection-stream.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { listen, type NodeRedisClient, optionsOf, send } from './node-redis.js';
import { OwnConnection } from './own-connection.js';

/** What a client says of itself, in the terms of ioredis. */
interface SharedOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | undefined;
  readonly keyPrefix?: string | undefined;
}

/**
 * A client of node-redis that belongs to the caller, as stores see one of ioredis. It is never connected, closed or
 * changed. It gets four listeners, one of which is for errors: without any, node-redis ends the process.
 */
export class SharedClient extends NodeRedisCommands implements RedisClient {
  readonly options: SharedOptions;
  /** Another object for each connection, so that a listing notices that its cursor is void. */
  stream: ConnectionStream | undefined;
  readonly furtherConnections: FurtherConnections;
  protected connections = 0;
  protected readonly prefix: string;
  private readonly events = new ClientEvents();
  private hasEnded = false;

  constructor(private readonly client: NodeRedisClient) {
    super();
    const { socket, keyPrefix } = optionsOf(client);
    this.options = { host: socket?.host, port: socket?.port, path: socket?.path, keyPrefix };
    this.prefix = keyPrefix ?? '';
    this.furtherConnections = {
      subscriber: () => new OwnConnection(client, { name: 'nestjs-redis-lock:handoffs' }),
      replicaConnection: () => new OwnConnection(client, { name: 'nestjs-redis-lock:replicas' }),
    };
    listen(client, 'connect', () => this.events.emit('connect'));
    listen(client, 'ready', () => this.onReady());
    listen(client, 'error', (error) => this.onError(error));
    listen(client, 'end', () => this.onLost());
    if (client.isReady) this.onReady();
  }

  get status(): string {
    const { isReady, isOpen } = this.client;
    if (isReady) return 'ready';
    if (isOpen) return this.connections > 0 ? 'reconnecting' : 'connecting';
    return this.hasEnded ? 'end' : 'wait';
  }

  /** Waits for the connection, which the caller makes. */
  connect(): Promise<void> {
    if (this.client.isReady) return Promise.resolve();
    return new Promise((resolve) => {
      const onReady = (): void => {
        this.events.remove('ready', onReady);
        resolve();
      };
      this.events.add('ready', onReady);
    });
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
    const { stream, connections } = this;
    return send(this.client, args).catch((error: unknown) => {
      const isLost = this.stream !== stream || this.connections !== connections;
      if (!isLost || !this.client.isOpen || isErrorReply(error)) throw error;
      // As ioredis does. Stores know by the number of lost connections that a request may have run twice.
      return this.send(args);
    });
  }

  private onReady(): void {
    this.hasEnded = false;
    this.connections += 1;
    this.stream = new ConnectionStream();
    this.events.emit('ready');
  }

  private onError(error: Error): void {
    this.events.emit('error', error);
    // An error of a ready connection is its end, or one of the decoder, after which the connection goes on.
    if (!this.client.isReady) this.onLost();
  }

  /** Reports the end of a connection once. node-redis has no event for it: the first one is an error, or `end`. */
  private onLost(): void {
    const { stream } = this;
    this.stream = undefined;
    if (stream !== undefined) this.events.emit('close');
    if (this.client.isOpen || this.hasEnded) return;
    this.hasEnded = true;
    this.events.emit('end');
  }
}
