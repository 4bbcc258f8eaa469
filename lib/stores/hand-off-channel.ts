import { type Clock, inTime, type Timer } from '../core/clock.js';
import { luaScripts } from '../lua/index.js';
import type { RedisSubscriber } from './redis-client.js';
import type { RedisConnection } from './redis-connection.js';
import { unavailableBecause } from './redis-errors.js';
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

/** A connection on which nothing was heard for this long is asked whether it is still there. */
const SILENCE_MS = 3_000;

const ECHO = '';

const echoScript = new RedisScript(luaScripts.listenEcho, Number);

/**
 * One subscription, to the channel on which one module instance is told of the locks that are handed to it. It is opened
 * when it is needed first, opened again when it was lost, and it counts as confirmed only when an echo, sent over the
 * connection that asks for locks, was heard on it: then both lead to the same server, and nothing on the way refuses it.
 */
export class HandOffChannel {
  private readonly channel: string;
  private subscriber: RedisSubscriber | undefined;
  private state: 'unopened' | 'pending' | 'confirmed' | 'closed' = 'unopened';
  private heardAt = 0;
  private pinging = false;
  private retry: Timer | undefined;

  constructor(
    instanceId: string,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly patienceMs: number,
    private readonly listener: HandOffListener,
  ) {
    this.channel = CHANNEL_PREFIX + instanceId;
  }

  /** Whether hand-offs are heard, as far as is known. */
  get confirmed(): boolean {
    return this.state === 'confirmed';
  }

  /** Opens the subscription, in the background, unless that was done already. */
  open(connect: () => RedisSubscriber | undefined): void {
    if (this.state !== 'unopened') return;
    this.state = 'pending';
    const subscriber = connect();
    if (subscriber === undefined) return this.listener.refused('the client that was given cannot be duplicated');
    this.subscriber = subscriber;
    subscriber.on('error', () => undefined);
    subscriber.on('ready', () => void this.subscribe(subscriber));
    subscriber.on('close', () => this.lost());
    subscriber.on('message', (_, message) => this.heard(message));
    subscriber.connect().catch(() => undefined);
  }

  /** Makes sure, in the background, that a connection which has been silent for long is still there. */
  check(): void {
    const { subscriber, clock, patienceMs } = this;
    if (!this.confirmed || subscriber === undefined || this.pinging) return;
    if (clock.now() - this.heardAt < SILENCE_MS) return;
    this.pinging = true;
    const answered = subscriber.ping().then(() => (this.heardAt = clock.now()));
    const late = (): never => {
      throw new Error('no answer');
    };
    const giveUp = (): void => {
      if (this.confirmed) subscriber.disconnect(true);
    };
    inTime(clock, patienceMs, answered, late)
      .catch(giveUp)
      .finally(() => (this.pinging = false));
  }

  close(): void {
    this.state = 'closed';
    this.retry?.cancel();
    this.subscriber?.disconnect();
  }

  /** Subscribes and sends the echo, again and again until it is heard or refused, or until the connection ends. */
  private async subscribe(subscriber: RedisSubscriber): Promise<void> {
    if (subscriber.status !== 'ready' || this.state === 'closed') return;
    this.state = 'pending';
    this.retry?.cancel();
    this.retry = this.clock.schedule(this.patienceMs, () => void this.subscribe(subscriber), true);
    try {
      await subscriber.subscribe(this.channel);
      await echoScript.run(this.connection, [], [this.channel]);
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      if (!permanent) return;
      this.retry?.cancel();
      this.listener.refused(message);
    }
  }

  private lost(): void {
    this.retry?.cancel();
    if (this.state === 'confirmed') this.state = 'pending';
  }

  private heard(message: string): void {
    this.heardAt = this.clock.now();
    if (message !== ECHO) return this.listener.handedOver(decode(message));
    if (this.state !== 'pending') return;
    this.state = 'confirmed';
    this.retry?.cancel();
    this.listener.listening();
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
