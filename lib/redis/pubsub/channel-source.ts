import { runOutside } from '../../common/async-context.js';
import { type Clock, scheduleTimeout, withTimeout, type Timer } from '../../clock/clock.js';
import { messageOf } from '../../common/errors.js';
import { SILENT_LIMITS } from '../../contract/server-signs.js';
import type { FurtherConnection } from '../client-port.js';
import type { Follower, RedisConnection } from '../redis-connection.js';
import { redirectionIn } from '../redirection.js';
import { unavailableBecause } from '../redis-errors.js';

/** The servers that publish to channels: one, or the nodes of a cluster. */
export interface ChannelSources {
  /** Returns the server that publishes to the key's channel. Undefined while there is no connection to it. */
  sourceOf(key: string): ChannelSource | undefined;
  /** Refreshes the slot table in the background. */
  refresh?(): void;
}

/** Receives the messages and the events of all sources. */
export interface ChannelListener {
  /** From now on channels can be subscribed at the source. */
  onSourceReady(source: ChannelSource): void;
  /** The source's subscriptions are lost. */
  onSourceLost(source: ChannelSource): void;
  onMessage(source: ChannelSource, channel: string, message: string): void;
  /** Called with the reason when subscribing is refused. */
  onRefused(why: string): void;
  /** The source has removed channels because a slot has moved. It does not say which. */
  onChannelsRemoved(source: ChannelSource): void;
  /** Slots may have moved to other nodes. */
  onSlotsChanged(): void;
}

/** A connection that has received nothing for this long is verified by PING. */
const SILENCE_MS = 3_000;

/**
 * A server, and the connection on which its channels are subscribed. The connection is opened when it is first needed
 * and comes back after an outage.
 */
export class ChannelSource implements Follower {
  /** @internal For tests, as are all public members below. */
  subscriber: FurtherConnection | undefined;
  /** @internal When the last message or reply arrived. */
  receivedAt = 0;
  /** @internal */
  pinging = false;
  private state: 'closed' | 'connecting' | 'ready' = 'closed';
  /** Fires if a connection that was accepted does not become ready. */
  private connectTimer: Timer | undefined;

  /**
   * @param connection sends commands to the server.
   * @param listener returns the listener. Undefined after the end of the store.
   * @param onMoved called if the server has removed channels because a slot has moved. Given for a node of a cluster,
   *   whose channels are sharded. A single server has plain channels.
   */
  constructor(
    readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly listener: () => ChannelListener | undefined,
    private readonly onMoved?: () => void,
  ) {}

  /** True if channels can be subscribed, as far as is known. */
  get ready(): boolean {
    return this.state === 'ready';
  }

  /** Opens the connection in the background. Does nothing if it is open. Never throws. */
  open(): void {
    if (this.state !== 'closed') return;
    this.state = 'connecting';
    runOutside(() => {
      try {
        const subscriber = this.connection.client.open('handoffs');
        if (subscriber === undefined) this.listener()?.onRefused('the client that was given cannot be duplicated');
        else this.use(subscriber);
      } catch (error) {
        this.listener()?.onRefused(`a connection could not be made: ${messageOf(error)}`);
      }
    });
  }

  /** Subscribes to a channel. Rejects with `LockUnavailableError`. If there is no reply in time, it also reconnects. */
  async subscribe(channel: string): Promise<void> {
    const { subscriber } = this;
    if (!this.ready || subscriber === undefined) throw unavailableBecause(new Error('no connection'), 'pub/sub');
    try {
      await withTimeout(this.clock, this.requestTimeoutMs, subscriber.subscribe(channel, this.isSharded), () => {
        throw new Error('no reply');
      });
    } catch (error) {
      const failure = unavailableBecause(error, 'pub/sub');
      if (!failure.permanent && redirectionIn(error) === undefined) this.reconnect();
      throw failure;
    }
  }

  /** Unsubscribes from a channel in the background. */
  unsubscribe(channel: string): void {
    if (this.ready) this.subscriber?.unsubscribe(channel, this.isSharded).catch(() => undefined);
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
    // An error is also a reply.
    const pong = subscriber.send('ping').then(onReply, onReply);
    withTimeout(clock, requestTimeoutMs, pong, () => this.reconnect())
      .catch(() => undefined)
      .finally(() => (this.pinging = false));
  }

  /** Replaces a connection that is ready. Its channels are subscribed again. */
  reconnect(): void {
    if (this.ready) this.subscriber?.disconnect(true);
  }

  /** Ends the connection. `open` opens another one. */
  close(): void {
    const { subscriber, ready } = this;
    this.connectTimer?.cancel();
    this.state = 'closed';
    this.subscriber = undefined;
    subscriber?.disconnect();
    if (ready) this.listener()?.onSourceLost(this);
  }

  private get isSharded(): boolean {
    return this.onMoved !== undefined;
  }

  private use(subscriber: FurtherConnection): void {
    this.subscriber = subscriber;
    const ifUsed = (then: () => void) => (): void => {
      if (this.subscriber === subscriber) then();
    };
    subscriber.watch({
      connect: ifUsed(() => this.onConnect(subscriber)),
      ready: ifUsed(() => this.onReady()),
      close: ifUsed(() => this.onClose()),
      end: ifUsed(() => this.close()),
      message: (channel, message) => {
        this.receivedAt = this.clock.now();
        this.listener()?.onMessage(this, channel, message);
      },
      moved: () => this.onMoved?.(),
    });
    subscriber.connect();
  }

  // A server that hangs accepts connections that never become ready. Another server may have its place by now.
  private onConnect(subscriber: FurtherConnection): void {
    this.connectTimer?.cancel();
    this.connectTimer = scheduleTimeout(this.clock, SILENT_LIMITS * this.requestTimeoutMs, () => {
      if (this.connection.ready) this.listener()?.onRefused('its connection was accepted and did not become ready');
      subscriber.disconnect(true);
    });
  }

  private onReady(): void {
    this.connectTimer?.cancel();
    this.state = 'ready';
    this.listener()?.onSourceReady(this);
  }

  private onClose(): void {
    const { ready } = this;
    this.connectTimer?.cancel();
    this.state = 'connecting';
    if (ready) this.listener()?.onSourceLost(this);
  }
}
