import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { RedisServer } from '../../redis/index.js';
import { keyOf } from '../workload/key.js';

const PATTERN = '*nestjs-redis-lock:*';
const USER = 'forger';
const EVERY_MS = 10;
const MESSAGES = 60;
const REMEMBERED = 500;
/** How far the next attempts of an instance may be from those that were seen. */
const GUESSED = 200;
/** Exclusive, shared, and one of three permits. */
const MODES = ['-', '*', '3'] as const;

interface Received {
  readonly channel: string;
  readonly words: readonly string[];
}

/**
 * A Redis user that may use the channels, and no key. It repeats, changes and invents messages to all instances. A
 * message is an owner, `<instance>:<attempt>`, its mode and the key.
 */
export class Forger {
  private readonly received: Received[] = [];
  private channels: readonly string[] = [];
  private timer: NodeJS.Timeout | undefined;
  sent = 0;

  private constructor(
    private readonly listener: Redis,
    private readonly sender: Redis,
    private readonly random: () => number,
  ) {}

  static async start(server: RedisServer, admin: Redis, random: () => number): Promise<Forger> {
    const password = randomBytes(16).toString('hex');
    const rules = ['on', `>${password}`, 'resetkeys', 'allchannels', '-@all'];
    const commands = ['+publish', '+psubscribe', '+pubsub', '+ping', '+hello', '+client'];
    await admin.call('ACL', 'SETUSER', USER, 'reset', ...rules, ...commands);
    const open = (): Redis =>
      new Redis(server.port, '127.0.0.1', { username: USER, password, protocol: 2, enableReadyCheck: false });
    const forger = new Forger(open(), open(), random);
    await forger.listen();
    return forger;
  }

  /** Begins to publish. */
  begin(): void {
    this.timer = setInterval(() => this.publish(), EVERY_MS);
  }

  stop(): void {
    clearInterval(this.timer);
    this.listener.disconnect();
    this.sender.disconnect();
  }

  private async listen(): Promise<void> {
    this.listener
      .on('error', () => undefined)
      .on('pmessage', (_, channel, message) => this.onMessage(channel, message));
    this.sender.on('error', () => undefined);
    await this.listener.psubscribe(PATTERN);
    this.channels = (await this.sender.call('PUBSUB', 'CHANNELS', PATTERN)) as string[];
  }

  private onMessage(channel: string, message: string): void {
    // Its own messages come back, too.
    if (this.timer !== undefined || message === '') return;
    this.received.push({ channel, words: message.split(' ') });
    if (this.received.length > REMEMBERED) this.received.shift();
  }

  private publish(): void {
    const pipeline = this.sender.pipeline();
    for (let i = 0; i < MESSAGES; i += 1) {
      const { channel, words } = this.next();
      pipeline.publish(channel, words.join(' '));
    }
    this.sent += MESSAGES;
    pipeline.exec().catch(() => undefined);
  }

  private next(): Received {
    const kind = this.random();
    if (kind < 0.25 || this.received.length === 0) return this.invented();
    const received = this.oneOf(this.received);
    if (kind < 0.6) return this.continued(received);
    if (kind < 0.8) return { ...received, words: this.mutated(received.words) };
    return kind < 0.9 ? received : { ...received, channel: this.oneOf(this.channels) };
  }

  /** A message to an owner of that instance which comes after the one that was seen. */
  private continued({ channel, words: [owner, ...rest] }: Received): Received {
    const [instance, attempt] = owner.split(':');
    const later = Number(attempt) + Math.floor(this.random() * GUESSED);
    return { channel, words: [`${instance}:${later}`, ...rest] };
  }

  /** A message to any owner of an instance whose channel is known, about the lock that it waits for or another one. */
  private invented(): Received {
    const channel = this.oneOf(this.channels);
    const instance = channel.slice(channel.lastIndexOf(':') + 1).replace(/^v2-/, '');
    const number = String(Math.floor(this.random() * GUESSED));
    const owner = this.random() < 0.8 ? `${instance}:${number}` : number;
    return { channel, words: [owner, this.oneOf(MODES), this.random() < 0.8 ? keyOf() : 'any:key'] };
  }

  private mutated(words: readonly string[]): readonly string[] {
    const place = Math.floor(this.random() * words.length);
    const odd = ['', '0', '-1', 'NaN', '1e999', String(2 ** 53), '\u0000', ' ', this.oneOf(words), '9'.repeat(400)];
    const another = this.oneOf(odd);
    if (this.random() < 0.2) return words.slice(0, place);
    return words.map((word, i) => (i === place ? another : word));
  }

  private oneOf<T>(all: readonly T[]): T {
    return all[Math.floor(this.random() * all.length)];
  }
}
