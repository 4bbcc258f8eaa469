import type { Clock, Timer } from '../../core/time/clock.js';
import { redirectionIn, unavailableBecause } from '../../redis/redis-errors.js';
import { LockSubscription } from './lock-subscription.js';
import type { LockPubSubSource, LockPubSubSourceListener, LockPubSubSources } from './lock-pubsub-sources.js';

/** Who wants to know of releases. */
export interface LockPubSubListener {
  /** A key was released, or may have been before anybody listened. */
  freed(key: string): void;
  /** Releases cannot be heard of, and why: something refused it. */
  refused(why: string): void;
}

/** Redisson's: one waiter of each process may go on, or all of them may. Here each process has but one. */
const UNLOCKED = new Set(['0', '1']);

/** A subscription outlives the last who waited for its key by this much, so that a busy key is not subscribed again and again. */
const LINGER_MS = 1_000;

/** Nodes of a cluster that do not agree send whoever subscribes to and fro, for a moment. */
const PAUSE_MS = 50;

/**
 * Hears of releases by Redisson's messages: one connection to each server that has locks, and there a subscription for each
 * key that somebody waits for here. A subscription is made at the second refusal of a key, so that who only tries once costs
 * none, and is dropped a moment after nobody waits for the key any more. Where a key has gone to another server, it follows.
 */
