import type { Clock } from '../../../core/time/clock.js';
import type { KeyFilter, LockMode } from '../../../core/store/lock-store.js';
import { helperKey } from '../../../core/keys/resource-key.js';
import { scripts } from '../scripts.js';
import { VerifiedSubscriber, type SubscriberListener } from '../../../redis/pubsub/verified-subscriber.js';
import type { RedisSubscriber } from '../../../redis/redis-client.js';
import type { RedisConnection } from '../../../redis/redis-connection.js';
import { RedisScript } from '../../../redis/redis-script.js';
import { decodeEntry } from '../queue-entry.js';

/** The message that a script publishes when it hands off a lock (`scripts/includes/hand-off.lua`). */
export interface HandoffMessage {
  readonly owner: string;
  readonly mode: LockMode;
  readonly token: number;
  readonly tokens: number;
  /** Server time in µs. 0: the lock was not granted, and the instance repeats its request. */
  readonly grantedAt: number;
  readonly leaseMs: number;
}

/** Receives the handoffs of an instance. */
export interface HandoffListener {
  /** @param from the connection to the server whose clock `grantedAt` is measured by. */
  onHandoff(message: HandoffMessage, from: RedisConnection): void;
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
  /** Ends the subscriptions. */
  close(): void;
}

/** The same prefix stands in the scripts. */
export const CHANNEL_PREFIX = 'nestjs-redis-lock:';

/**
 * Publishes a probe, and tries the commands that a queue needs. Returns how many subscribers the server has counted.
 */
export const probeScript = new RedisScript(scripts.probeSubscription, Number);

/** The channel of one module instance on a single server. */
export class HandoffChannel implements HandoffChannels, SubscriberListener {
  private readonly channel: string;
  /** @internal Public for tests. */
  readonly subscriber: VerifiedSubscriber;

  constructor(
    instanceId: string,
    private readonly connection: RedisConnection,
    clock: Clock,
    requestTimeoutMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    private readonly listener: HandoffListener,
  ) {
    this.channel = CHANNEL_PREFIX + instanceId;
    this.subscriber = new VerifiedSubscriber(this.channel, connection, clock, requestTimeoutMs, this);
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

  /** Called after the connection for commands was lost. */
  reconnect(): void {
    this.subscriber.reconnect();
  }

  close(): void {
    this.subscriber.close();
  }

  onReady(): void {
    this.listener.onSubscribed();
  }

  onLost(): void {
    // Waiters repeat their acquire requests by themselves.
  }

  onMessage(_channel: string, message: string): void {
    this.listener.onHandoff(decodeHandoff(message), this.connection);
  }

  onRefused(why: string): void {
    this.listener.onRefused(why);
  }
}

/** Decodes `<owner> <token> <tokens> <grantedAt> <leaseMs> [<mode>]`. */
export function decodeHandoff(message: string): HandoffMessage {
  const [owner, token, tokens, grantedAt, leaseMs, ...mode] = message.split(' ');
  return {
    ...decodeEntry([owner, ...mode].join(' ')),
    token: Number(token),
    tokens: Number(tokens),
    grantedAt: Number(grantedAt),
    leaseMs: Number(leaseMs),
  };
}
