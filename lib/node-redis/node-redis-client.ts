import type { ServerClient, ServerTarget } from '../redis/client-port.js';
import { isErrorReply } from '../redis/redis-errors.js';
import { type NodeRedisClient, optionsOf, send } from './node-redis.js';
import { NodeRedisServer } from './node-redis-server.js';
import { OwnConnection } from './own-connection.js';

/**
 * A node-redis client that belongs to the caller. It is never connected, closed or changed. It gets four listeners,
 * one of which is for errors: without any, node-redis ends the process.
 */
export class SharedClient extends NodeRedisServer implements ServerClient {
  readonly reconnects = true;
  readonly keyPrefix: string;
  readonly target: ServerTarget;
  /** What `status` is while there is no connection that accepts commands. */
  private phase: 'wait' | 'connecting' | 'connect' | 'reconnecting' | 'end' = 'wait';
  private wasReady = false;
  /** How many connections have begun or ended. */
  private changes = 0;

  constructor(private readonly client: NodeRedisClient) {
    super();
    const { socket, database, keyPrefix = '' } = optionsOf(client);
    this.target = { host: 'localhost', port: 6379, db: database, ...socket };
    this.keyPrefix = keyPrefix;
    client.on('connect', () => this.onConnect());
    client.on('ready', () => this.onReady());
    client.on('error', (error) => this.onError(error));
    client.on('end', () => this.onLost());
    if (client.isReady) this.onReady();
  }

  get status(): string {
    const { isReady, isOpen } = this.client;
    if (isReady) return isOpen ? 'ready' : 'disconnecting';
    if (!isOpen) return this.phase === 'end' ? 'end' : 'wait';
    return this.phase === 'wait' || this.phase === 'end' ? 'connecting' : this.phase;
  }

  connect(): void {
    // The caller connects the client.
  }

  open(purpose: 'handoffs' | 'replicas'): OwnConnection {
    return new OwnConnection(this.client, { name: `nestjs-redis-lock:${purpose}` });
  }

  protected request(words: readonly string[]): Promise<unknown> {
    const { client, changes } = this;
    // node-redis has no event for the beginning of an attempt. A connection that never opens would not be noticed.
    if (!client.isReady && client.isOpen) this.onConnecting();
    return send(client, words).catch((error: unknown) => {
      if (this.changes === changes || !client.isOpen || isErrorReply(error)) throw error;
      // The number of lost connections shows stores that a request may have run twice.
      return this.request(words);
    });
  }

  private onConnecting(): void {
    if (this.phase !== 'wait' && this.phase !== 'end') return;
    this.phase = 'connecting';
    this.report('connecting');
  }

  private onConnect(): void {
    this.onConnecting();
    this.phase = 'connect';
    this.report('connect');
  }

  private onReady(): void {
    this.changes += 1;
    this.wasReady = true;
    this.report('ready');
  }

  private onError(error: Error): void {
    this.report('error', error);
    // An error of a ready connection is its end, or one of the decoder, after which the connection continues.
    if (!this.client.isReady) this.onLost();
  }

  /** Reports the end of a connection once. node-redis has no event for it: the first one is an error, or `end`. */
  private onLost(): void {
    const { wasReady } = this;
    const hadEnded = this.phase === 'end';
    this.wasReady = false;
    this.phase = this.client.isOpen ? 'reconnecting' : 'end';
    if (wasReady) {
      this.changes += 1;
      this.report('close');
    }
    if (this.phase === 'end' && !hadEnded) this.report('end');
  }
}
