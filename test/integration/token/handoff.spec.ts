import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { channelEnd } from '../../../lib/stores/token/wire.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { outcome } from '../../support/async.js';
import { eventually } from '../../support/redis-locks.js';
import { entryOf } from '../../support/subscriber-of.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** An instance with one faulty connection for requests and another for messages, already subscribed. */
async function twoWays(options = {}) {
  const [asking, listening] = [await here.way(), await here.way()];
  const redis = here.client(asking.proxy.url, listening.proxy.url);
  const locks = here.instance({ redis, requestTimeoutMs: 5_000, ...options });
  const first = await here.holder();
  const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
  await first.release();
  await (await granted).release();
  return { locks, asking, listening };
}

/** Records the messages that are published to the instances, to send them again. */
async function overheard() {
  const messages: (() => Promise<unknown>)[] = [];
  const listener = here.admin.duplicate();
  await listener.psubscribe('*nestjs-redis-lock:*');
  listener.on('pmessage', (_, channel, message) => {
    if (message !== '') messages.push(() => here.admin.publish(channel, message));
  });
  return { messages, stop: () => listener.disconnect() };
}

const isHolder = async (locks: LockService): Promise<boolean> => (await here.holderId()) === locks.engine.instanceId;

describe('an uncontended lock', () => {
  it('costs one round trip to acquire and one to release', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('goods:300', () => undefined);
    log.clear();
    await locks.using('goods:300', () => undefined);
    expect(log.lockRequests).toEqual(['tokenAcquire', 'tokenRelease']);
  });

  it('costs the server four calls to acquire and three to release', async () => {
    const locks = here.instance();
    await locks.using('goods:300', () => undefined);
    await here.admin.config('RESETSTAT');
    for (let i = 0; i < 10; i += 1) {
      here.clock.jump(1);
      await locks.using('goods:300', () => undefined);
    }
    const stats = await here.admin.info('commandstats');
    const calls = [...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, name, count]) => [
      name,
      Number(count) / 10,
    ]);
    const { config: _config, ...ours } = Object.fromEntries(calls) as Record<string, number>;
    expect(ours).toEqual({ evalsha: 2, time: 1, exists: 2, set: 2, get: 1, del: 1 });
  });

  it('opens no subscriber connection, nor does a lock without waiters', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const other = await here.holder();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    await other.release();
    for (let i = 0; i < 10; i += 1) await locks.using('goods:300', () => undefined);
    expect(proxy.connectionCount).toBe(1);
    expect(await here.subscribers()).toBe(0);
  });
});

