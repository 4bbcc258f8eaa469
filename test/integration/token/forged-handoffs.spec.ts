import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { outcome } from '../../support/async.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import { subscriptionOf } from '../../support/subscriber-of.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(async () => {
  await here.clear();
  await here.admin.acl('DELUSER', 'forger');
});
afterAll(() => here.close());

/** A Redis user that may use all channels, and no keys. */
class Forger {
  readonly received: { readonly channel: string; readonly message: string }[] = [];
  private readonly listener: Redis;

  private constructor(
    private readonly client: Redis,
    private readonly onMessage: (channel: string, message: string) => void,
  ) {
    this.listener = client.duplicate();
    this.listener.on('pmessage', (_, channel: string, message: string) => {
      // It receives its own messages, too.
      if (message === '' || this.sent.has(message)) return;
      this.received.push({ channel, message });
      this.onMessage(channel, message);
    });
  }

  private readonly sent = new Set<string>();

  static async start(onMessage: (this: void, channel: string, message: string) => void = () => undefined) {
    await here.admin.acl('SETUSER', 'forger', 'reset', 'on', 'nopass', 'allchannels', '+@pubsub', '+@connection');
    const client = new Redis(here.server.url.replace('redis://', 'redis://forger:any@'), { enableReadyCheck: false });
    const forger = new Forger(client, onMessage);
    await forger.listener.psubscribe('*nestjs-redis-lock:*');
    return forger;
  }

