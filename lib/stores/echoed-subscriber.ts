import { type Clock, inTime, type Timer } from '../core/clock.js';
import { luaScripts } from '../lua/index.js';
import type { RedisSubscriber } from './redis-client.js';
import type { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
import { RedisScript } from './redis-script.js';

/** Who subscribes. */
export interface SubscriberListener {
  /** What is subscribed from now on is heard; what was subscribed before is not any more. */
  linked(): void;
  /** Nothing is heard. */
  lost(): void;
  message(channel: string, message: string): void;
  /** Nothing can be heard, and why: something refused it. */
  refused(why: string): void;
}

/** A connection on which nothing was heard for this long is asked whether it is still there. */
const SILENCE_MS = 3_000;

const echoScript = new RedisScript(luaScripts.listenEcho, Number);

/**
 * A connection for subscriptions. It is opened when it is needed first, opened again when it was lost, and it counts as linked
 * only when an echo, sent over the connection that asks for locks, was heard on it: then both lead to the same server.
 */
export class EchoedSubscriber {
  private subscriber: RedisSubscriber | undefined;
  private state: 'unopened' | 'pending' | 'linked' | 'closed' = 'unopened';
  private heardAt = 0;
  private pinging = false;
  private retry: Timer | undefined;

  constructor(
    private readonly echoChannel: string,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly patienceMs: number,
    private readonly listener: SubscriberListener,
  ) {}

  get linked(): boolean {
    return this.state === 'linked';
  }

  /** Opens the connection, in the background, unless that was done already. */
  open(connect: () => RedisSubscriber | undefined): void {
    if (this.state !== 'unopened') return;
    this.state = 'pending';
    const subscriber = connect();
    if (subscriber === undefined) return this.listener.refused('the client that was given cannot be duplicated');
    this.subscriber = subscriber;
    subscriber.on('error', () => undefined);
    subscriber.on('ready', () => void this.link(subscriber));
    subscriber.on('close', () => this.lost());
    subscriber.on('message', (channel, message) => this.heard(channel, message));
    subscriber.connect().catch(() => undefined);
  }

  /** Rejects with `LockUnavailableError`; without an answer in time the connection is cut, to be opened again. */
  async subscribe(channel: string): Promise<void> {
    const { subscriber } = this;
    if (!this.linked || subscriber === undefined) throw unavailableBecause(new Error('no connection'), 'pub/sub');
    try {
      await this.answerTo(subscriber.subscribe(channel));
    } catch (error) {
      const failure = unavailableBecause(error, 'pub/sub');
      if (!failure.permanent) this.cut();
      throw failure;
    }
  }

  unsubscribe(channel: string): void {
    if (this.linked) this.subscriber?.unsubscribe(channel).catch(() => undefined);
  }

  /** Makes sure, in the background, that a connection which has been silent for long is still there. */
  check(): void {
    const { subscriber, clock } = this;
    if (!this.linked || subscriber === undefined || this.pinging) return;
    if (clock.now() - this.heardAt < SILENCE_MS) return;
    this.pinging = true;
    this.answerTo(subscriber.ping())
      .catch(() => this.cut())
      .finally(() => (this.pinging = false));
  }

  close(): void {
    this.state = 'closed';
    this.retry?.cancel();
    this.subscriber?.disconnect();
  }

  /** Subscribes to the echo and sends it, again and again until it is heard or refused, or until the connection ends. */
  private async link(subscriber: RedisSubscriber): Promise<void> {
    if (subscriber.status !== 'ready' || this.state === 'closed') return;
    this.state = 'pending';
    this.retry?.cancel();
    this.retry = this.clock.schedule(this.patienceMs, () => void this.link(subscriber), true);
    try {
      await subscriber.subscribe(this.echoChannel);
      await echoScript.run(this.connection, [], [this.echoChannel]);
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      if (!permanent) return;
      this.retry?.cancel();
      this.listener.refused(message);
    }
  }

  private async answerTo(request: Promise<unknown>): Promise<void> {
    const late = (): never => {
      throw new Error('no answer');
    };
    await inTime(this.clock, this.patienceMs, request, late);
    this.heardAt = this.clock.now();
  }

  private cut(): void {
    if (this.linked) this.subscriber?.disconnect(true);
  }

  private lost(): void {
    this.retry?.cancel();
    if (this.state !== 'linked') return;
    this.state = 'pending';
    this.listener.lost();
  }

  private heard(channel: string, message: string): void {
    this.heardAt = this.clock.now();
    if (channel !== this.echoChannel) return this.listener.message(channel, message);
    if (this.state !== 'pending') return;
    this.state = 'linked';
    this.retry?.cancel();
    this.listener.linked();
  }
}