describe('a lock that others wait for', () => {
  it('is handed off from instance to instance in arrival order', async () => {
    const first = await here.holder();
    const order: number[] = [];
    const tokens = [first.fencingToken];
    const waiting: Promise<void>[] = [];
    for (const i of [1, 2, 3, 4]) {
      const locks = here.instance();
      const work = (lock: { fencingToken: number }): void => {
        order.push(i);
        tokens.push(lock.fencingToken);
      };
      const { granted } = await here.enqueue(() => locks.using('goods:300', work));
      waiting.push(granted);
    }
    await first.release();
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3, 4]);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    expect(await here.leftovers()).toEqual([]);
  });

  it('is handed off by a message, without polling', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const locks = here.instance({ redis: proxy.url });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    log.clear();
    const from = here.clock.now();
    await first.release();
    const lock = await granted;
    expect(here.clock.now()).toBe(from);
    expect(lock.expiresInMs).toBeGreaterThan(20_000);
    // The message grants nothing: the waiter asks again, and gets the full lease.
    expect(log.lockRequests).toEqual(['tokenAcquire']);
    log.clear();
    await lock.release();
    expect(log.lockRequests).toEqual(['tokenRelease']);
  });

  it('is passed locally among the callers of one instance', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const locks = here.instance({ redis: proxy.url });
    const tokens: number[] = [];
    const callers = [1, 2, 3, 4].map(() => () => locks.using('goods:300', (lock) => tokens.push(lock.fencingToken)));
    const { granted } = await here.enqueue(callers[0]);
    const others = callers.slice(1).map((call) => call());
    await here.clock.advance(1);
    log.clear();
    await first.release();
    await Promise.all([granted, ...others]);
    expect(log.count('tokenAcquire')).toBe(1);
    expect(log.count('tokenRelease')).toBe(1);
    expect(tokens).toEqual([0, 1, 2, 3].map((n) => tokens[0] + n));
    expect(await locks.using('goods:300', (lock) => lock.fencingToken)).toBeGreaterThan(tokens[3]);
  });

  it('goes to another instance after 16 local passes', async () => {
    const first = await here.holder();
    const [locks, other] = [here.instance({ passing: { maxLocalHoldMs: 60_000 } }), here.instance()];
    const order: string[] = [];
    const { granted } = await here.enqueue(() => locks.using('goods:300', () => order.push('here')));
    const more = Array.from({ length: 29 }, () => locks.using('goods:300', () => order.push('here')));
    const { granted: there } = await here.enqueue(() => other.using('goods:300', () => order.push('there')));
    await here.clock.advance(1);
    await first.release();
    await Promise.all([granted, there, ...more]);
    expect(order.indexOf('there')).toBe(17);
    expect(order).toHaveLength(31);
  });

  it('loses the queue entry of a caller that stops waiting', async () => {
    const first = await here.holder();
    const locks = here.instance();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { waitMs: 300 }));
    await expect(here.clock.until(granted)).rejects.toBeInstanceOf(LockTimeoutError);
    await here.queueOf(0);
    await first.release();
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('minHoldMs and maxHoldMs', () => {
  it('keep the lock closed until minHoldMs, and then the first waiter gets it at once', async () => {
    const first = await here.holder({ minHoldMs: 300 });
    const from = here.clock.now();
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const next = outcome(granted);
    await first.release();
    await here.clock.advance(299);
    expect(next).toEqual({});
    // It has learned when the lock ends, and asks soon after that.
    await here.clock.until(granted);
    expect(here.clock.now() - from).toBeGreaterThanOrEqual(300);
    expect(here.clock.now() - from).toBeLessThanOrEqual(312);
  });

  it('end a handed-off lock after maxHoldMs, and the next waiter gets it', async () => {
    const first = await here.holder();
    const [locks, other] = [here.instance({ maxHoldMs: 300, ttlMs: 1_000 }), here.instance()];
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    const { granted: next } = await here.enqueue(() => other.acquire('goods:300'));
    await first.release();
    const { signal } = await granted;
    await (await here.clock.until(next)).release();
    expect(String(signal.reason)).toContain('maxHoldMs (300) has elapsed');
  });
});

describe('the subscription', () => {
  it('is opened once for each instance when the first of its callers waits, and closed with it', async () => {
    const { proxy, log } = await here.way();
    const holders = await Promise.all([1, 2, 3].map((id) => here.instance().acquire(`goods:${id}`)));
    const locks = here.instance({ redis: proxy.url });
    const queueOf = (id: number): string => `${here.keyOf(`goods:${id}`)}|queue`;
    const waiting = [locks.acquire('goods:1')];
    await eventually('it queues', async () => (await here.admin.zcard(queueOf(1))) === 1);
    const requests = log.names.filter((name) => name === 'subscribe' || name === 'tokenAcquire');
    // Only an instance that Redis counts as a subscriber gets a place.
    expect(requests).toEqual(['tokenAcquire', 'subscribe', 'tokenAcquire']);
    waiting.push(...[2, 3].map((id) => locks.acquire(`goods:${id}`)));
    await eventually('all of them queue', async () => (await here.admin.exists([1, 2, 3].map(queueOf))) === 3);
    expect(log.count('subscribe')).toBe(1);
    await Promise.all(holders.map((holder) => holder.release()));
    await Promise.all(waiting);
    const channel = `:${channelEnd(locks.engine.instanceId)}`;
    expect((await here.channels()).filter((name) => name.endsWith(channel))).toHaveLength(1);
    await here.clock.until(locks.engine.close(0));
    await here.clear();
    expect(await here.subscribers()).toBe(0);
  });

  it('reconnects after its connection was killed, and receives handoffs again', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const locks = here.instance({ redis: proxy.url });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    log.clear();
    await here.cutSubscribers();
    await eventually('it requests again, subscribed again', () => log.count('tokenAcquire') === 1);
    expect(log.names.indexOf('subscribe')).toBeLessThan(log.names.indexOf('tokenAcquire'));
    await first.release();
    await (await granted).release();
    // When it was woken.
    expect(log.count('tokenAcquire')).toBe(2);
  });
});

