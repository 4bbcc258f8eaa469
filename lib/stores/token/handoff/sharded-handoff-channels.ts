import { atEndOfTick, type Clock } from '../../../core/time/clock.js';
import type { ClusterNode } from '../../../redis/cluster/cluster-node.js';
import type { ChannelSource } from '../../../redis/pubsub/channel-source.js';
import { ChannelSubscription } from '../../../redis/pubsub/channel-subscription.js';
import { ChannelSubscriptions } from '../../../redis/pubsub/channel-subscriptions.js';
import type { RedisNode } from '../../../redis/topology.js';
import { channelOf, type HandoffListener, type HandoffChannels, probeScript } from './handoff-channel.js';
import { LongHolds } from './long-holds.js';

/** The part of the cluster's topology that the channels need. */
interface HandoffTopology {
  keysOf(key: string): readonly string[];
  handoffArgs(key: string): readonly string[];
  nodeOf(key: string): ClusterNode | undefined;
  refresh(): void;
}

/** Longer than the pause between two acquire requests of a waiter in the queue. */
const LINGER_MS = 60_000;

/**
 * A hold that lasts for longer subscribes to the channel of its hash tag, at twice that at the latest. In milliseconds.
 * Each tag costs two requests, so this is longer than on a single server, where one channel is for all locks.
 */
const LONG_HOLD_MS = 1_000;

/** Holds subscribe to no further channel if there are this many. Many hash tags would cost as many subscriptions. */
const MAX_CHANNELS = 1_000;

/**
 * The channels of one module instance in a cluster. For each hash tag with a waiter, or with a hold that lasts, it
 * subscribes to a sharded channel at the node that has the tag's slot. A channel counts as subscribed after a probe of
 * that node has arrived. From then on the node counts this instance when it hands off a lock. A script skips an
 * instance that is not counted, because it may be dead.
 */
export class ShardedHandoffChannels implements HandoffChannels {
  readonly subscriptions: ChannelSubscriptions<ChannelSubscription>;
  private readonly longHolds: LongHolds;
  /** The channels of the holds that last, by owner. */
  private readonly held = new Map<string, string>();
  /** How many of these holds each channel has. */
  private readonly holdCounts = new Map<string, number>();
  private closed = false;
  /** The channels that were subscribed in this tick of the event loop. */
  private subscribed = new Set<string>();

  constructor(
    private readonly instanceId: string,
    private readonly topology: HandoffTopology,
    private readonly clock: Clock,
    requestTimeoutMs: number,
    private readonly listener: HandoffListener,
  ) {
    this.subscriptions = new ChannelSubscriptions<ChannelSubscription>({
      clock,
      requestTimeoutMs,
      kind: 'sharded',
      subject: 'sharded pub/sub',
      lingerMs: LINGER_MS,
      isInUse: ({ channel }) => this.holdCounts.has(channel),
      sourceOf: (key) => topology.nodeOf(key),
      probe: (subscription, source) => this.probe(subscription, source),
      onSubscribed: ({ channel }) => this.onSubscribed(channel),
      onMessage: ({ connection }, _channel, message) => listener.onMessage(message, connection),
      onRedirected: () => topology.refresh(),
      onRefused: (why) => listener.onRefused(why),
    });
    this.longHolds = new LongHolds(clock, LONG_HOLD_MS, (owner, key) => this.onLongHold(owner, key));
  }

  isSubscribed(key: string, { connection }: RedisNode): boolean {
    const subscription = this.subscriptions.get(this.channelOf(key));
    if (subscription?.state !== 'subscribed' || subscription.source?.connection !== connection) return false;
    this.subscriptions.verify(subscription);
    return true;
  }

  open(key: string): void {
    if (this.closed) return;
    this.subscriptions.open(this.subscriptionOf(key));
  }

  onGranted(owner: string, key: string): void {
    if (this.closed) return;
    this.longHolds.onGranted(owner, key);
  }

  onReleased(owner: string): void {
    this.longHolds.onReleased(owner);
    const channel = this.held.get(owner);
    if (channel === undefined) return;
    this.held.delete(owner);
    this.count(channel, -1);
  }

  close(): void {
    this.closed = true;
    this.longHolds.clear();
    this.held.clear();
    this.holdCounts.clear();
    this.subscriptions.close();
  }

  /** Reports the channels of one tick together, because each report takes a look at all keys in use. */
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
    const channel = this.channelOf(key);
    if (size >= MAX_CHANNELS && this.subscriptions.get(channel) === undefined) return;
    if (!this.held.has(owner)) this.count(channel, 1);
    this.held.set(owner, channel);
    this.open(key);
  }

  private count(channel: string, change: 1 | -1): void {
    const count = (this.holdCounts.get(channel) ?? 0) + change;
    if (count > 0) this.holdCounts.set(channel, count);
    else this.holdCounts.delete(channel);
  }

  private channelOf(key: string): string {
    return channelOf(this.topology.handoffArgs(key)[0], this.instanceId);
  }

  private subscriptionOf(key: string): ChannelSubscription {
    const channel = this.channelOf(key);
    const known = this.subscriptions.get(channel);
    if (known !== undefined) return known;
    const added = new ChannelSubscription(channel, key, this.clock.now());
    this.subscriptions.add(added);
    return added;
  }

  private probe({ key, channel }: ChannelSubscription, { connection }: ChannelSource): Promise<number> {
    const [, , queue] = this.topology.keysOf(key);
    return probeScript.run(connection, [queue], [channel, '1']);
  }
}
