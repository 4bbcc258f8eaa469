import type { Clock } from '../../clock/clock.js';
import type { ChannelSource, ChannelSources } from '../../redis/pubsub/channel-source.js';
import { ChannelSubscription, ChannelSubscriptions } from '../../redis/pubsub/channel-subscriptions.js';
import { UNLOCKED } from './wire.js';

/** Receives the releases of locks. */
interface LockChannelsListener {
  /** Others may have released the key. */
  onReleased(key: string): void;
  /** Releases of a lock are received from now on. */
  onSubscribed(): void;
  /** Called with the reason when releases cannot be received. */
  onRefused(why: string): void;
}

/** Longer than the pause between two acquire requests of a waiter. */
const LINGER_MS = 4_000;

/** How long the own message about a release is awaited. One that comes later counts as the message of others. */
const OWN_MESSAGE_MS = 100;

/** The channel of a key, or of keys such as `a` and `{a}`, which Redisson gives one channel. */
class LockChannel extends ChannelSubscription {
  /** The keys that had a waiter. */
  readonly keys = new Set<string>();
  /** Until when the next message is about a release of this instance. */
  ownUntil = 0;
}

/**
 * Receives Redisson's messages about releases, on one channel for each key with a waiter. A message only wakes: the
 * waiter asks again. If messages are lost, it asks a little later.
 */
export class LockChannels {
  readonly subscriptions: ChannelSubscriptions<LockChannel>;
  private isClosed = false;

  /** @param channelOf returns the channel of a key. */
  constructor(
    private readonly clock: Clock,
    sources: ChannelSources,
    private readonly channelOf: (key: string) => string,
    private readonly listener: LockChannelsListener,
  ) {
    this.subscriptions = new ChannelSubscriptions<LockChannel>({
      clock,
      lingerMs: LINGER_MS,
      sourceOf: (key) => sources.sourceOf(key),
      onSubscribed: (channel) => {
        listener.onSubscribed();
        // Releases before the subscription were missed.
        this.wake(channel);
      },
      onMessage: (source, channel, message) => this.onMessage(source, channel, message),
      onRedirected: () => sources.refresh?.(),
      onRefused: (why) => listener.onRefused(why),
    });
  }

  /**
   * Called if another owner has the lock. Returns whether its release will be reported. Subscribes at the second call
   * for a key, so that a single `tryAcquire` costs no subscription.
   */
  hears(key: string): boolean {
    if (this.isClosed) return false;
    const known = this.get(key);
    const channel = known ?? new LockChannel(this.channelOf(key), key, this.clock.now());
    channel.keys.add(key);
    if (known === undefined) this.subscriptions.add(channel);
    else this.subscriptions.open(channel);
    if (channel.state !== 'subscribed') return false;
    this.subscriptions.verify(channel);
    return true;
  }

  /** Called before this instance releases the key. The message about it wakes nobody here, whose callers know. */
  expectOwnMessage(key: string): void {
    const channel = this.get(key);
    if (channel?.state === 'subscribed') channel.ownUntil = this.clock.now() + OWN_MESSAGE_MS;
  }

  /** Called if the release has published nothing: a message since then was about another release. */
  missOwnMessage(key: string): void {
    const channel = this.get(key);
    if (channel !== undefined) this.wake(channel);
  }

  /** Ends the subscriptions. */
  close(): void {
    this.isClosed = true;
    this.subscriptions.close();
  }

  private get(key: string): LockChannel | undefined {
    return this.subscriptions.get(this.channelOf(key));
  }

  private onMessage(source: ChannelSource, name: string, message: string): void {
    const channel = this.subscriptions.get(name);
    if (channel?.source !== source || !UNLOCKED.includes(message)) return;
    const isOwn = this.clock.now() < channel.ownUntil;
    channel.ownUntil = 0;
    if (!isOwn) this.wake(channel);
  }

  private wake(channel: LockChannel): void {
    channel.ownUntil = 0;
    for (const key of channel.keys) this.listener.onReleased(key);
  }
}
