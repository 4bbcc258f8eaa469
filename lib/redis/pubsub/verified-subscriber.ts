import { runOutside } from '../../core/async-context.js';
import { type Clock, withTimeout, type Timer } from '../../core/time/clock.js';
import type { RedisSubscriber } from '../redis-client.js';
import type { RedisConnection } from '../redis-connection.js';
import { redirectionIn, unavailableBecause } from '../redis-errors.js';

/** Who subscribes. */
export interface SubscriberListener {
  /** From now on what is published to the echo's channel, and what is subscribed from now on, is heard. */
  linked(): void;
  /** Nothing is heard any more. */
  lost(): void;
  message(channel: string, message: string): void;
  /** Nothing can be heard, and why: something refused it. */
  refused(why: string): void;
}

/** A connection on which nothing was heard for this long is asked whether it is still there. */
const SILENCE_MS = 3_000;

/** A lost connection is not opened anew at once where its client gives up. */
const REOPEN_AFTER_MS = 10_000;

const LONGEST_PROBE_MS = 30_000;

const PROBE = '';

const nothing = (): Promise<void> => Promise.resolve();

type State =
  | 'unopened'
  /** Connecting, or between two connections. */
  | 'connecting'
  /** Subscribing, and waiting for the echo. */
  | 'proving'
  | 'linked'
  /** The server does not allow it. */
  | 'refused';

/**
 * A connection for subscriptions. It is opened when it is needed first, opened again when it was lost, and it counts as linked
 * only when an echo, sent over the connection that asks for locks, was heard on it: then both lead to the same server, and
 * nothing on the way refuses it.
 *
 * Without an echo's channel it is linked as soon as it is connected: in a cluster each channel may move to another node by
 * itself, and so is proven by itself, by whoever subscribes it.
 */
export class VerifiedSubscriber {
  private subscriber: RedisSubscriber | undefined;
  private state: State = 'unopened';
  private heardAt = 0;
  private pinging = false;
  /** Goes off where the echo is not heard. */
  private probeTimer: Timer | undefined;
  private failedProbes = 0;
  private mayOpenAt = -Infinity;

  constructor(
    private readonly probeChannel: string | undefined,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly listener: SubscriberListener,
  ) {}

  /** Whether what is subscribed is heard, as far as is known. */
  get linked(): boolean {
    return this.state === 'linked';
  }

  /**
   * Opens the connection, in the background, unless that was done already.
   *
   * @param sendEcho sends an empty message to the echo's channel, over the connection that asks for locks.
   */
  open(connect: () => RedisSubscriber | undefined, sendEcho: () => Promise<unknown> = nothing): void {
    if (this.state !== 'unopened' || this.clock.now() < this.mayOpenAt) return;
    this.state = 'connecting';
    runOutside(() => {
      const subscriber = connect();
      if (subscriber === undefined) this.listener.refused('the client that was given cannot be duplicated');
      else this.watch(subscriber, sendEcho);
    });
  }

  /** Rejects with `LockUnavailableError`; without an answer in time the connection is cut, to be opened again. */
  async subscribe(channel: string): Promise<void> {
    const { subscriber } = this;
    if (!this.linked || subscriber === undefined) throw unavailableBecause(new Error('no connection'), 'pub/sub');
    try {
      await withTimeout(this.clock, this.requestTimeoutMs, subscriber.subscribe(channel), () => {
        throw new Error('no answer');
      });
    } catch (error) {
      const failure = unavailableBecause(error, 'pub/sub');
      if (!failure.permanent && redirectionIn(error) === undefined) this.cut();
      throw failure;
    }
  }

  unsubscribe(channel: string): void {
    if (this.linked) this.subscriber?.unsubscribe(channel).catch(() => undefined);
  }

