import type { RedisSubscriber } from '../redis-client.js';
import { isShardingMissing } from '../redis-errors.js';

/** A connection to one node of a cluster that subscribes to sharded channels. */
export interface ShardClient extends Omit<RedisSubscriber, 'on'> {
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  on(
    event: 'connect' | 'ready' | 'close' | 'end' | 'error' | 'message' | 'smessage' | 'moved',
    listener: (...args: never[]) => void,
  ): unknown;
}

/** Subscribes to sharded channels. */
export class ShardedSubscriber implements RedisSubscriber {
  /** Channels that were subscribed as plain channels. */
  private readonly plain = new Set<string>();

  /** @param allowPlain subscribes to plain channels if the server has no sharded ones. */
  constructor(
    /** @internal For tests. */
    readonly client: ShardClient,
    private readonly allowPlain: boolean,
  ) {}

  get status(): string {
    return this.client.status;
  }

  connect(): Promise<void> {
    return this.client.connect();
  }

  subscribe(channel: string): Promise<unknown> {
    this.plain.delete(channel);
    const subscribed = this.client.ssubscribe(channel);
    if (!this.allowPlain) return subscribed;
    return subscribed.catch((error: unknown) => {
      if (!isShardingMissing(error)) throw error;
      this.plain.add(channel);
      return this.client.subscribe(channel);
    });
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.plain.delete(channel) ? this.client.unsubscribe(channel) : this.client.sunsubscribe(channel);
  }

  ping(): Promise<unknown> {
    return this.client.ping();
  }

  on(
    event: 'connect' | 'ready' | 'close' | 'end' | 'error' | 'message',
    listener: (...args: never[]) => void,
  ): unknown {
    if (event === 'message') this.client.on('smessage', listener);
    return this.client.on(event, listener);
  }

  disconnect(reconnect?: boolean): void {
    this.client.disconnect(reconnect);
  }
}
