import { atEndOfTick, type Clock } from '../../../core/time/clock.js';
import type { KeyFilter } from '../../../core/store/lock-store.js';
import type { ChannelSource, ChannelSources } from '../../../redis/pubsub/channel-source.js';
import { ChannelSubscription } from '../../../redis/pubsub/channel-subscription.js';
import { ChannelSubscriptions } from '../../../redis/pubsub/channel-subscriptions.js';
import type { RedisConnection } from '../../../redis/redis-connection.js';
import { RedisScript } from '../../../redis/redis-script.js';
import { WIRE_PREFIX } from '../../../redis/wire.js';
import { scripts } from '../scripts.js';
import { LongHolds } from './long-holds.js';

/** Receives the handoffs of an instance. */
export interface HandoffListener {
  /**
   * @param message the text. Any client that may use the channel can have published it.
   * @param from the connection to the server whose clock timed the message.
   */
  onMessage(message: string, from: RedisConnection): void;
  /** Called when handoffs are received (again) for these keys. */
  onSubscribed(concerns: KeyFilter): void;
  /** Called with the reason when handoffs cannot be received. */
  onRefused(why: string): void;
}

/** The part of the topology that the channels need. */
interface HandoffTopology extends ChannelSources {
  keysOf(key: string): readonly string[];
  handoffArgs(key: string): readonly string[];
}

/** Returns what the channels of a module begin with: its `prefix`, so that an ACL can keep tenants apart. */
export function channelPrefix(prefix: string): string {
  return `${prefix}nestjs-redis-lock:`;
}

/**
 * Returns the channel of an instance. Its name contains the wire version, so messages of other versions do not arrive.
 *
 * @param prefix what the channels of its keys begin with.
 */
export function channelOf(prefix: string, instanceId: string): string {
  return prefix + WIRE_PREFIX + instanceId;
}

/**
 * Publishes a probe, and tries the commands that a queue needs. Returns how many subscribers the server counted.
 */
const probeScript = new RedisScript(scripts.probeSubscription, Number);

interface HandoffDeps {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
}

/** When holds subscribe to a channel, and how long it stays subscribed. */
interface HandoffTimes {
  /** A hold longer than this subscribes to its channel, no later than at twice this time. In milliseconds. */
  readonly longHoldMs: number;
  /** True if a channel stays subscribed without a use. */
  readonly stays: boolean;
}

/** A single server has one channel for all locks. */
export const ONE_CHANNEL: HandoffTimes = { longHoldMs: 25, stays: true };

/** In a cluster each hash tag costs two requests, so only a longer hold subscribes. */
export const CHANNEL_OF_TAG: HandoffTimes = { longHoldMs: 1_000, stays: false };

/** Longer than the pause between two acquire requests of a waiter in the queue. */
const LINGER_MS = 60_000;

/** Holds stop subscribing once there are this many channels. Many hash tags would cost as many subscriptions. */
const MAX_CHANNELS = 1_000;

/**
 * The channels on which one module instance receives handoffs: one on a single server. In a cluster, for each hash tag
 * with a waiter or with a hold that lasts, a sharded channel at the node that has the tag's slot. Once it is
 * subscribed, the server counts this instance when it hands off a lock. A script skips an instance that is not counted,
 * because it may be dead.
 */
export class HandoffChannels {
  readonly subscriptions: ChannelSubscriptions<ChannelSubscription>;
  private readonly clock: Clock;
  private readonly longHolds: LongHolds;
  /** The channels of the holds that last, by owner. */
  private readonly held = new Map<string, ChannelSubscription>();
  /** The channel for all locks. Undefined in a cluster. */
  private only: ChannelSubscription | undefined;
  private closed = false;
  /** The channels that were subscribed in this tick of the event loop. */
  private subscribed = new Set<string>();