export class LockPubSub implements LockPubSubSourceListener {
  private readonly subscriptions = new Map<string, LockSubscription>();
  private readonly byChannel = new Map<string, LockSubscription>();
  private readonly bySource = new Map<LockPubSubSource, Set<LockSubscription>>();
  private news = 0;
  private sweeper: Timer | undefined;
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly listener: LockPubSubListener,
    private readonly sources: LockPubSubSources,
  ) {}

  /** A number that is another one after each message about the key; undefined while none would be heard. */
  newsOf(key: string): number | undefined {
    const ear = this.subscriptions.get(key);
    return ear?.state === 'open' && !this.closed ? ear.news : undefined;
  }

  /**
   * An owner was refused the key, by an ask that was sent when these were the news. Answers whether it will be told of the
   * release; if not, it has to ask again by itself.
   */
  refusedAt(news: number | undefined, key: string, channel: string, owner: string): boolean {
    if (this.closed) return false;
    const ear = this.subscriptions.get(key);
    if (ear === undefined) {
      this.note(key, channel);
      return false;
    }
    ear.usedAt = this.clock.now();
    if (ear.state === 'noted' || ear.state === 'subscribing' || this.strayed(ear)) this.subscribe(ear);
    if (ear.state !== 'open') return false;
    ear.waiting.add(owner);
    ear.source?.subscriber.check();
    // What came beside the answer may have told of a later release, which nobody tells of again. Once the owner has the answer.
    if (ear.news !== news) this.clock.schedule(0, () => this.listener.freed(key));
    return true;
  }

  /** An owner does not wait for the key any more. */
  left(key: string, owner: string): void {
    this.subscriptions.get(key)?.waiting.delete(owner);
  }

  close(): void {
    this.closed = true;
    this.sweeper?.cancel();
    for (const ear of this.subscriptions.values()) this.drop(ear);
    this.sources.close();
  }

  linked(source: LockPubSubSource): void {
    for (const ear of this.earsAt(source)) if (ear.state === 'subscribing') void this.subscribeAt(source, ear);
  }

  lost(source: LockPubSubSource): void {
    // What was refused may be allowed by now, or somewhere else.
    for (const ear of this.earsAt(source)) ear.state = 'subscribing';
  }

  message(source: LockPubSubSource, channel: string, message: string): void {
    const ear = this.byChannel.get(channel);
    if (ear?.source === source && UNLOCKED.has(message)) this.tell(ear);
  }

  refused(why: string): void {
    this.listener.refused(why);
  }

  /** The server has taken channels away, and nobody knows which. */
  moved(source: LockPubSubSource): void {
    for (const ear of this.earsAt(source)) {
      // One that is on its way may have been subscribed, and taken away, in one breath.
      if (ear.state !== 'open' && ear.state !== 'subscribing') continue;
      ear.state = 'subscribing';
      if (source.subscriber.linked) void this.subscribeAt(source, ear);
    }
  }

  /** Keys may be elsewhere than before. */
  rerouted(): void {
    for (const ear of this.subscriptions.values()) if (this.strayed(ear)) this.subscribe(ear);
  }

  /** It is not where its key is, as far as is known. */
  private strayed({ key, source }: LockSubscription): boolean {
    return source !== undefined && source !== (this.sources.of(key) ?? source);
  }

  private note(key: string, channel: string): void {
    const ear = new LockSubscription(key, channel, this.clock.now());
    this.subscriptions.set(key, ear);
    this.byChannel.set(channel, ear);
    this.sweepLater();
  }

  private subscribe(ear: LockSubscription): void {
    const source = this.sources.of(ear.key);
    if (source === undefined) return;
    const underWay = ear.state === 'subscribing' && ear.source === source && source.subscriber.linked;
    if (underWay) return;
    if (ear.source !== source) this.move(ear, source);
    ear.state = 'subscribing';
    source.subscribe('sharded or plain');
    // Otherwise it is subscribed as soon as there is a connection.
    if (source.subscriber.linked) void this.subscribeAt(source, ear);
  }

  private async subscribeAt(source: LockPubSubSource, ear: LockSubscription): Promise<void> {
    try {
      await source.subscriber.subscribe(ear.channel);
    } catch (error) {
      return this.failed(source, ear, error);
    }
    if (ear.state !== 'subscribing' || ear.source !== source || !source.subscriber.linked) return;
    ear.state = 'open';
    // What was released before is not told any more: whoever waits asks once more.
    this.tell(ear);
  }

  private failed(source: LockPubSubSource, ear: LockSubscription, error: unknown): void {
    if (ear.source !== source) return;
    const redirection = redirectionIn(error);
    if (redirection !== undefined) {
      ear.state = 'noted';
      if (this.sources.of(ear.key) === source) this.sources.follow(ear.key, redirection);
      this.clock.schedule(PAUSE_MS, () => this.retry(ear), true);
      return;
    }
    const { permanent, message } = unavailableBecause(error, 'pub/sub');
    if (!permanent) return;
    ear.state = 'refused';
    this.listener.refused(message);
  }

  private retry(ear: LockSubscription): void {
    if (this.subscriptions.get(ear.key) === ear && ear.state === 'noted') this.subscribe(ear);
  }

  private tell(ear: LockSubscription): void {
    this.news += 1;
    ear.news = this.news;
    this.listener.freed(ear.key);
  }

  private earsAt(source: LockPubSubSource): readonly LockSubscription[] {
    return [...(this.bySource.get(source) ?? [])];
  }

  private sweepLater(): void {
    this.sweeper ??= this.clock.schedule(LINGER_MS, () => this.sweep(), true);
  }

  private sweep(): void {
    this.sweeper = undefined;
    const now = this.clock.now();
    for (const ear of this.subscriptions.values()) {
      if (ear.waiting.size === 0 && now - ear.usedAt >= LINGER_MS) this.drop(ear);
    }
    if (this.subscriptions.size > 0) this.sweepLater();
  }

  private drop(ear: LockSubscription): void {
    this.subscriptions.delete(ear.key);
    this.byChannel.delete(ear.channel);
    this.leave(ear);
  }

  private move(ear: LockSubscription, source: LockPubSubSource): void {
    this.leave(ear);
    ear.source = source;
    const others = this.bySource.get(source);
    if (others === undefined) this.bySource.set(source, new Set([ear]));
    else others.add(ear);
  }

  private leave(ear: LockSubscription): void {
    const { source } = ear;
    if (source === undefined) return;
    ear.source = undefined;
    source.subscriber.unsubscribe(ear.channel);
    const others = this.bySource.get(source);
    others?.delete(ear);
    if (others === undefined || others.size > 0) return;
    this.bySource.delete(source);
    this.sources.idle(source);
  }
}
