import { runOutside } from '../../common/async-context.js';
import type { Clock, Timer } from '../../clock/clock.js';
import { redirectionIn } from '../redirection.js';
import { unavailableBecause } from '../redis-errors.js';
import type { ChannelListener, ChannelSource } from './channel-source.js';

/**
 * `idle`: subscribed by the next `open`. `waiting`: subscribed as soon as there is a connection. `refused`: by the
 * server.
 */
export type SubscriptionState = 'idle' | 'waiting' | 'subscribing' | 'subscribed' | 'refused';

/** The state of one channel. */
export class ChannelSubscription {
  state: SubscriptionState = 'idle';
  /** The server at which the channel is subscribed, or will be. */
  source: ChannelSource | undefined;
  /** When the channel was last needed. */
  usedAt: number;

  /**
   * @param key a key whose slot the channel follows.
   * @param stays the channel stays subscribed without a use.
   */
  constructor(
    readonly channel: string,
    readonly key: string,
    now: number,
    readonly stays = false,
  ) {
    this.usedAt = now;
  }
}

/** What differs between the users of {@link ChannelSubscriptions}. */
export interface ChannelSubscriptionsDeps<Subscription extends ChannelSubscription> {
  readonly clock: Clock;
  /** How long an unused channel stays subscribed, in milliseconds. */
  readonly lingerMs: number;
  /** Returns the server that publishes to the key's channel. Undefined while there is no connection to it. */
  sourceOf(key: string): ChannelSource | undefined;
  onSubscribed(subscription: Subscription): void;
  onMessage(source: ChannelSource, channel: string, message: string): void;
  /** A source has replied that the slot of a channel is elsewhere. */
  onRedirected(): void;
  /** Called with the reason when subscribing is refused. */
  onRefused(why: string): void;
}

/**
 * Keeps channels subscribed at the servers that publish to them. A channel follows its slot to another node, comes back
 * after an outage, and is unsubscribed some time after its last use. What fails is tried again by the next `open`:
 * waiters without a place in a queue ask again within 200 ms.
 */
export class ChannelSubscriptions<Subscription extends ChannelSubscription> implements ChannelListener {
  private readonly byChannel = new Map<string, Subscription>();
  private readonly bySource = new Map<ChannelSource, Set<Subscription>>();
  private sweepTimer: Timer | undefined;

  constructor(private readonly deps: ChannelSubscriptionsDeps<Subscription>) {}

  /** @internal For tests. */
  get all(): readonly Subscription[] {
    return [...this.byChannel.values()];
  }

  get(channel: string): Subscription | undefined {
    return this.byChannel.get(channel);
  }

  /** Adds a channel. It is subscribed by `open`. */
  add(subscription: Subscription): void {
    this.byChannel.set(subscription.channel, subscription);
    if (!subscription.stays) this.startSweepTimer();
  }

  /** Subscribes in the background. Does nothing if the channel is subscribed where it should be, or soon will be. */
  open(subscription: Subscription): void {
    subscription.usedAt = this.deps.clock.now();
    const source = this.deps.sourceOf(subscription.key);
    if (source === undefined) return;
    if (source !== subscription.source || subscription.state === 'idle')
      runOutside(() => this.moveTo(subscription, source));
    // Its connection may have ended permanently since.
    else if (subscription.state === 'waiting') source.open();
  }

  /** Marks a subscribed channel as used, and verifies in the background that a silent connection still works. */
  verify(subscription: Subscription): void {
    subscription.usedAt = this.deps.clock.now();
    subscription.source?.verifyConnection();
  }

  /** Ends all subscriptions and their connections. */
  close(): void {
    this.sweepTimer?.cancel();
    for (const source of this.bySource.keys()) source.close();
    for (const subscription of this.byChannel.values()) this.drop(subscription);
  }