  constructor(
    private readonly instanceId: string,
    private readonly topology: HandoffTopology,
    private readonly times: HandoffTimes,
    { clock, requestTimeoutMs }: HandoffDeps,
    private readonly listener: HandoffListener,
  ) {
    this.clock = clock;
    this.subscriptions = new ChannelSubscriptions<ChannelSubscription>({
      clock,
      requestTimeoutMs,
      kind: 'sharded',
      lingerMs: LINGER_MS,
      sourceOf: (key) => topology.sourceOf(key),
      onSubscribed: ({ channel }) => this.onSubscribed(channel),
      onMessage: ({ connection }, _channel, message) => listener.onMessage(message, connection),
      onRedirected: () => topology.refresh?.(),
      onRefused: (why) => listener.onRefused(why),
    });
    this.longHolds = new LongHolds(clock, times.longHoldMs, (owner, key) => this.onLongHold(owner, key));
  }

  /**
   * Returns true if handoffs of this key by this node are received, as far as is known. Verifies it in the background.
   */
  isSubscribed(key: string, { connection }: { readonly connection: RedisConnection }): boolean {
    const subscription = this.subscriptions.get(this.channelOf(key));
    if (subscription?.state !== 'subscribed' || subscription.source?.connection !== connection) return false;
    this.subscriptions.verify(subscription);
    return true;
  }

  /** Subscribes to the key's channel in the background. Does nothing if it is subscribed already. */
  open(key: string): void {
    if (this.closed) return;
    this.subscriptions.open(this.subscriptionOf(key));
  }

  /** Called with each owner that is granted a lock. */
  onGranted(owner: string, key: string): void {
    if (this.closed || this.isOpenForAll) return;
    this.longHolds.onGranted(owner, key);
  }

  /** Called with each owner that is released. */
  onReleased(owner: string): void {
    this.longHolds.onReleased(owner);
    const subscription = this.held.get(owner);
    if (subscription === undefined) return;
    this.held.delete(owner);
    subscription.neededBy.delete(owner);
  }

  /** Ends the subscriptions. */
  close(): void {
    this.closed = true;
    this.longHolds.clear();
    this.held.clear();
    this.subscriptions.close();
  }

  // The one channel stays subscribed, so holds need not be tracked.
  private get isOpenForAll(): boolean {
    return this.only?.state === 'subscribed';
  }

  /** Reports the channels of one tick together, because each report visits all keys in use. */
  private onSubscribed(channel: string): void {
    this.subscribed.add(channel);
    if (this.subscribed.size > 1) return;
    atEndOfTick(() => {
      const channels = this.subscribed;
      this.subscribed = new Set();
      if (!this.closed) this.listener.onSubscribed((key) => channels.has(this.channelOf(key)));
    });
  }

  private onLongHold(owner: string, key: string): void {
    const { size } = this.subscriptions;
    if (size >= MAX_CHANNELS && this.subscriptions.get(this.channelOf(key)) === undefined) return;
    const subscription = this.subscriptionOf(key);
    subscription.neededBy.add(owner);
    this.held.set(owner, subscription);
    this.subscriptions.open(subscription);
  }

  private channelOf(key: string): string {
    return channelOf(this.topology.handoffArgs(key)[0], this.instanceId);
  }

  private subscriptionOf(key: string): ChannelSubscription {
    const channel = this.channelOf(key);
    const known = this.subscriptions.get(channel);
    if (known !== undefined) return known;
    const [, , queue] = this.topology.keysOf(key);
    const [, ...sharded] = this.topology.handoffArgs(key);
    const probe = async ({ connection }: ChannelSource): Promise<number | undefined> => {
      const subscribers = await probeScript.run(connection, [queue], [channel, ...sharded]);
      // A plain channel may be subscribed at another node, which the server does not count.
      return sharded.length > 0 ? subscribers : undefined;
    };
    const added = new ChannelSubscription(channel, key, this.clock.now(), probe, this.times.stays);
    this.subscriptions.add(added);
    if (added.stays) this.only = added;
    return added;
  }
}
