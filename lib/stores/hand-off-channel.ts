import { AsyncResource } from 'node:async_hooks';
import { type Clock, inTime, type Timer } from '../core/clock.js';
import { helperKey } from '../core/resource-key.js';
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

/** A lost subscription is not opened anew at once where its client gives up. */
const REOPEN_AFTER_MS = 10_000;

const LONGEST_DOUBT_MS = 30_000;

const echoScript = new RedisScript(luaScripts.listenEcho, Number);

type State =
  | 'unopened'
  /** Connecting, or between two connections. */
  | 'connecting'
  /** Subscribing, and waiting for the echo. */
  | 'proving'
  | 'confirmed'
  /** The server does not allow it. */
  | 'refused';

/**
 * One subscription, to the channel on which one module instance is told of the locks that are handed to it. It is opened
 * when it is needed first, opened again when it was lost, and it counts as confirmed only when an echo, sent over the
 * connection that asks for locks, was heard on it: then both lead to the same server, and nothing on the way refuses it.
 */
export class HandOffChannel {
  private readonly channel: string;
  /** Its socket and timers belong to no caller. */
  private readonly outside = new AsyncResource('nestjs-redis-lock');
  private subscriber: RedisSubscriber | undefined;
  private state: State = 'unopened';
  private heardAt = 0;
  private pinging = false;
  /** Goes off where the echo is not heard. */
  private doubt: Timer | undefined;
  private doubts = 0;
  private mayOpenAt = -Infinity;

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

  /**
   * Opens the subscription, in the background, unless that was done already.
   *
   * @param key a lock's, under which it is tried whether the server allows a queue.
   */
  open(connect: () => RedisSubscriber | undefined, key: string): void {
    if (this.state !== 'unopened' || this.clock.now() < this.mayOpenAt) return;
    this.state = 'connecting';
    this.outside.runInAsyncScope(() => {
      const subscriber = connect();
      if (subscriber === undefined) this.listener.refused('the client that was given cannot be duplicated');
      else this.watch(subscriber, key);
    });
  }

  /** Makes sure, in the background, that a connection which has been silent for long is still there. */
  check(): void {
    const { subscriber, clock, patienceMs } = this;
    if (!this.confirmed || subscriber === undefined || this.pinging) return;
    if (clock.now() - this.heardAt < SILENCE_MS) return;
    this.pinging = true;
    const answered = (): void => {
      this.heardAt = clock.now();
    };
    const late = (): void => {
      if (this.confirmed) subscriber.disconnect(true);
    };
    // A refusal is an answer, too.
    inTime(clock, patienceMs, subscriber.ping().then(answered, answered), late)
      .catch(() => undefined)
      .finally(() => (this.pinging = false));
  }

  /** The connection that asks for locks has ended, and the next one may lead to another server: so must this one. */
  reconnect(): void {
    if (this.state !== 'unopened' && this.state !== 'connecting') this.subscriber?.disconnect(true);
  }

  /** Ends the subscription; it is opened again when it is needed. */
  close(): void {
    this.doubt?.cancel();
    this.state = 'unopened';
    this.subscriber?.disconnect();
    this.subscriber = undefined;
  }

  private watch(subscriber: RedisSubscriber, key: string): void {
    this.subscriber = subscriber;
    const ours = (then: () => void) => (): void => {
      if (this.subscriber === subscriber) then();
    };
    subscriber.on('error', () => undefined);
    subscriber.on(
      'ready',
      ours(() => void this.prove(subscriber, key)),
    );
    subscriber.on(
      'close',
      ours(() => this.lost()),
    );
    subscriber.on(
      'end',
      ours(() => this.givenUp()),
    );
    subscriber.on('message', (_, message) => this.heard(message));
    subscriber.connect().catch(() => undefined);
  }

  /** Subscribes and sends the echo. */
  private async prove(subscriber: RedisSubscriber, key: string): Promise<void> {
    this.state = 'proving';
    this.doubt?.cancel();
    const delayMs = Math.min(this.patienceMs * 2 ** this.doubts, LONGEST_DOUBT_MS);
    this.doubt = this.clock.schedule(delayMs, () => this.unheard(subscriber), true);
    try {
      await subscriber.subscribe(this.channel);
      await echoScript.run(this.connection, [helperKey(key, 'queue')], [this.channel]);
    } catch (error) {
      const { permanent, message } = unavailableBecause(error, 'pub/sub');
      // Anything else comes to an end by itself: the connection's, or the doubt's.
      if (!permanent || this.state !== 'proving') return;
      this.doubt.cancel();
      this.state = 'refused';
      this.listener.refused(message);
    }
  }

  private unheard(subscriber: RedisSubscriber): void {
    this.doubts += 1;
    // While there is no connection to send the echo over, nothing can be said.
    if (this.connection.ready)
      this.listener.refused('an echo was not heard: its connection may lead to another server');
    subscriber.disconnect(true);
  }

  private lost(): void {
    this.doubt?.cancel();
    this.state = 'connecting';
  }

  private givenUp(): void {
    this.close();
    this.mayOpenAt = this.clock.now() + REOPEN_AFTER_MS;
    this.listener.refused('its connection has ended, and its retryStrategy makes no other one');
  }

  private heard(message: string): void {
    this.heardAt = this.clock.now();
    if (message !== ECHO) return this.listener.handedOver(decode(message));
    if (this.state !== 'proving') return;
    this.doubt?.cancel();
    this.doubts = 0;
    this.state = 'confirmed';
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