  async channels(): Promise<readonly string[]> {
    return (await this.client.pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[];
  }

  async send(channel: string, message: string): Promise<void> {
    this.sent.add(message);
    await this.client.publish(channel, message);
  }

  close(): void {
    this.client.disconnect();
    this.listener.disconnect();
  }
}

/** Two instances that exchange the lock, so that each of them was handed it before. */
async function both(): Promise<readonly [LockService, LockService]> {
  const [one, other] = [here.instance(), here.instance()];
  for (const [holder, waiter] of [[one, other] as const, [other, one] as const]) {
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    await lock.release();
    await (await granted).release();
  }
  return [one, other];
}

const serverMicros = async (): Promise<number> => {
  // The client gives strings.
  const [seconds, micros] = (await here.admin.time()).map(Number);
  return seconds * 1e6 + micros;
};

const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');

/** Returns messages that name the attempt as the holder, in this format and in the one of the first release. */
function forgeries(channel: string, attempt: number, token: number, now: number): readonly string[] {
  const fields = `${token} 1 ${now} 8000`;
  const text = `${attempt} ${fields}`;
  const owner = `${channel.slice(channel.lastIndexOf(':') + 1)}:${attempt}`;
  return [
    text,
    `${text} ${sha1(text)}`,
    `${text} ${sha1(`${text} `)}`,
    `${text} ${'0'.repeat(40)}`,
    `${owner} ${fields}`,
  ];
}

describe('a user that may use the channels and not the keys', () => {
  it('makes no waiter a holder', async () => {
    const [holder, waiter] = await both();
    const forger = await Forger.start();
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    const waiting = outcome(granted);
    const [channels, now] = [await forger.channels(), await serverMicros()];
    expect(channels).toHaveLength(2);
    await here.clock.advance(1);
    const receivedAt = subscriptionOf(waiter)!.receivedAt;
    for (const channel of channels) {
      for (let attempt = 0; attempt < 60; attempt += 1) {
        for (const forgery of forgeries(channel, attempt, 9e15, now)) await forger.send(channel, forgery);
      }
    }
    await eventually('the messages have arrived', () => subscriptionOf(waiter)!.receivedAt > receivedAt);
    // A request behind them: all that the messages caused has been sent before.
    await waiter.inspect('goods:300');
    expect(waiting).toEqual({});
    lock.assertHeld();
    await lock.release();
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(next.fencingToken).toBeLessThanOrEqual(await serverMicros());
    await next.release();
    forger.close();
    expect(await here.leftovers()).toEqual([]);
  });

  it('changes nothing by repeating and altering each message that it receives', async () => {
    const random = randomFrom(14);
    const alter = (message: string): string => {
      const at = Math.floor(random() * message.length);
      return message.slice(0, at) + Math.floor(random() * 10) + message.slice(at + 1);
    };
    const [one, other] = await both();
    const sending: Promise<void>[] = [];
    const forger = await Forger.start((channel, message) => {
      const copies = [message, alter(message), alter(message), message.replace(/ \d+ /, ' 9000000000000000 ')];
      sending.push(...copies.map((copy) => forger.send(channel, copy)));
    });
    let inside = 0;
    let last = 0;
    const work = async (locks: LockService): Promise<void> => {
      for (let i = 0; i < 40; i += 1) {
        here.clock.jump(1);
        await locks.using('goods:300', { waitMs: 30_000 }, async ({ fencingToken }) => {
          expect((inside += 1)).toBe(1);
          expect(fencingToken).toBeGreaterThan(last);
          last = fencingToken;
          await new Promise((resolve) => setImmediate(resolve));
          inside -= 1;
        });
      }
    };
    await Promise.all([work(one), work(other)]);
    await Promise.all(sending);
    expect(forger.received.length).toBeGreaterThan(20);
    expect(last).toBeLessThanOrEqual(await serverMicros());
    forger.close();
    await eventually('nothing is left locked', async () => (await here.leftovers()).length === 0);
  });

  it.each([
    ['while the lease of that handoff runs', 1],
    ['when the lease of that handoff is over', 60_000],
  ])('grants nothing by repeating an old message as it was, %s', async (_, laterMs) => {
    const forger = await Forger.start();
    const [holder, waiter] = await both();
    await eventually('both handoffs are received', () => forger.received.length >= 2);
    const old = [...forger.received];
    await here.clock.advance(laterMs);
    /** Publishes all old messages again, and returns when all that they caused was sent. */
    const repeat = async (): Promise<void> => {
      const instances = [holder, waiter];
      const before = instances.map((each) => subscriptionOf(each)!.receivedAt);
      await here.clock.advance(1);
      for (const { channel, message } of old) await forger.send(channel, message);
      const haveArrived = (): boolean => instances.every((each, i) => subscriptionOf(each)!.receivedAt > before[i]);
      await eventually('the messages have arrived', haveArrived);
      for (const each of instances) await each.inspect('goods:300');
    };

    await repeat();
    expect(await here.leftovers()).toEqual([]);

    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    const waiting = outcome(granted);
    await repeat();
    expect(waiting).toEqual({});
    expect(await holder.inspect('goods:300')).toMatchObject({ fencingToken: lock.fencingToken });
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
    forger.close();
    expect(await here.leftovers()).toEqual([]);
  });

  it('causes no request by repeating a message after the lease of its handoff', async () => {
    const { proxy, log } = await here.way();
    const [holder, waiter] = [here.instance(), here.instance({ redis: proxy.url })];
    const forger = await Forger.start();
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    await lock.release();
    await (await granted).release();
    await eventually('the message is received', () => forger.received.length > 0);
    const [{ channel, message }] = forger.received;
    const requestsAfter = async (laterMs: number): Promise<number> => {
      await here.clock.advance(laterMs);
      log.clear();
      const receivedAt = subscriptionOf(waiter)!.receivedAt;
      await forger.send(channel, message);
      await eventually('the message has arrived', () => subscriptionOf(waiter)!.receivedAt > receivedAt);
      await waiter.inspect('goods:300');
      return log.count('tokenRelease');
    };
    expect(await requestsAfter(1)).toBe(1);
    expect(await requestsAfter(60_000)).toBe(0);
    forger.close();
  });

  it.each(['repeats', 'forges'])('does not open a lock that stays closed after its loss if it %s', async (how) => {
    const forger = await Forger.start();
    const [one, other] = [here.instance(), here.instance({ lockDelayMs: 20_000 })];
    const first = await one.acquire('goods:300');
    const { granted } = await here.enqueue(() => other.acquire('goods:300', { maxHoldMs: 200 }));
    await first.release();
    const lost = await granted;
    await eventually('the message is received', () => forger.received.length > 0);
    await here.clock.advanceUntil('the lock is lost', () => lost.signal.aborted);
    const [{ channel, message }] = forger.received;
    const receivedAt = subscriptionOf(other)!.receivedAt;
    await forger.send(channel, how === 'repeats' ? message : `${'0'.repeat(40)}${message.slice(40)}`);
    await eventually('the message has arrived', () => subscriptionOf(other)!.receivedAt > receivedAt);
    await other.inspect('goods:300');
    expect(await here.admin.pttl(here.key)).toBeGreaterThan(10_000);
    forger.close();
  });

  it('does not learn the secret of an instance from its messages', async () => {
    const forger = await Forger.start();
    const [one, other] = [here.instance(), here.instance()];
    const lock = await one.acquire('goods:300');
    const { granted } = await here.enqueue(() => other.acquire('goods:300'));
    const [entry] = await here.admin.zrange(`${here.key}|queue`, 0, '-1');
    const [, secret] = entry.split('/');
    expect(secret).toMatch(/^[\w-]{16}$/);
    await lock.release();
    await (await granted).release();
    await eventually('the message is received', () => forger.received.length > 0);
    expect(forger.received.filter(({ message }) => message.includes(secret))).toEqual([]);
    forger.close();
  });
});

describe('a user that may use the channels and read the keys', () => {
  it('forges a handoff, which the first renewal of the deceived waiter finds out', async () => {
    const [holder, waiter] = await both();
    const forger = await Forger.start();
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    // A queue entry is the owner, `<instance>:<attempt>`, and the secret of its instance.
    const [entry] = await here.admin.zrange(`${here.key}|queue`, 0, '-1');
    const [, instance, attempt, secret] = /^(.*):(\d+)\/(\S+)/.exec(entry) ?? [];
    const text = `${attempt} 9000000000000000 1 ${await serverMicros()} 8000  ${here.key}`;
    const channel = (await forger.channels()).find((each) => each.endsWith(`:${instance}`));
    await forger.send(String(channel), `${sha1(`${text} ${secret}`)} ${text}`);
    const deceived = await granted;
    expect(deceived.fencingToken).toBe(9e15);
    await eventually('it is lost', () => deceived.signal.aborted);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    forger.close();
  });

  it('changes nothing if it has no command that writes or publishes', async () => {
    const lock = await here.instance().acquire('goods:300');
    await here.admin.acl('SETUSER', 'forger', 'reset', 'on', 'nopass', '~*', '+@read', '+@connection', '+eval');
    const url = here.server.url.replace('redis://', 'redis://forger:any@');
    const reader = new Redis(url, { enableReadyCheck: false });
    expect(await reader.get(here.key)).toContain(':');
    const writes: (() => Promise<unknown>)[] = [
      () => reader.set(here.key, 'mine'),
      () => reader.del(here.key),
      () => reader.pexpire(here.key, 1),
      () => reader.eval("return redis.call('DEL', KEYS[1])", 1, here.key),
      () => reader.publish('any', `forced ${here.key}`),
    ];
    for (const write of writes) await expect(write()).rejects.toThrow(/NOPERM|can't run this command/);
    lock.assertHeld();
    reader.disconnect();
  });
});

describe('a user that may write the keys', () => {
  it('takes a lock from its holder, whose next renewal finds out, and keeps all others out', async () => {
    const lock = await here.instance().acquire('goods:300');
    await here.admin.set(here.key, 'mine');
    lock.assertHeld();
    await expect(lock.extend(30_000)).rejects.toThrow('its key is gone or belongs to someone else');
    expect(lock.signal.aborted).toBe(true);
    expect(await here.instance().tryAcquire('goods:300')).toBeNull();
    expect(await here.admin.get(here.key)).toBe('mine');
    await here.admin.del(here.key);
  });
});

describe('the channels', () => {
  it('begin with the prefix, so that an ACL keeps tenants apart', async () => {
    const prefix = here.prefix;
    const rules = ['~*', 'resetchannels', `&${prefix}*`, '+@all'];
    await here.admin.acl('SETUSER', 'forger', 'reset', 'on', 'nopass', ...rules);
    const redis = here.server.url.replace('redis://', 'redis://forger:any@');
    const first = await here.holder();
    const { granted } = await here.enqueue(() => here.instance({ redis }).acquire('goods:300'));
    const channels = (await here.admin.pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[];
    expect(channels.filter((channel) => !channel.startsWith(prefix))).toEqual([]);
    await first.release();
    await (await granted).release();
    expect(here.warnings).toEqual([]);
  });
});
