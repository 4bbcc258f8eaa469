import type { Clock, Timer } from '../../core/clock.js';
import { luaScripts } from '../../lua/index.js';
import { EchoedSubscriber, type SubscriberListener } from '../redis/echoed-subscriber.js';
import type { RedisSubscriber } from '../redis/redis-client.js';
import type { Follower, RedisConnection } from '../redis/redis-connection.js';
import { unavailableBecause } from '../redis/redis-errors.js';
import { RedisScript } from '../redis/redis-script.js';

/** Who wants to know of releases. */
export interface UnlockListener {
  /** A key was released, or may have been before anybody listened. */
  freed(key: string): void;
  /** Releases cannot be heard of, and why: something refused it. */
  refused(why: string): void;
}

/** Redisson's: one waiter of each process may go on, or all of them may. Here each process has but one. */
const UNLOCKED = new Set(['0', '1']);

const echoScript = new RedisScript(luaScripts.listenEcho, Number);

/** A subscription outlives the last who waited for its key by this much, so that a busy key is not subscribed again and again. */
const LINGER_MS = 1_000;

/** A key that somebody waits for, or did a moment ago. */
interface Ear {
  readonly key: string;
  readonly channel: string;
  /** `noted`: refused once; who waits will ask again, who does not costs no subscription. */
  state: 'noted' | 'subscribing' | 'open' | 'refused';
  /** Changes with everything that is heard, and each time that the ear opens. */
  news: number;
  /** Owners who were told that they will hear of the key. */
  readonly waiting: Set<string>;
  usedAt: number;
}

/**
 * Hears of releases by Redisson's messages: one connection, and a subscription for each key that somebody waits for here. A
 * subscription is made at the second refusal of a key, so that who only tries once costs none, and is dropped a moment
 * after nobody waits for the key any more.
 */
export class UnlockMessages implements SubscriberListener {
  private readonly subscriber: EchoedSubscriber;
  private readonly ears = new Map<string, Ear>();
  private readonly byChannel = new Map<string, Ear>();
  private news = 0;
  private sweeper: Timer | undefined;
  private closed = false;

  constructor(
    private readonly echoChannel: string,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    patienceMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    private readonly listener: UnlockListener,
  ) {
    this.subscriber = new EchoedSubscriber(echoChannel, connection, clock, patienceMs, this);
  }

  /** A number that is another one after each message about the key; undefined while none would be heard. */
  newsOf(key: string): number | undefined {
    const ear = this.ears.get(key);
    return ear?.state === 'open' && !this.closed ? ear.news : undefined;
  }

  /**
   * An owner was refused the key, by an ask that was sent when these were the news. Answers whether it will be told of the
   * release; if not, it has to ask again by itself.
   */
  refusedAt(news: number | undefined, key: string, channel: string, owner: string): boolean {
    if (this.closed) return false;
    const ear = this.ears.get(key);
    if (ear === undefined) {
      this.note(key, channel);
      return false;
    }
    ear.usedAt = this.clock.now();
    if (ear.state === 'noted' || ear.state === 'subscribing') this.subscribe(ear);
    if (ear.state !== 'open') return false;
    ear.waiting.add(owner);
    this.subscriber.check();
    // What came beside the answer may have told of a later release, which nobody tells of again. Once the owner has the answer.
    if (ear.news !== news) this.clock.schedule(0, () => this.listener.freed(key));
    return true;
  }

  /** An owner does not wait for the key any more. */
  left(key: string, owner: string): void {
    this.ears.get(key)?.waiting.delete(owner);
  }

  /** Its connection goes where the one that asks for locks goes. */
  get follower(): Follower {
    return this.subscriber;
  }

  close(): void {
    this.closed = true;
    this.sweeper?.cancel();
    this.subscriber.close();
  }

  linked(): void {
    for (const ear of this.ears.values()) if (ear.state === 'subscribing') void this.subscribeNow(ear);
  }

  lost(): void {
    // What was refused may be allowed by now, or somewhere else.
    for (const ear of this.ears.values()) if (ear.state !== 'noted') ear.state = 'subscribing';
  }

  message(channel: string, message: string): void {
    const ear = this.byChannel.get(channel);
    if (ear === undefined || !UNLOCKED.has(message)) return;
    this.tell(ear);
  }

  refused(why: string): void {
    this.listener.refused(why);
  }

  private note(key: string, channel: string): void {
    const ear: Ear = { key, channel, state: 'noted', news: 0, waiting: new Set(), usedAt: this.clock.now() };
    this.ears.set(key, ear);
    this.byChannel.set(channel, ear);
    this.sweepLater();
  }

  private subscribe(ear: Ear): void {
    const underWay = ear.state === 'subscribing' && this.subscriber.linked;
    if (underWay) return;
    ear.state = 'subscribing';
    this.subscriber.open(this.connect, () => echoScript.run(this.connection, [], [this.echoChannel]));
    // Otherwise it is subscribed as soon as there is a connection.
    if (this.subscriber.linked) void this.subscribeNow(ear);
  }

  private async subscribeNow(ear: Ear): Promise<void> {
    try {
      await this.subscriber.subscribe(ear.channel);
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      if (!permanent) return;
      ear.state = 'refused';
      this.listener.refused(message);
      return;
    }
    if (ear.state !== 'subscribing' || !this.subscriber.linked) return;
    ear.state = 'open';
    // What was released before is not told any more: whoever waits asks once more.
    this.tell(ear);
  }

  private tell(ear: Ear): void {
    this.news += 1;
    ear.news = this.news;
    this.listener.freed(ear.key);
  }

  private sweepLater(): void {
    this.sweeper ??= this.clock.schedule(LINGER_MS, () => this.sweep(), true);
  }

  private sweep(): void {
    this.sweeper = undefined;
    const now = this.clock.now();
    for (const ear of this.ears.values()) {
      if (ear.waiting.size === 0 && now - ear.usedAt >= LINGER_MS) this.drop(ear);
    }
    if (this.ears.size > 0) this.sweepLater();
  }

  private drop(ear: Ear): void {
    this.ears.delete(ear.key);
    this.byChannel.delete(ear.channel);
    if (ear.state === 'open' || ear.state === 'subscribing') this.subscriber.unsubscribe(ear.channel);
  }
}
