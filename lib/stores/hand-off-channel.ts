import type { Clock } from '../core/clock.js';
import { helperKey } from '../core/resource-key.js';
import { luaScripts } from '../lua/index.js';
import { EchoedSubscriber, type SubscriberListener } from './echoed-subscriber.js';
import type { RedisSubscriber } from './redis-client.js';
import type { RedisConnection } from './redis-connection.js';
import { RedisScript } from './redis-script.js';

/** What an instance hears on its channel. */
export interface HandOffMessage {
  readonly owner: string;
  readonly token: number;
  readonly tokens: number;
  /** In µs of the server's clock. */
  readonly grantedAt: number;
  readonly leaseMs: number;
}

/** Who listens. */
export interface HandOffListener {
  handedOver(message: HandOffMessage): void;
  /** From now on hand-offs are heard (again). */
  listening(): void;
  /** Hand-offs cannot be heard, and why: something refused them. */
  refused(why: string): void;
}

/** As in the scripts. */
const CHANNEL_PREFIX = 'nestjs-redis-lock:';

const echoScript = new RedisScript(luaScripts.tokenListen, Number);

/** The channel on which one module instance is told of the locks that are handed to it. */
export class HandOffChannel implements SubscriberListener {
  private readonly channel: string;
  private readonly subscriber: EchoedSubscriber;

  constructor(
    instanceId: string,
    private readonly connection: RedisConnection,
    clock: Clock,
    patienceMs: number,
    private readonly listener: HandOffListener,
  ) {
    this.channel = CHANNEL_PREFIX + instanceId;
    this.subscriber = new EchoedSubscriber(this.channel, connection, clock, patienceMs, this);
  }

  /** Whether hand-offs are heard, as far as is known. */
  get confirmed(): boolean {
    return this.subscriber.linked;
  }

  /**
   * Opens the subscription, in the background, unless that was done already.
   *
   * @param key a lock's, under which it is tried whether the server allows a queue.
   */
  open(connect: () => RedisSubscriber | undefined, key: string): void {
    const queue = helperKey(key, 'queue');
    this.subscriber.open(connect, () => echoScript.run(this.connection, [queue], [this.channel]));
  }

  /** Makes sure, in the background, that it still hears. */
  check(): void {
    this.subscriber.check();
  }

  /** Goes where the connection that asks for locks goes next. */
  reconnect(): void {
    this.subscriber.reconnect();
  }

  /** Ends the subscription; it is opened again when it is needed. */
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
    this.listener.handedOver(decode(message));
  }

  refused(why: string): void {
    this.listener.refused(why);
  }
}

function decode(message: string): HandOffMessage {
  const [owner, token, tokens, grantedAt, leaseMs] = message.split(' ');
  return {
    owner,
    token: Number(token),
    tokens: Number(tokens),
    grantedAt: Number(grantedAt),
    leaseMs: Number(leaseMs),
  };
}