describe('where pub/sub is refused', () => {
  /** URLs of clients that cannot be woken, by the command that is refused. */
  const refusals: Record<string, () => Promise<string>> = {
    'by an ACL without channels': () => guest('resetchannels'),
    'by an ACL without SUBSCRIBE': () => guest('allchannels', '-subscribe'),
    'by an ACL without PUBSUB': () => guest('allchannels', '-pubsub'),
    'by a proxy that does not know SUBSCRIBE': async () => {
      const { proxy } = await here.way();
      proxy.refuseCommands(['SUBSCRIBE'], "ERR unknown command 'SUBSCRIBE'");
      return proxy.url;
    },
  };

  async function guest(...rules: string[]): Promise<string> {
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', '+@all', ...rules);
    return here.server.url.replace('redis://', 'redis://guest:any@');
  }

  it.each(Object.keys(refusals))('%s, waiters poll, and one line is logged', async (by) => {
    const redis = await refusals[by]();
    const [one, other] = [here.instance({ redis }), here.instance({ redis })];
    for (const round of [1, 2]) {
      const first = await one.acquire('goods:300');
      const waiting = other.acquire('goods:300');
      // Without PUBSUB, it is known when Redis does not count the subscriber twice.
      await here.clock.advanceUntil(`the warning is logged in round ${round}`, () => here.warnings.length > 0);
      expect(await here.queueLength()).toBe(0);
      await first.release();
      await (await here.clock.until(waiting)).release();
    }
    await here.cutSubscribers();
    const second = await one.acquire('goods:300');
    const waiting = other.acquire('goods:300');
    await eventually('the connection is back', async () => (await here.subscribers()) > 0);
    await second.release();
    await (await here.clock.until(waiting)).release();
    expect(here.warnings).toEqual([expect.stringContaining('messages cannot be received')]);
    expect(await here.leftovers()).toEqual([]);
  });

  it('by a client that cannot be duplicated, waiters poll as well', async () => {
    const client = new Redis(here.server.url);
    Reflect.set(client, 'duplicate', undefined);
    const bare = new Proxy(client, { has: (target, name) => name !== 'duplicate' && name in target });
    const first = await here.holder();
    const waiting = here.instance({ redis: bare }).acquire('goods:300');
    await eventually('the warning is logged', () => here.warnings.length === 1);
    await first.release();
    expect(await (await here.clock.until(waiting)).release()).toBe(true);
    await here.clear();
    client.disconnect();
  });
});

