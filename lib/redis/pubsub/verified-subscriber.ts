import { runOutside } from '../../core/async-context.js';
import { type Clock, withTimeout, type Timer } from '../../core/time/clock.js';
import { messageOf } from '../../core/errors.js';
import type { RedisSubscriber } from '../redis-client.js';
import type { RedisConnection } from '../redis-connection.js';
import { redirectionIn } from '../redirection.js';
import { probeDelayMs } from './probe-delay.js';
import { unavailableBecause } from '../redis-errors.js';

/** Receives the messages and the events of a subscriber. */
export interface SubscriberListener {
  /** From now on channels can be subscribed, and messages on the probe channel are received. */
  onReady(): void;
  /** All subscriptions are lost. */
  onLost(): void;
  onMessage(channel: string, message: string): void;
  /** Subscribing is refused, and why. */
  onRefused(why: string): void;
}

/** A connection that has received nothing for this long is verified by PING. */
const SILENCE_MS = 3_000;

/** How long to wait before a connection is opened again whose client does not reconnect by itself. */
export const REOPEN_AFTER_MS = 10_000;

/** The message that a probe publishes. */
export const PROBE = '';

export const PROBE_NOT_RECEIVED = 'a probe was not received: its connection may lead to another server';

const doNothing = (): Promise<void> => Promise.resolve();

type State =
  | 'unopened'
  /** Connecting, or between two connections. */
  | 'connecting'
  /** Subscribing to the probe channel, or waiting for the probe. */
  | 'verifying'
  | 'ready'
  /** The server does not allow it. */
  | 'refused';

/**
 * A connection for subscriptions. It is opened when it is first needed and comes back after an outage. It is ready
 * after it has received a probe that was sent over the connection for commands. This proves that both connections lead
 * to the same server, and that subscribing is allowed.
 *
 * Without a probe channel it is ready as soon as it is connected. In a cluster each channel may move to another node,
 * so each channel is verified on its own.
 */
export class VerifiedSubscriber {
  /** @internal For tests, as are all public members below. */
  subscriber: RedisSubscriber | undefined;
  /** @internal When the last message or reply arrived. */
  receivedAt = 0;
  /** @internal */
  pinging = false;
  /** @internal How many probes in a row did not arrive. */
  failedProbes = 0;
  /** @internal */
  mayOpenAt = -Infinity;
  private state: State = 'unopened';
  /** Fires if the probe does not arrive. */
  private probeTimer: Timer | undefined;

  constructor(
    private readonly probeChannel: string | undefined,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly listener: SubscriberListener,
  ) {}

  /** True if channels can be subscribed and messages are received, as far as is known. */
  get ready(): boolean {
    return this.state === 'ready';
  }

  /** False if there is no connection, and none is being opened: `open` may open one. */
  get isOpen(): boolean {
    return this.state !== 'unopened';
  }

  /**
   * Opens the connection in the background. Does nothing if it was opened already, or if it has ended less than 10 s
   * ago. Never throws.
   *
   * @param sendProbe publishes an empty message to the probe channel over the connection for commands.
   */
  open(connect: () => RedisSubscriber | undefined, sendProbe: () => Promise<unknown> = doNothing): void {
    if (this.state !== 'unopened' || this.clock.now() < this.mayOpenAt) return;
    this.state = 'connecting';
    runOutside(() => {
      try {
        const subscriber = connect();
        if (subscriber === undefined) this.listener.onRefused('the client that was given cannot be duplicated');
        else this.use(subscriber, sendProbe);
      } catch (error) {
        this.end(`a connection could not be made: ${messageOf(error)}`);
      }
    });
  }

  /** Subscribes to a channel. Rejects with `LockUnavailableError`. If there is no reply in time, it also reconnects. */
  async subscribe(channel: string): Promise<void> {
    const { subscriber } = this;
    if (!this.ready || subscriber === undefined) throw unavailableBecause(new Error('no connection'), 'pub/sub');
    try {
      await withTimeout(this.clock, this.requestTimeoutMs, subscriber.subscribe(channel), () => {
        throw new Error('no reply');
      });
    } catch (error) {
      const failure = unavailableBecause(error, 'pub/sub');
      if (!failure.permanent && redirectionIn(error) === undefined) this.reconnectIfReady();
      throw failure;
    }
  }

  /** Unsubscribes from a channel in the background. */
  unsubscribe(channel: string): void {
    if (this.ready) this.subscriber?.unsubscribe(channel).catch(() => undefined);
  }

