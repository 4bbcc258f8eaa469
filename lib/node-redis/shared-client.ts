import type { FurtherConnections, RedisClient } from '../redis/redis-client.js';
import { isErrorReply } from '../redis/redis-errors.js';
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
  protected readonly prefix: string;
  /** What `status` is while there is no connection that accepts commands. */
  private phase: 'wait' | 'connecting' | 'connect' | 'reconnecting' | 'end' = 'wait';
  /** How many connections have begun or ended. */
  private changes = 0;

  constructor(private readonly client: NodeRedisClient) {
    super();
    const { socket, keyPrefix } = optionsOf(client);
    this.options = { host: socket?.host, port: socket?.port, path: socket?.path, keyPrefix };
    this.prefix = keyPrefix ?? '';
    this.furtherConnections = {
      subscriber: () => new OwnConnection(client, { name: 'nestjs-redis-lock:handoffs' }),
      replicaConnection: () => new OwnConnection(client, { name: 'nestjs-redis-lock:replicas' }),
    };
    listen(client, 'connect', () => this.onConnect());
    listen(client, 'ready', () => this.onReady());
    listen(client, 'error', (error) => this.onError(error));
    listen(client, 'end', () => this.onLost());
    if (client.isReady) this.onReady();
  }

  get status(): string {
    const { isReady, isOpen } = this.client;
    if (isReady) return isOpen ? 'ready' : 'disconnecting';
    if (!isOpen) return this.phase === 'end' ? 'end' : 'wait';
    return this.phase === 'wait' || this.phase === 'end' ? 'connecting' : this.phase;
  }

  /** Does nothing: the caller connects the client. */
  connect(): Promise<void> {
    return Promise.resolve();
  }

  protected send(args: readonly string[]): Promise<unknown> {
    const { client, changes } = this;
    // node-redis has no event for the beginning of an attempt. A connection that never opens would not be noticed.
    if (!client.isReady && client.isOpen) this.onConnecting();
    return send(client, args).catch((error: unknown) => {
      if (this.changes === changes || !client.isOpen || isErrorReply(error)) throw error;
      // As ioredis does. Stores know by the number of lost connections that a request may have run twice.
      return this.send(args);
    });
  }

  private onConnecting(): void {
    if (this.phase !== 'wait' && this.phase !== 'end') return;
    this.phase = 'connecting';
    this.emit('connecting');
  }

  private onConnect(): void {
    this.onConnecting();
    this.phase = 'connect';
    this.emit('connect');
  }

  private onReady(): void {
    this.changes += 1;
    this.stream = new ConnectionStream();
    this.emit('ready');
  }

  private onError(error: Error): void {
    this.emit('error', error);
    // An error of a ready connection is its end, or one of the decoder, after which the connection goes on.
    if (!this.client.isReady) this.onLost();
  }

  /** Reports the end of a connection once. node-redis has no event for it: the first one is an error, or `end`. */
  private onLost(): void {
    const wasReady = this.stream !== undefined;
    const hadEnded = this.phase === 'end';
    this.stream = undefined;
    this.phase = this.client.isOpen ? 'reconnecting' : 'end';
    if (wasReady) {
      this.changes += 1;
      this.emit('close');
    }
    if (this.phase === 'end' && !hadEnded) this.emit('end');
  }
}