describe('a handoff that arrives before the reply of the request', () => {
  it('makes the owner ask again at once after the reply', async () => {
    const { locks, asking } = await twoWays();
    const first = await here.holder();
    asking.proxy.hold('replies');
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    const next = outcome(granted);
    const from = here.clock.now();
    await first.release();
    await eventually('it is handed off', () => isHolder(locks));
    await here.clock.advance(0);
    expect(next).toEqual({});
    asking.log.clear();
    asking.proxy.resume('replies');
    const lock = await granted;
    expect(here.clock.now()).toBe(from);
    expect(asking.log.lockRequests).toEqual(['tokenAcquire']);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    await locks.using('goods:300', () => undefined);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a handoff to a waiter that has left', () => {
  it('goes to the next waiter at once, and is ignored when it arrives', async () => {
    const { locks, listening } = await twoWays();
    const first = await here.holder();
    const abort = new AbortController();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { signal: abort.signal }));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    listening.proxy.hold('replies');
    await first.release();
    await eventually('it is handed off', () => isHolder(locks));
    abort.abort(new Error('gone home'));
    await expect(granted).rejects.toThrow('gone home');
    const lock = await next;
    listening.proxy.resume('replies');
    await locks.inspect('goods:300');
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('is never granted to a waiter that left while it was disconnected', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 20_000 });
    const first = await here.holder();
    const abort = new AbortController();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { signal: abort.signal }));
    await proxy.refuseConnections();
    proxy.reset();
    abort.abort(new Error('gone home'));
    await expect(granted).rejects.toThrow('gone home');
    await proxy.acceptConnections();
    await here.clock.advanceUntil('it leaves the queue', async () => (await here.queueLength()) === 0);
    await first.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('does not leave the lock without a holder if the release was late', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 100, ttlMs: 100 });
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { waitMs: 300 }));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await proxy.refuseConnections();
    proxy.reset();
    await expect(here.clock.until(granted)).rejects.toThrow('goods:300');
    // Longer than its lease: releases are no longer repeated.
    const { releaser } = locks.engine['parts'];
    await here.clock.advanceUntil('its releases are over', () => !releaser.isReleasing(here.key));
    await proxy.acceptConnections();
    await eventually('it is subscribed again', async () => (await here.listening()) === 2);
    const from = here.clock.now();
    await first.release();
    await next;
    expect(here.clock.now()).toBe(from);
  });

  it('is never granted to a waiter whose request was resent by EVAL', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 });
    const other = await here.instance().acquire('goods:1');
    const listening = locks.acquire('goods:1');
    await eventually(
      'it is subscribed',
      async () => (await here.admin.zcard(here.key.replace('300', '1|queue'))) === 1,
    );
    const first = await here.holder();
    await here.admin.script('FLUSH');
    log.clear();
    proxy.hold('replies');
    const abort = new AbortController();
    const leaving = locks.acquire('goods:300', { signal: abort.signal });
    leaving.catch(() => undefined);
    await eventually('the ask is sent by its digest', () => log.count('tokenAcquire') === 1);
    abort.abort(new Error('gone home'));
    await expect(leaving).rejects.toThrow('gone home');
    proxy.resume('replies');
    await other.release();
    await (await listening).release();
    // It may travel with the release of the other lock.
    const sent = (name: string): number =>
      [name, `${name}Many`].flatMap((each) => log.requestsOf(each)).filter((words) => words.includes(here.key)).length;
    await eventually('a release is sent behind the late reply', () => sent('tokenRelease') > 0);
    // By its digest, and then whole.
    expect(sent('tokenAcquire')).toBe(2);
    await here.queueOf(0);
    await first.release();
    expect(await here.leftovers()).toEqual([]);
  });
});

