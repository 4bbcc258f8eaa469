import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockTimeoutError } from 'nestjs-redis-lock';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { outcome } from '../../support/async.js';
import { eventually } from '../../support/redis-locks.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

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
    await first.release();
    const lock = await granted;
    await eventually('its full lease is there', () => lock.expiresInMs > 20_000);
    expect(log.lockRequests).toEqual(['tokenExtend']);
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
    expect(log.count('tokenAcquire')).toBe(0);
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
  it('keep the lock closed until minHoldMs, and then hand it off at once', async () => {
    const { proxy } = await here.way();
    const first = await here.holder({ redis: proxy.url, minHoldMs: 300 });
    const from = here.clock.now();
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const next = outcome(granted);
    await first.release();
    await here.clock.advance(299);
    expect(next).toEqual({});
    // The release arrives after the key has expired: the timer was late or the network slow.
    proxy.hold('requests');
    await here.clock.advance(50);
    expect(next).toEqual({});
    proxy.resume('requests');
    await granted;
    expect(here.clock.now() - from).toBe(349);
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
  it('is opened once for each instance before it queues, and closed with it', async () => {
    const { proxy, log } = await here.way();
    const holders = await Promise.all([1, 2, 3].map((id) => here.instance().acquire(`goods:${id}`)));
    const locks = here.instance({ redis: proxy.url });
    const waiting = [locks.acquire('goods:1')];
    await eventually('it queues', () => log.queueing.length === 1);
    waiting.push(...[2, 3].map((id) => locks.acquire(`goods:${id}`)));
    const queues = [1, 2, 3].map((id) => `${here.keyOf(`goods:${id}`)}|queue`);
    await eventually('all of them queue', async () => (await here.admin.exists(queues)) === 3);
    expect(log.names.filter((name) => name === 'subscribe')).toHaveLength(1);
    const { names } = log;
    expect(names.indexOf('subscribe')).toBeLessThan(names.indexOf('tokenProbeSubscription'));
    expect(names.slice(0, names.indexOf('tokenProbeSubscription'))).toContain('tokenAcquire');
    expect(log.queueing[0]).toBeGreaterThan(names.indexOf('tokenProbeSubscription'));
    await Promise.all(holders.map((holder) => holder.release()));
    await Promise.all(waiting);
    const channel = new RegExp(`:v1-${locks.engine.instanceId}$`);
    expect((await here.channels()).filter((name) => channel.test(name))).toHaveLength(1);
    await here.clock.until(locks.engine.close(0));
    await here.clear();
    expect(await here.subscribers()).toBe(0);
  });

  it('reconnects after its connection was killed, and receives handoffs again', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const locks = here.instance({ redis: proxy.url });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    // A hold that lasts for 25 ms subscribes its instance as well.
    await here.clock.advanceUntil('both are subscribed', async () => (await here.listening()) === 2);
    log.clear();
    await here.cutSubscribers();
    await eventually('it requests again, subscribed again', () => log.count('tokenAcquire') === 1);
    expect(log.names.indexOf('subscribe')).toBeLessThan(log.names.indexOf('tokenAcquire'));
    await first.release();
    await (await granted).release();
    expect(log.count('tokenAcquire')).toBe(1);
  });
});

describe('where pub/sub is refused', () => {
  /** URLs of clients that cannot receive handoffs, by the command that is refused. */
  const refusals: Record<string, () => Promise<string>> = {
    'by an ACL without channels': () => guest('resetchannels'),
    'by an ACL without SUBSCRIBE': () => guest('allchannels', '-subscribe'),
    'by an ACL without PUBLISH': () => guest('allchannels', '-publish'),
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
      await eventually(`the warning is logged in round ${round}`, () => here.warnings.length > 0);
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
    // Both instances subscribe: one holds the lock for long, and the other waits.
    const line = expect.stringContaining('handoffs cannot be received');
    expect(here.warnings).toEqual(here.warnings.length === 1 ? [line] : [line, line]);
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