  /** Unsubscribes the channels that are no longer used. @internal Public for tests. */
  sweep(): void {
    this.sweepTimer = undefined;
    const { clock, lingerMs } = this.deps;
    const now = clock.now();
    for (const subscription of this.byChannel.values()) {
      if (subscription.stays) continue;
      if (now - subscription.usedAt < lingerMs) this.startSweepTimer();
      else this.drop(subscription);
    }
  }

  onSourceReady(source: ChannelSource): void {
    for (const subscription of this.at(source)) {
      if (subscription.state === 'waiting') void this.subscribeAt(source, subscription);
    }
  }

  onSourceLost(source: ChannelSource): void {
    // A refused channel is also tried again: the next connection may be allowed to subscribe.
    for (const subscription of this.at(source)) subscription.state = 'waiting';
  }

  onMessage(source: ChannelSource, channel: string, message: string): void {
    this.deps.onMessage(source, channel, message);
  }

  onRefused(why: string): void {
    this.deps.onRefused(why);
  }

  onChannelsRemoved(source: ChannelSource): void {
    for (const subscription of this.at(source)) {
      // A channel that is being subscribed may have been confirmed and removed at once. Both states imply a ready
      // connection, because its end makes all its channels wait.
      const { state } = subscription;
      if (state === 'subscribed' || state === 'subscribing') void this.subscribeAt(source, subscription);
    }
  }

  onSlotsChanged(): void {
    for (const subscription of this.byChannel.values()) {
      const source = subscription.source && this.deps.sourceOf(subscription.key);
      if (source === undefined) continue;
      // The same node over another connection is also another source.
      if (source !== subscription.source) this.moveTo(subscription, source);
    }
  }

  private at(source: ChannelSource): readonly Subscription[] {
    return [...(this.bySource.get(source) ?? [])];
  }

  private moveTo(subscription: Subscription, source: ChannelSource): void {
    if (subscription.source !== source) this.assign(subscription, source);
    subscription.state = 'waiting';
    source.open();
    // Otherwise `onSourceReady` subscribes it.
    if (source.ready) void this.subscribeAt(source, subscription);
  }

  private async subscribeAt(source: ChannelSource, subscription: Subscription): Promise<void> {
    subscription.state = 'subscribing';
    try {
      await source.subscribe(subscription.channel);
    } catch (error) {
      return this.onFailed(subscription, source, error);
    }
    if (subscription.source !== source || subscription.state !== 'subscribing') return;
    subscription.state = 'subscribed';
    this.deps.onSubscribed(subscription);
  }

  private onFailed(subscription: Subscription, source: ChannelSource, error: unknown): void {
    // A subscription that waits has lost its connection since the request.
    if (subscription.source !== source || subscription.state === 'waiting') return;
    if (redirectionIn(error) !== undefined) {
      subscription.state = 'idle';
      return this.deps.onRedirected();
    }
    const { permanent, message } = unavailableBecause(error, 'pub/sub');
    subscription.state = permanent ? 'refused' : 'idle';
    if (permanent) this.deps.onRefused(message);
  }

  private startSweepTimer(): void {
    this.sweepTimer ??= this.deps.clock.schedule(this.deps.lingerMs, () => this.sweep(), true);
  }

  private drop(subscription: Subscription): void {
    this.byChannel.delete(subscription.channel);
    this.unassign(subscription);
  }

  private assign(subscription: Subscription, source: ChannelSource): void {
    this.unassign(subscription);
    subscription.source = source;
    const others = this.bySource.get(source);
    if (others === undefined) this.bySource.set(source, new Set([subscription]));
    else others.add(subscription);
  }

  private unassign(subscription: Subscription): void {
    const { source, channel } = subscription;
    if (source === undefined) return;
    subscription.source = undefined;
    const others = this.bySource.get(source);
    others?.delete(subscription);
    if (others === undefined || others.size > 0) return source.unsubscribe(channel);
    // The end of its connection ends its last subscription.
    this.bySource.delete(source);
    source.close();
  }
}
