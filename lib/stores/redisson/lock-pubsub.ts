import type { Clock } from '../../core/time/clock.js';
import type { ChannelSource, ChannelSources } from '../../redis/pubsub/channel-source.js';
import { ChannelSubscription } from '../../redis/pubsub/channel-subscription.js';
import { ChannelSubscriptions } from '../../redis/pubsub/channel-subscriptions.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts } from './scripts.js';

/** Receives the releases of locks. */
export interface LockPubSubListener {
  /** The key was released, or may have been before its channel was subscribed. */
  onReleased(key: string): void;
  /** Releases of a lock are received from now on. */
  onSubscribed(): void;
  /** Releases cannot be received, and why. */
  onRefused(why: string): void;
}

/** Redisson's messages: one waiter of each process may continue, or all of them. Here each process has one waiter. */
const UNLOCKED = new Set(['0', '1']);

/** How long an unused channel stays subscribed, so that a busy key is not subscribed again and again. */
const LINGER_MS = 1_000;

/**
 * The pause before subscribing again after a redirection. Nodes that disagree may redirect in a loop for a moment.
 */
const PAUSE_MS = 50;

/** How long the own message about a release is awaited. One that comes later counts as the message of others. */
const OWN_MESSAGE_MS = 100;

const probeScript = new RedisScript(scripts.probeSubscription, Number);

/** The channel of a key, or of keys such as `a` and `{a}`, which Redisson gives one channel. */
class LockSubscription extends ChannelSubscription {
  /** The keys that had a waiter. */
  readonly keys = new Set<string>();
  /** Changes with each message, and each time the channel is subscribed. */
  messageId = 0;
  /** Until when the next message is about a release of this instance. */
  ownUntil = 0;
}

/**
 * Receives Redisson's messages about releases, on one channel for each key with a waiter. The channel is subscribed at
 * the second `waitForRelease` of a key, so that a single `tryAcquire` costs no subscription.
 *
 * Other clients read the channels of locks, so no probe is published there. On a single server, a channel of this
 * instance proves that messages are received.
 */
export class LockPubSub {
  readonly subscriptions: ChannelSubscriptions<LockSubscription>;
  private readonly probed: LockSubscription | undefined;
  private lastMessageId = 0;
  private closed = false;

  /**
   * @param channelOf returns the channel of a key.
   * @param probeChannel the channel of this instance on a single server.
   */
  constructor(
    private readonly clock: Clock,
    requestTimeoutMs: number,
    private readonly listener: LockPubSubListener,
    sources: ChannelSources,
    private readonly channelOf: (key: string) => string,
    probeChannel?: string,
  ) {
    this.subscriptions = new ChannelSubscriptions<LockSubscription>({
      clock,
      requestTimeoutMs,
      kind: 'sharded or plain',
      lingerMs: LINGER_MS,
      retryMs: PAUSE_MS,
      sourceOf: (key) => sources.sourceOf(key),
      onSubscribed: (subscription) => this.onSubscribed(subscription),
      onMessage: (source, channel, message) => this.onMessage(source, channel, message),
      onRedirected: () => sources.refresh?.(),
      onRefused: (why) => listener.onRefused(why),
    });
    if (probeChannel === undefined) return;
    const probe = ({ connection }: ChannelSource): Promise<undefined> =>
      probeScript.run(connection, [], [probeChannel]).then(() => undefined);
    this.probed = new LockSubscription(probeChannel, '', clock.now(), probe, true);
    this.subscriptions.add(this.probed);
  }

  /** Returns the number of the last message about the key. Undefined while no message would be received. */
  messageIdOf(key: string): number | undefined {
    const subscription = this.subscriptions.get(this.channelOf(key));
    return this.receives(subscription) ? subscription.messageId : undefined;
  }

  /**
   * Called if another holder has the lock. Returns true if the listener will be notified of its release. Otherwise the
   * owner has to try again by itself.
   *
   * @param messageId the last message when the owner's acquire request was sent.
   */
  waitForRelease(key: string, owner: string, messageId: number | undefined): boolean {
    if (this.closed) return false;
    const channel = this.channelOf(key);
    const subscription = this.subscriptions.get(channel);
    if (subscription === undefined) {
      const added = new LockSubscription(channel, key, this.clock.now());
      added.keys.add(key);
      this.subscriptions.add(added);
      return false;
    }
    subscription.keys.add(key);
    if (this.probed !== undefined) this.subscriptions.open(this.probed);
    this.subscriptions.open(subscription);
    if (!this.receives(subscription)) return false;
    subscription.neededBy.add(owner);
    this.subscriptions.verify(subscription);
    // A message that overtook the reply may be about a later release. The timer runs after the owner has received the
    // reply.
    if (subscription.messageId !== messageId) this.clock.schedule(0, () => this.listener.onReleased(key));
    return true;
  }

  /**
   * Called when this instance releases the key: the message about it notifies nobody here. Returns true if the message
   * will be received.
   */
  ignoreOwnMessage(key: string): boolean {
    const subscription = this.subscriptions.get(this.channelOf(key));
    if (!this.receives(subscription)) return false;
    subscription.ownUntil = this.clock.now() + OWN_MESSAGE_MS;
    return true;
  }

  /** Called if the release has published nothing: a message that was ignored since then was about another release. */
  onNotPublished(key: string): void {
    const subscription = this.subscriptions.get(this.channelOf(key));
    if (subscription === undefined) return;
    const hasIgnored = subscription.ownUntil === 0;
    subscription.ownUntil = 0;
    if (hasIgnored) this.publishReleased(subscription);
  }

  /** The owner no longer waits for the key. */
  stopWaiting(key: string, owner: string): void {
    this.subscriptions.get(this.channelOf(key))?.neededBy.delete(owner);
  }

  /** Ends the subscriptions. */
  close(): void {
    this.closed = true;
    this.subscriptions.close();
  }

  /** Returns true if messages on the channel are received, as far as is known. */
  private receives(subscription: LockSubscription | undefined): subscription is LockSubscription {
    const isVerified = this.probed === undefined || this.probed.state === 'subscribed';
    return isVerified && !this.closed && subscription?.state === 'subscribed';
  }

  private onSubscribed(subscription: LockSubscription): void {
    if (!this.receives(subscription)) return;
    this.listener.onSubscribed();
    const receiving = subscription === this.probed ? this.subscriptions.all : [subscription];
    // Releases before the subscription were missed, so waiters try again.
    for (const each of receiving) if (this.receives(each)) this.publishReleased(each);
  }

  private onMessage(source: ChannelSource, channel: string, message: string): void {
    const subscription = this.subscriptions.get(channel);
    if (subscription?.source !== source || !UNLOCKED.has(message)) return;
    const isOwn = this.clock.now() < subscription.ownUntil;
    subscription.ownUntil = 0;
    if (!isOwn) this.publishReleased(subscription);
  }

  private publishReleased(subscription: LockSubscription): void {
    this.lastMessageId += 1;
    subscription.messageId = this.lastMessageId;
    for (const key of subscription.keys) this.listener.onReleased(key);
  }
}
