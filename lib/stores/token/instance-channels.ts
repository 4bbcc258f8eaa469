import { atEndOfTick, type Clock } from '../../clock/clock.js';
import type { ChannelSource } from '../../redis/pubsub/channel-source.js';
import { ChannelSubscription, ChannelSubscriptions } from '../../redis/pubsub/channel-subscriptions.js';
import { reasonOf } from '../../redis/redis-errors.js';
import { RedisScript } from '../../redis/redis-script.js';
import type { KeyFilter } from '../../contract/store.js';
import type { Topology } from '../../redis/topology.js';
import { scripts } from './scripts.js';
import type { LockNames } from './lock-names.js';
import { channelEnd } from './wire.js';

/** Receives the messages of an instance. */
export interface ChannelsListener {
  /** @param message the text. Any client that may use the channel can have published it. */
  onMessage(message: string): void;
  /** Called when messages arrive (again) for these keys. */
  onSubscribed(concerns: KeyFilter): void;
  /** Called with the reason when messages cannot be received. */
  onRefused(why: string): void;
  /** Called with the reason when the scripts of this instance cannot send messages. */
  onMute(why: string): void;
}

/** Longer than the pause between two acquire requests of a waiter in the queue. */
const LINGER_MS = 60_000;

/** A subscription of this age is made again if the server does not count it. */
const RENEW_AFTER_MS = 1_000;

const NOT_COUNTED = 'the server does not count the subscriber: its connection may lead to another server';

const TRY_MESSAGES = new RedisScript(scripts.tryMessages, (reply) => reply as readonly [string, string] | null);

/** A channel of this instance. */
class InstanceChannel extends ChannelSubscription {
  /** When the server last acknowledged the subscription. */
  subscribedAt = -Infinity;
  /** How often in a row the server did not count it since. */
  misses = 0;
}

/**
 * The channels on which one module instance is woken: one on a single server. In a cluster, a sharded channel for each
 * hash tag with a waiter, at the node that has the tag's slot.
 *
 * Nothing proves that a subscription works, and nothing has to: the acquire script counts the subscribers on its own
 * server before it puts an owner into the queue. If it does not count this instance, although the subscription was
 * acknowledged, the channel is subscribed again. That covers slots that moved, failovers and lost subscriptions.
 *
 * The scripts go on if the user may not count or publish, and say nothing. So that is tried once, at the first
 * subscription.
 */
export class InstanceChannels {
  readonly subscriptions: ChannelSubscriptions<InstanceChannel>;
  private isClosed = false;
  /** Whether the user may count subscribers and publish. Tried at the next subscription if it is not known to be so. */
  private mayUseAll = false;
  /** Whether the user may not count subscribers. Another connection would change nothing. */
  private mayNotCount = false;
  /** The channels that were subscribed in this tick of the event loop. */
  private subscribed = new Set<string>();

  constructor(
    private readonly instanceId: string,
    private readonly topology: Topology,
    private readonly names: LockNames,
    private readonly clock: Clock,
    private readonly listener: ChannelsListener,
  ) {
    this.subscriptions = new ChannelSubscriptions<InstanceChannel>({
      clock,
      lingerMs: LINGER_MS,
      sourceOf: (key) => topology.sourceOf(key),
      onSubscribed: (channel) => this.onSubscribed(channel),
      onMessage: (_source, _channel, message) => listener.onMessage(message),
      onRedirected: () => topology.refresh?.(),
      onRefused: (why) => listener.onRefused(why),
    });
  }

  /**
   * Called with each reply `held` to an owner that waits.
   *
   * @param isQueued whether the script counted this instance among the subscribers.
   * @param askedAt when the request was made.
   */
  onHeld(key: string, isQueued: boolean, askedAt: number): void {
    if (this.isClosed) return;
    const subscription = this.subscriptionFor(key);
    if (isQueued) {
      subscription.misses = 0;
      if (this.mayNotCount) this.onSubscribed(subscription);
      this.mayNotCount = false;
      this.subscriptions.verify(subscription);
      return;
    }
    const { state, source } = subscription;
    const isThere = state === 'subscribed' && source !== undefined && this.topology.sourceOf(key) === source;
    if (isThere) this.onMissed(subscription, source, askedAt);
    else this.subscriptions.open(subscription);
  }

  /** Returns false if the server refuses the subscription, or does not count it. Subscribes if that is not known. */
  mayHear(key: string): boolean {
    const subscription = this.subscriptionFor(key);
    this.subscriptions.open(subscription);
    return subscription.state !== 'refused' && subscription.misses < 2 && !this.mayNotCount;
  }

  /** Ends the subscriptions. */
  close(): void {
    this.isClosed = true;
    this.subscriptions.close();
  }

  private onMissed(subscription: InstanceChannel, source: ChannelSource, askedAt: number): void {
    if (this.mayNotCount) return;
    // The script may have run before the acknowledgement.
    if (askedAt <= subscription.subscribedAt + RENEW_AFTER_MS * subscription.misses) return;
    subscription.misses += 1;
    if (subscription.misses === 1) {
      subscription.state = 'idle';
      return this.subscriptions.open(subscription);
    }
    this.listener.onRefused(NOT_COUNTED);
    source.reconnect();
  }

  private onSubscribed(subscription: InstanceChannel): void {
    subscription.subscribedAt = this.clock.now();
    // The channels of one tick are reported together, because each report visits all keys in use.
    this.subscribed.add(subscription.channel);
    if (this.subscribed.size > 1) return;
    atEndOfTick(() => {
      const channels = this.subscribed;
      this.subscribed = new Set();
      if (this.isClosed) return;
      this.listener.onSubscribed((key) => channels.has(this.channelOf(key)));
      if (!this.mayUseAll && subscription.source !== undefined)
        void this.tryMessages(subscription, subscription.source);
    });
  }

  private async tryMessages({ channel, key }: InstanceChannel, { connection }: ChannelSource): Promise<void> {
    const { isCluster } = this.names;
    try {
      const { lock } = this.names.keysOf(key);
      const refused = await TRY_MESSAGES.run(connection, [lock], [channel, isCluster ? '1' : '0']);
      this.mayUseAll = refused === null;
      if (refused === null || this.isClosed) return;
      const [command, error] = refused;
      this.mayNotCount = command === 'PUBSUB';
      const why = `the Redis user may not run ${command}: ${reasonOf(error)}`;
      if (this.mayNotCount) this.listener.onRefused(why);
      else this.listener.onMute(why);
    } catch {
      // The next subscription tries again.
    }
  }

  private subscriptionFor(key: string): InstanceChannel {
    const channel = this.channelOf(key);
    return this.subscriptions.get(channel) ?? this.add(channel, key);
  }

  private channelOf(key: string): string {
    return this.names.channelsOf(key) + channelEnd(this.instanceId);
  }

  private add(channel: string, key: string): InstanceChannel {
    const added = new InstanceChannel(channel, key, this.clock.now(), !this.names.isCluster);
    this.subscriptions.add(added);
    return added;
  }
}
