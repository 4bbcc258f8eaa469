import type { Clock, Timer } from '../../../core/time/clock.js';
import type { KeyFilter } from '../../../core/store/lock-store.js';
import { helperKey } from '../../../core/keys/resource-key.js';
import { scripts } from '../scripts.js';
import {
  REOPEN_AFTER_MS,
  type SubscriberListener,
  VerifiedSubscriber,
} from '../../../redis/pubsub/verified-subscriber.js';
import { WIRE_PREFIX } from '../../../redis/wire.js';
import { LongHolds } from './long-holds.js';
import type { RedisSubscriber } from '../../../redis/redis-client.js';
import type { RedisConnection } from '../../../redis/redis-connection.js';
import { RedisScript } from '../../../redis/redis-script.js';

/** Receives the handoffs of an instance. */
export interface HandoffListener {
  /**
   * @param message the text. Any client that may use the channel can have published it.
   * @param from the connection to the server whose clock the message is measured by.
   */
  onMessage(message: string, from: RedisConnection): void;
  /** From now on handoffs are received (again), for all keys or for these. */
  onSubscribed(concerns?: KeyFilter): void;
  /** Handoffs cannot be received, and why. */
  onRefused(why: string): void;
}

/** The channels on which one module instance receives handoffs. */
export interface HandoffChannels {
  /**
   * Returns true if handoffs of this key by this node are received, as far as is known. Verifies it in the background.
   */
  isSubscribed(key: string, node: { readonly connection: RedisConnection }): boolean;
  /** Subscribes to the key's channel in the background. Does nothing if it is subscribed already. */
  open(key: string): void;
  /** Called with each owner that has a lock. */
  onGranted(owner: string, key: string): void;
  /** Called with each owner that is released. */
  onReleased(owner: string): void;
  /** Ends the subscriptions. */
  close(): void;
}

/** Returns what the channels of a module begin with: its `prefix`, so that an ACL can keep tenants apart. */
export function channelPrefix(prefix: string): string {
  return `${prefix}nestjs-redis-lock:`;
}

/**
 * Returns the channel of an instance. It has the wire version, so nothing that another version writes arrives here.
 *
 * @param prefix what the channels of its keys begin with.
 */
export function channelOf(prefix: string, instanceId: string): string {
  return prefix + WIRE_PREFIX + instanceId;
}

/**
 * Publishes a probe, and tries the commands that a queue needs. Returns how many subscribers the server has counted.
 */
export const probeScript = new RedisScript(scripts.probeSubscription, Number);

/** The first hold that lasts for longer subscribes the instance, at twice that at the latest. In milliseconds. */
const LONG_HOLD_MS = 25;

/** The channel of one module instance on a single server. */
export class HandoffChannel implements HandoffChannels, SubscriberListener {
  /** @internal Public for tests. */
  readonly subscriber: VerifiedSubscriber;
  private readonly longHolds: LongHolds;
  /** The key of the first hold that lasted. From then on the channel is opened again after its connection has ended. */
  private heldKey: string | undefined;
  /** Opens the channel again. */
  private reopenTimer: Timer | undefined;

  constructor(
    private readonly channel: string,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    requestTimeoutMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    private readonly listener: HandoffListener,
  ) {
    this.subscriber = new VerifiedSubscriber(channel, connection, clock, requestTimeoutMs, this);
    this.longHolds = new LongHolds(clock, LONG_HOLD_MS, (_owner, key) => this.onLongHold(key));
  }

  isSubscribed(): boolean {
    this.subscriber.verifyConnection();
    return this.subscriber.ready;
  }

  open(key: string): void {
    // The probe script tries on this key whether the server allows a queue.
    const queue = helperKey(key, 'queue');
    this.subscriber.open(this.connect, () => probeScript.run(this.connection, [queue], [this.channel]));
  }

  onGranted(owner: string, key: string): void {
    // One channel is for all locks, so no further hold is looked for.
    if (this.heldKey === undefined) this.longHolds.onGranted(owner, key);
  }

  onReleased(owner: string): void {
    this.longHolds.onReleased(owner);
  }

  /** Called after the connection for commands was lost. */
  reconnect(): void {
    this.subscriber.reconnect();
  }

  close(): void {
    this.reopenTimer?.cancel();
    this.heldKey = undefined;
    this.longHolds.clear();
    this.subscriber.close();
  }

  onReady(): void {
    this.listener.onSubscribed();
  }

  onLost(): void {
    // Waiters repeat their acquire requests by themselves.
  }

  onMessage(_channel: string, message: string): void {
    this.listener.onMessage(message, this.connection);
  }

  onRefused(why: string): void {
    this.listener.onRefused(why);
    if (this.heldKey !== undefined) this.reopenLater(this.heldKey);
  }

  private onLongHold(key: string): void {
    this.heldKey = key;
    this.longHolds.clear();
    this.open(key);
    this.reopenLater(key);
  }

  /** Holds that last do not open the channel again, as waiters do. */
  private reopenLater(key: string): void {
    if (this.subscriber.isOpen) return;
    this.reopenTimer?.cancel();
    const reopen = (): void => {
      this.open(key);
      this.reopenLater(key);
    };
    this.reopenTimer = this.clock.schedule(REOPEN_AFTER_MS, reopen, true);
  }
}
