import type { Clock } from '../../core/clock.js';
import type { KeyFilter, LockMode } from '../../core/lock-store.js';
import { helperKey } from '../../core/resource-key.js';
import { luaScripts } from '../../lua/index.js';
import { EchoedSubscriber, type SubscriberListener } from '../redis/echoed-subscriber.js';
import type { RedisSubscriber } from '../redis/redis-client.js';
import type { RedisConnection } from '../redis/redis-connection.js';
import { RedisScript } from '../redis/redis-script.js';
import { modeOf } from './claim.js';

/** What an instance hears on its channel. */
export interface HandOffMessage {
  readonly owner: string;
  readonly mode: LockMode;
  readonly token: number;
  readonly tokens: number;
  /** In µs of the server's clock. */
  readonly grantedAt: number;
  readonly leaseMs: number;
}

/** Who listens. */
export interface HandOffListener {
  /** @param from the connection to the server whose clock the message is dated by. */
  handedOver(message: HandOffMessage, from: RedisConnection): void;
  /** From now on hand-offs are heard (again), of all keys or of these. */
  listening(concerns?: KeyFilter): void;
  /** Hand-offs cannot be heard, and why: something refused them. */
  refused(why: string): void;
}

/** How one module instance hears of the locks that are handed to it. */
export interface HandOffs {
  /** Whether hand-offs of this key by this server are heard, as far as is known; makes sure of it in the background. */
  hears(key: string, server: { readonly connection: RedisConnection }): boolean;
  /** Begins to listen for those of this key, in the background, unless that was done already. */
  open(key: string): void;
  /** Ends it; it is opened again when it is needed. */
  close(): void;
}

/** As in the scripts. */
export const CHANNEL_PREFIX = 'nestjs-redis-lock:';

export const listenScript = new RedisScript(luaScripts.tokenListen, Number);

/** The channel on which one module instance is told of the locks that are handed to it, where there is one server. */
export class HandOffChannel implements HandOffs, SubscriberListener {
  private readonly channel: string;
  private readonly subscriber: EchoedSubscriber;

  constructor(
    instanceId: string,
    private readonly connection: RedisConnection,
    clock: Clock,
    patienceMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    private readonly listener: HandOffListener,
  ) {
    this.channel = CHANNEL_PREFIX + instanceId;
    this.subscriber = new EchoedSubscriber(this.channel, connection, clock, patienceMs, this);
  }

  hears(): boolean {
    this.subscriber.check();
    return this.subscriber.linked;
  }

  open(key: string): void {
    // Under that key it is tried whether the server allows a queue.
    const queue = helperKey(key, 'queue');
    this.subscriber.open(this.connect, () => listenScript.run(this.connection, [queue], [this.channel]));
  }

  /** Goes where the connection that asks for locks goes next. */
  reconnect(): void {
    this.subscriber.reconnect();
  }

  close(): void {
    this.subscriber.close();
  }

  linked(): void {
    this.listener.listening();
  }

  lost(): void {
    // Whoever waits asks again by itself.
  }

  message(_channel: string, message: string): void {
    this.listener.handedOver(decode(message), this.connection);
  }

  refused(why: string): void {
    this.listener.refused(why);
  }
}

/** Reads what the scripts publish. */
export function decode(message: string): HandOffMessage {
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