// A master that was behind takes over with a queue of the past.
describe('a handoff to an owner that is over', () => {
  it.each([
    ['in exclusive mode', '', {}],
    ['in shared mode', ' *', {}],
    ["with the client's keyPrefix", '', { keyPrefix: 'app:' }],
  ])('is given up at once %s', async (_, mode, client) => {
    const redis = { port: here.server.port, ...client };
    const queue = `${redis.keyPrefix ?? ''}${here.key}|queue`;
    const [locks, other] = [here.instance({ redis }), here.instance({ redis })];
    const hasEntries = (count: number): Promise<void> =>
      eventually(`${count} are in the queue`, async () => (await here.admin.zcard(queue)) === count);
    const first = await other.acquire('goods:300');
    const waiting = locks.acquire('goods:300');
    await hasEntries(1);
    await first.release();
    await (await waiting).release();
    for (let i = 0; i < 20; i += 1) await locks.using('goods:300', () => undefined);
    const second = await locks.acquire('goods:300');
    const granted = other.acquire('goods:300');
    await hasEntries(1);
    // The first 20 owners of this instance are over.
    for (let past = 1; past <= 20; past += 1)
      await here.admin.zadd(queue, past / 100, `${entryOf(locks, past)}${mode}`);
    const from = here.clock.now();
    await second.release();
    await (await here.clock.until(granted)).release();
    // Each would keep the lock for 250 ms or 1.2 s.
    expect(here.clock.now()).toBe(from);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a duplicate handoff message', () => {
  it('changes nothing during the hold, after it, and for the next attempt', async () => {
    const { locks } = await twoWays();
    const { messages, stop } = await overheard();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await granted;
    await eventually('the message is captured', () => messages.length === 1);
    const tellAgain = async (): Promise<void> => {
      expect(await messages[0]()).toBe(2);
      await locks.inspect('goods:300');
      await here.clock.advance(0);
    };
    await tellAgain();
    lock.assertHeld();
    expect(await isHolder(locks)).toBe(true);
    expect(await lock.release()).toBe(true);
    const second = await here.holder();
    await tellAgain();
    const { granted: again } = await here.enqueue(() => locks.acquire('goods:300'));
    await tellAgain();
    expect(await isHolder(locks)).toBe(false);
    expect(await here.queueLength()).toBe(1);
    second.assertHeld();
    expect(await second.release()).toBe(true);
    const last = await again;
    await tellAgain();
    last.assertHeld();
    expect(await isHolder(locks)).toBe(true);
    expect(await last.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
    stop();
  });

  it('makes an owner renew that a reply has granted the lock before it', async () => {
    const { locks, listening } = await twoWays();
    const { messages, stop } = await overheard();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    listening.proxy.hold('replies');
    await first.release();
    // It has repeated its request.
    const lock = await here.clock.until(granted);
    await eventually('the message is captured', () => messages.length === 1);
    listening.proxy.resume('replies');
    await here.clock.advance(0);
    lock.assertHeld();
    expect(await isHolder(locks)).toBe(true);
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    expect(await lock.release()).toBe(true);
    const second = await next;
    await eventually('it receives the message', async () => (await messages[0]()) === 2);
    await here.clock.advance(0);
    second.assertHeld();
    expect(await isHolder(locks)).toBe(false);
    expect(await second.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
    stop();
  });
});

describe('a forged message', () => {
  it('costs a waiter a request, and gives it nothing', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    const next = outcome(granted);
    const [channel] = await here.channels();
    const [entry] = await here.admin.zrange(`${here.key}|queue`, '0', '0');
    log.clear();
    await here.admin.publish(channel, `${entry.replace('v2-', '')} - ${here.key}`);
    await eventually('it asks', () => log.count('tokenAcquire') === 1);
    await here.clock.advance(0);
    expect(next).toEqual({});
    expect(await here.queueLength()).toBe(1);
    first.assertHeld();
    await first.release();
    await (await granted).release();
  });
});

describe('a forged message for a live owner and another key', () => {
  it.each([{ mode: 'shared' }, { permits: 1 }] as const)('does not end its share: %j', async (options) => {
    const locks = here.instance();
    await here.subscribe(locks, here.instance());
    const lock = await locks.acquire('report', options);
    const [key] = await here.admin.keys('*report}');
    const [entry] = await here.admin.zrange(`${key}|holders`, '0', '0');
    const [, owner, mode] = /^v2-(\S+) (.+)/.exec(entry) as RegExpExecArray;
    const [channel] = await here.channels();
    // Without its braces, the key would be another one with helper keys of its own.
    for (const other of [key.replaceAll(/[{}]/g, ''), `${key}|queue`, 'elsewhere'])
      expect(await here.admin.publish(channel, `${owner} ${mode} ${other}`)).toBe(1);
    await here.instance().inspect('report');
    await here.clock.advance(0);
    expect(await here.instance().tryAcquire('report')).toBeNull();
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a release whose reply was lost', () => {
  it('may run again without harm to the next holder and the queue', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 });
    const first = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const { granted: last } = await here.enqueue(() => here.instance().acquire('goods:300'));
    proxy.drop('replies');
    const released = first.release();
    released.catch(() => undefined);
    const lock = await granted;
    log.clear();
    proxy.resume('replies');
    proxy.reset();
    // The caller learns that there was no reply. The release is repeated without it.
    await expect(here.clock.until(released)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    await here.clock.advanceUntil('it is sent again', () => log.count('tokenRelease') > 0);
    lock.assertHeld();
    expect(await here.queueLength()).toBe(1);
    expect(await lock.release()).toBe(true);
    await (await last).release();
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a subscriber connection', () => {
  it('killed while waiters queue: each gets the lock, in queue order', async () => {
    const first = await here.holder();
    const order: number[] = [];
    const waiting: Promise<number>[] = [];
    for (const i of [1, 2, 3]) {
      const locks = here.instance();
      waiting.push((await here.enqueue(() => locks.using('goods:300', () => order.push(i)))).granted);
    }
    await here.cutSubscribers();
    await eventually('all of them are subscribed again', async () => (await here.subscribers()) === 3);
    await eventually('and count', async () => (await here.listening()) === 3);
    await first.release();
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3]);
  });

  it('half open: the waiter polls, finds its grant, and reconnects', async () => {
    const { locks, listening } = await twoWays({ requestTimeoutMs: 300, ttlMs: 1_000 });
    listening.proxy.hold('replies');
    const first = await here.holder({ ttlMs: 1_000 });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await here.clock.until(granted);
    lock.assertHeld();
    await lock.release();
    listening.log.clear();
    // Silent for so long that the subscription is pinged.
    await here.clock.advance(3_000);
    const second = await here.holder({ ttlMs: 1_000 });
    const { granted: again } = await here.enqueue(() => locks.acquire('goods:300'));
    await here.clock.advanceUntil('it connects again', () => listening.log.names.includes('client'));
    listening.proxy.resume('replies');
    await second.release();
    expect(await (await here.clock.until(again)).release()).toBe(true);
  });
});

describe('a server that forgets', () => {
  it('all data by FLUSHALL: three waiters get the lock in turn, tokens rise', async () => {
    await here.holder({ maxHoldMs: 600 });
    const tokens: number[] = [];
    let inside = 0;
    const waiting = [1, 2, 3].map(() => {
      const locks = here.instance();
      return locks.using('goods:300', async (lock) => {
        inside += 1;
        expect(inside).toBe(1);
        await locks.inspect('goods:300');
        tokens.push(lock.fencingToken);
        inside -= 1;
      });
    });
    await here.queueOf(3);
    await here.admin.flushall();
    await here.clock.until(Promise.all(waiting));
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    expect(tokens).toHaveLength(3);
  });

  it('its scripts by SCRIPT FLUSH: handoffs go on by message', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => here.instance({ redis: proxy.url }).acquire('goods:300'));
    const { granted: last } = await here.enqueue(() => here.instance().acquire('goods:300'));
    log.clear();
    await here.admin.script('FLUSH');
    const from = here.clock.now();
    await first.release();
    const lock = await granted;
    expect(here.clock.now()).toBe(from);
    // By its digest, and then whole.
    expect(log.lockRequests).toEqual(['tokenAcquire', 'tokenAcquire']);
    await here.admin.script('FLUSH');
    expect(await lock.release()).toBe(true);
    await (await last).release();
  });
});

describe('the first waiter without a subscription', () => {
  it('is skipped, and served once it has subscribed again', async () => {
    const { locks, listening } = await twoWays();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const isSubscribed = async (): Promise<boolean> =>
      (await here.channels()).some((name) => name.endsWith(`:${channelEnd(locks.engine.instanceId)}`));
    expect(await isSubscribed()).toBe(true);
    await listening.proxy.refuseConnections();
    listening.proxy.reset();
    await eventually('its subscription is gone', async () => !(await isSubscribed()));
    await first.release();
    const second = await next;
    await listening.proxy.acceptConnections();
    await here.queueOf(1);
    await second.release();
    await (await granted).release();
  });
});