  /** Makes sure, in the background, that a connection which has been silent for long is still there. */
  check(): void {
    const { subscriber, clock, requestTimeoutMs } = this;
    if (!this.linked || subscriber === undefined || this.pinging) return;
    if (clock.now() - this.heardAt < SILENCE_MS) return;
    this.pinging = true;
    const answered = (): void => {
      this.heardAt = clock.now();
    };
    // A refusal is an answer, too.
    withTimeout(clock, requestTimeoutMs, subscriber.ping().then(answered, answered), () => this.cut())
      .catch(() => undefined)
      .finally(() => (this.pinging = false));
  }

  /** The connection that asks for locks has ended, and the next one may lead to another server: so must this one. */
  reconnect(): void {
    if (this.state !== 'unopened' && this.state !== 'connecting') this.subscriber?.disconnect(true);
  }

  /** Ends the connection; it is opened again when it is needed. */
  close(): void {
    const { subscriber, linked } = this;
    this.probeTimer?.cancel();
    this.state = 'unopened';
    this.subscriber = undefined;
    subscriber?.disconnect();
    if (linked) this.listener.lost();
  }

  private cut(): void {
    if (this.linked) this.subscriber?.disconnect(true);
  }

  private watch(subscriber: RedisSubscriber, sendEcho: () => Promise<unknown>): void {
    this.subscriber = subscriber;
    const on = (event: 'connect' | 'ready' | 'close' | 'end', then: () => void): void => {
      subscriber.on(event, () => {
        if (this.subscriber === subscriber) then();
      });
    };
    subscriber.on('error', () => undefined);
    // A server that hangs takes connections, and never gets them ready: another one may have its place by now.
    on('connect', () => this.startProbeTimer(subscriber));
    on('ready', () => void this.verify(subscriber, sendEcho));
    on('close', () => this.lost());
    on('end', () => this.givenUp());
    subscriber.on('message', (channel, message) => this.heard(channel, message));
    subscriber.connect().catch(() => undefined);
  }

  /** Subscribes and sends the echo. */
  private async verify(subscriber: RedisSubscriber, sendEcho: () => Promise<unknown>): Promise<void> {
    if (this.probeChannel === undefined) return this.link();
    this.state = 'proving';
    this.startProbeTimer(subscriber);
    try {
      await subscriber.subscribe(this.probeChannel);
      await sendEcho();
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      // Anything else comes to an end by itself: the connection's, or the doubt's.
      if (!permanent || this.state !== 'proving') return;
      this.probeTimer?.cancel();
      this.state = 'refused';
      this.listener.refused(message);
    }
  }

  /** Later from time to time, until an echo is heard. */
  private startProbeTimer(subscriber: RedisSubscriber): void {
    this.probeTimer?.cancel();
    const delayMs = Math.min(this.requestTimeoutMs * 2 ** this.failedProbes, LONGEST_PROBE_MS);
    this.probeTimer = this.clock.schedule(delayMs, () => this.onProbeTimeout(subscriber), true);
  }

  private onProbeTimeout(subscriber: RedisSubscriber): void {
    this.failedProbes += 1;
    // While there is no connection to send the echo over, nothing can be said.
    if (this.connection.ready)
      this.listener.refused('an echo was not heard: its connection may lead to another server');
    subscriber.disconnect(true);
  }

  private lost(): void {
    this.probeTimer?.cancel();
    const wasLinked = this.linked;
    this.state = 'connecting';
    if (wasLinked) this.listener.lost();
  }

  private givenUp(): void {
    this.close();
    this.mayOpenAt = this.clock.now() + REOPEN_AFTER_MS;
    this.listener.refused('its connection has ended, and its retryStrategy makes no other one');
  }

  private heard(channel: string, message: string): void {
    this.heardAt = this.clock.now();
    if (channel !== this.probeChannel || message !== PROBE) return this.listener.message(channel, message);
    if (this.state !== 'proving') return;
    this.link();
  }

  private link(): void {
    this.probeTimer?.cancel();
    this.failedProbes = 0;
    this.state = 'linked';
    this.listener.linked();
  }
}
