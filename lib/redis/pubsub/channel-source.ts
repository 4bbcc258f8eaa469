import type { RedisConnection } from '../redis-connection.js';
import type { VerifiedSubscriber } from './verified-subscriber.js';

/**
 * `sharded or plain`: plain channels are used if the server is older than Redis 7. A single server has plain channels.
 */
export type ChannelKind = 'sharded' | 'sharded or plain';

/** A server that publishes to channels, and the connection on which they are subscribed. */
export interface ChannelSource {
  /** The connection that sends commands. */
  readonly connection: RedisConnection;
  readonly subscriber: VerifiedSubscriber;
  /** Opens the subscriber's connection in the background. Does nothing if it is open already. */
  openSubscriber(kind: ChannelKind): void;
  /** Called after the last channel was unsubscribed. */
  onLastUnsubscribed(): void;
}

/** Receives the messages and the events of all sources. */
export interface ChannelListener {
  /** From now on channels can be subscribed at the source. */
  onSourceReady(source: ChannelSource): void;
  /** The source's subscriptions are lost. */
  onSourceLost(source: ChannelSource): void;
  onMessage(source: ChannelSource, channel: string, message: string): void;
  /** Subscribing is refused, and why. */
  onRefused(why: string): void;
  /** The source has removed channels because a slot has moved. ioredis does not say which. */
  onChannelsRemoved(source: ChannelSource): void;
  /** Slots may have moved to other nodes. */
  onSlotsChanged(): void;
}
