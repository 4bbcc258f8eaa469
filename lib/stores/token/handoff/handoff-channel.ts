import type { Clock } from '../../../core/time/clock.js';
import type { KeyFilter, LockMode } from '../../../core/store/lock-store.js';
import { helperKey } from '../../../core/keys/resource-key.js';
import { scripts } from '../scripts.js';
import { VerifiedSubscriber, type SubscriberListener } from '../../../redis/pubsub/verified-subscriber.js';
import type { RedisSubscriber } from '../../../redis/redis-client.js';
import type { RedisConnection } from '../../../redis/redis-connection.js';
import { RedisScript } from '../../../redis/redis-script.js';
import { modeOf } from '../queue-entry.js';

/** What an instance hears on its channel. */
export interface HandoffMessage {
  readonly owner: string;
  readonly mode: LockMode;
  readonly token: number;
  readonly tokens: number;
  /** In µs of the server's clock. */
  readonly grantedAt: number;
  readonly leaseMs: number;
}

/** Who listens. */
export interface HandoffListener {
  /** @param from the connection to the server whose clock the message is dated by. */
  onHandoff(message: HandoffMessage, from: RedisConnection): void;
  /** From now on hand-offs are heard (again), of all keys or of these. */
  onSubscribed(concerns?: KeyFilter): void;
  /** Hand-offs cannot be heard, and why: something refused them. */
  onRefused(why: string): void;
}

/** How one module instance hears of the locks that are handed to it. */
export interface HandoffChannels {
  /** Whether hand-offs of this key by this server are heard, as far as is known; makes sure of it in the background. */
  hears(key: string, server: { readonly connection: RedisConnection }): boolean;
  /** Begins to listen for those of this key, in the background, unless that was done already. */
  open(key: string): void;
  /** Ends it; it is opened again when it is needed. */
  close(): void;
}

/** As in the scripts. */
export const CHANNEL_PREFIX = 'nestjs-redis-lock:';

export const probeScript = new RedisScript(scripts.probeSubscription, Number);

/** The channel on which one module instance is told of the locks that are handed to it, where there is one server. */
export class HandoffChannel implements HandoffChannels, SubscriberListener {
  private readonly channel: string;
  private readonly subscriber: VerifiedSubscriber;

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

  hears(): boolean {
    this.subscriber.check();
    return this.subscriber.linked;
  }

  open(key: string): void {
    // Under that key it is tried whether the server allows a queue.
    const queue = helperKey(key, 'queue');
    this.subscriber.open(this.connect, () => probeScript.run(this.connection, [queue], [this.channel]));
  }

  /** Goes where the connection that asks for locks goes next. */
  reconnect(): void {
    this.subscriber.reconnect();
  }

  close(): void {
    this.subscriber.close();
  }

  linked(): void {
    this.listener.onSubscribed();
  }

  lost(): void {
    // Whoever waits asks again by itself.
  }

  message(_channel: string, message: string): void {
    this.listener.onHandoff(decode(message), this.connection);
  }

  refused(why: string): void {
    this.listener.onRefused(why);
  }
}

/** Reads what the scripts publish. */
export function decode(message: string): HandoffMessage {
  const [owner, token, tokens, grantedAt, leaseMs, ...mode] = message.split(' ');
  return {
    owner,
    mode: modeOf([owner, ...mode].join(' ')),
    token: Number(token),
    tokens: Number(tokens),
    grantedAt: Number(grantedAt),
    leaseMs: Number(leaseMs),
  };
}