  /** Sends PING in the background if nothing was received for 3 s. Reconnects if there is no reply in time. */
  verifyConnection(): void {
    const { subscriber, clock, requestTimeoutMs } = this;
    if (!this.ready || subscriber === undefined || this.pinging) return;
    if (clock.now() - this.receivedAt < SILENCE_MS) return;
    this.pinging = true;
    const onReply = (): void => {
      this.receivedAt = clock.now();
    };
    // An error is a reply, too.
    const pong = subscriber.ping().then(onReply, onReply);
    withTimeout(clock, requestTimeoutMs, pong, () => this.reconnectIfReady())
      .catch(() => undefined)
      .finally(() => (this.pinging = false));
  }

  /** Reconnects after the connection for commands was lost, because the new one may lead to another server. */
  reconnect(): void {
    if (this.state !== 'unopened' && this.state !== 'connecting') this.subscriber?.disconnect(true);
  }

  /** Ends the connection. `open` opens another one. */
  close(): void {
    const { subscriber, ready } = this;
    this.probeTimer?.cancel();
    this.state = 'unopened';
    this.subscriber = undefined;
    subscriber?.disconnect();
    if (ready) this.listener.onLost();
  }

  private reconnectIfReady(): void {
    if (this.ready) this.subscriber?.disconnect(true);
  }

  private use(subscriber: RedisSubscriber, sendProbe: () => Promise<unknown>): void {
    this.subscriber = subscriber;
    const on = (event: 'connect' | 'ready' | 'close' | 'end', then: () => void): void => {
      subscriber.on(event, () => {
        if (this.subscriber === subscriber) then();
      });
    };
    subscriber.on('error', () => undefined);
    // A server that hangs accepts connections that never become ready. Another server may have its place by now.
    on('connect', () => this.startProbeTimer(subscriber));
    on('ready', () => void this.verify(subscriber, sendProbe));
    on('close', () => this.onClose());
    on('end', () => this.onEnd());
    subscriber.on('message', (channel, message) => this.onMessage(channel, message));
    subscriber.connect().catch(() => undefined);
  }

  /** Subscribes to the probe channel and sends the probe. */
  private async verify(subscriber: RedisSubscriber, sendProbe: () => Promise<unknown>): Promise<void> {
    if (this.probeChannel === undefined) return this.onVerified();
    this.state = 'verifying';
    this.startProbeTimer(subscriber);
    try {
      await subscriber.subscribe(this.probeChannel);
      await sendProbe();
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      // Other errors end with the connection or with the probe timer.
      if (!permanent || this.state !== 'verifying') return;
      this.probeTimer?.cancel();
      this.state = 'refused';
      this.listener.onRefused(message);
    }
  }

  /** Starts the probe timer. Each failed probe doubles its delay. */
  private startProbeTimer(subscriber: RedisSubscriber): void {
    this.probeTimer?.cancel();
    const delayMs = probeDelayMs(this.requestTimeoutMs, this.failedProbes);
    this.probeTimer = this.clock.schedule(delayMs, () => this.onProbeTimeout(subscriber), true);
  }

  private onProbeTimeout(subscriber: RedisSubscriber): void {
    this.failedProbes += 1;
    // Without a connection that sends the probe, its absence proves nothing.
    if (this.connection.ready) this.listener.onRefused(PROBE_NOT_RECEIVED);
    subscriber.disconnect(true);
  }

  private onClose(): void {
    this.probeTimer?.cancel();
    const wasReady = this.ready;
    this.state = 'connecting';
    if (wasReady) this.listener.onLost();
  }

  private onEnd(): void {
    this.end('its connection has ended, and its retryStrategy makes no other one');
  }

  /** Closes, and reports why. Another connection may be opened later. */
  private end(why: string): void {
    this.close();
    this.mayOpenAt = this.clock.now() + REOPEN_AFTER_MS;
    this.listener.onRefused(why);
  }

  private onMessage(channel: string, message: string): void {
    this.receivedAt = this.clock.now();
    if (channel !== this.probeChannel || message !== PROBE) this.listener.onMessage(channel, message);
    else if (this.state === 'verifying') this.onVerified();
  }

  private onVerified(): void {
    this.probeTimer?.cancel();
    this.failedProbes = 0;
    this.state = 'ready';
    this.listener.onReady();
  }
}
