import { describe, expect, it } from '@jest/globals';
import { channelEnd } from '../../../lib/stores/token/wire.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { eventually } from '../../support/redis-locks.js';
import { entryOf } from '../../support/subscriber-of.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

describe('an uncontended lock', () => {
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
  it('by a client that cannot be duplicated, waiters poll as well', async () => {
    const client = here.client();
    Reflect.set(client, 'duplicate', undefined);
    const bare = new Proxy(client, { has: (target, name) => name !== 'duplicate' && name in target });
    const first = await here.holder();
    const waiting = here.instance({ redis: bare }).acquire('goods:300');
    await eventually('the warning is logged', () => here.warnings.length === 1);
    await first.release();
    expect(await (await here.clock.until(waiting)).release()).toBe(true);
  });
});

// A master that was behind takes over with a queue of the past.
describe('a handoff to an owner that is over', () => {
  it.each([
    ['in exclusive mode', '', {}],
    ['in shared mode', ' *', {}],
    ["with the client's keyPrefix", '', { keyPrefix: 'app:' }],
  ])('is given up at once %s', async (_, mode, client) => {
    const redis = { host: '127.0.0.1', port: here.server.port, ...client };
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

describe('a subscriber connection', () => {
  it('half open: the waiter polls, finds its grant, and reconnects', async () => {
    const { proxy, log } = await here.way();
    const redis = here.twoWays(here.server.url, proxy.url);
    const locks = here.instance({ redis, requestTimeoutMs: 300, ttlMs: 1_000 });
    await here.subscribe(locks, here.instance());
    proxy.hold('replies');
    const first = await here.holder({ ttlMs: 1_000 });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await here.clock.until(granted);
    lock.assertHeld();
    await lock.release();
    log.clear();
    // Silent for so long that the subscription is pinged.
    await here.clock.advance(3_000);
    const second = await here.holder({ ttlMs: 1_000 });
    const { granted: again } = await here.enqueue(() => locks.acquire('goods:300'));
    await here.clock.advanceUntil('it connects again', () => log.names.includes('client'));
    proxy.resume('replies');
    await second.release();
    expect(await (await here.clock.until(again)).release()).toBe(true);
  });
});
