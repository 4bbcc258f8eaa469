import { messageOf } from '../core/errors.js';
import { SystemClock, type Timer } from '../core/time/clock.js';
import type { FurtherConnections } from '../redis/redis-client.js';
import type { NodeAddress } from '../redis/redirection.js';
import { isErrorReply } from '../redis/redis-errors.js';
import type { AdapterEvent } from './client-events.js';
import type { NodeRedisClient } from './node-redis.js';
import { OwnConnection } from './own-connection.js';
import { type NodeRedisSentinels, Sentinels } from './sentinels.js';

/** The error of a server that was a master when the connection was made. */
const READONLY = /\bREADONLY\b/;

/** How long a connection that nobody listens to stays open after its last request, in milliseconds. */
const LINGER_MS = 500;

const clock = new SystemClock();

/**
 * A connection to the master that Sentinels name, as stores see a client of ioredis. Sentinels are asked before each
 * attempt to connect. It is there as long as someone listens to `ready`, and for the requests of others.
 */
export class SentinelClient extends OwnConnection {
  override readonly options: OwnConnection['options'] & Pick<NodeRedisSentinels, 'sentinels' | 'name'>;
  readonly furtherConnections: FurtherConnections;
  private readonly sentinels: Sentinels;
  private stopWatching: (() => void) | undefined;
  /** The listeners to `ready`. */
  private readonly users = new Set<unknown>();
  /** How many requests have no reply yet. */
  private requests = 0;
  private lingerTimer: Timer | undefined;
  private becomingReady: Promise<void> | undefined;

  constructor(template: NodeRedisClient, given: NodeRedisSentinels) {
    const sentinels = new Sentinels(template, given);
    const { locate } = sentinels;
    super(template, { name: 'nestjs-redis-lock', locate });
    this.sentinels = sentinels;
    // Stores name the server by its Sentinels, because its address changes.
    this.options = { sentinels: given.sentinels, name: given.name };
    this.furtherConnections = {
      subscriber: () => new OwnConnection(template, { name: 'nestjs-redis-lock:handoffs', locate }),
      replicaConnection: () => new OwnConnection(template, { name: 'nestjs-redis-lock:replicas', locate }),
    };
  }

  override on(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.on(event, listener);
    if (event !== 'ready') return this;
    this.users.add(listener);
    this.lingerTimer?.cancel();
    this.stopWatching ??= this.sentinels.watch((master) => this.onFailover(master));
    void this.connect();
    return this;
  }

  override off(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.off(event, listener);
    const wasUser = event === 'ready' && this.users.delete(listener);
    if (!wasUser || this.users.size > 0) return this;
    this.stopWatching?.();
    this.stopWatching = undefined;
    if (this.requests > 0) this.closeLater();
    else this.disconnect();
    return this;
  }

  protected override async send(args: readonly string[]): Promise<unknown> {
    // With a request under way, the timer ends what a closed module has left.
    if (this.requests === 0) this.lingerTimer?.cancel();
    this.requests += 1;
    void this.connect();
    try {
      return await this.sendUntilReplied(args);
    } finally {
      this.requests -= 1;
      if (this.requests === 0 && this.users.size === 0) this.closeLater();
    }
  }

  private async sendUntilReplied(args: readonly string[]): Promise<unknown> {
    for (;;) {
      while (this.status !== 'ready') await this.whenReady();
      const { stream } = this;
      try {
        return await super.send(args);
      } catch (error) {
        // A request whose connection has ended is sent again, as ioredis does.
        if (this.stream !== stream && !isErrorReply(error)) continue;
        // A Sentinel cuts the connections of a master that it has made a replica. This one has come through it.
        if (this.stream === stream && READONLY.test(messageOf(error))) this.disconnect(true);
        throw error;
      }
    }
  }

  /** Waits until it is ready. Rejects if it is closed. */
  private whenReady(): Promise<void> {
    if (this.status === 'end') return Promise.reject(wasClosed());
    this.becomingReady ??= new Promise<void>((resolve, reject) => {
      const settle = (then: () => void) => (): void => {
        this.becomingReady = undefined;
        super.off('ready', onReady);
        super.off('end', onEnd);
        then();
      };
      const onReady = settle(resolve);
      const onEnd = settle(() => reject(wasClosed()));
      super.on('ready', onReady);
      super.on('end', onEnd);
    });
    return this.becomingReady;
  }

  /** The first of several Sentinels that report a failover ends the connection. */
  private onFailover({ host, port }: NodeAddress): void {
    const { remoteAddress, remotePort } = this.stream ?? {};
    if (remoteAddress !== host || remotePort !== port) this.disconnect(true);
  }

  private closeLater(): void {
    this.lingerTimer?.cancel();
    this.lingerTimer = clock.schedule(LINGER_MS, () => this.users.size === 0 && this.disconnect(), true);
  }
}

function wasClosed(): Error {
  return new Error('the connection was closed');
}
