import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';

/** The longest that is allowed: a lock that is released sooner was released by a message. */
const KEEP_MS = 10_000;

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(async () => {
  await here.clear();
  await here.admin.acl('DELUSER', 'mute');
});
afterAll(() => here.close());

const isKept = async (): Promise<boolean> => (await here.admin.exists(here.key)) === 1;

const use = (locks: LockService): Promise<number> => locks.using('goods:300', ({ fencingToken }) => fencingToken);

/** Starts an instance that keeps its locks, and waits until it receives messages and has tokens to reserve. */
async function keeper(options: RedisLockModuleOptions = {}): Promise<LockService> {
  const locks = here.instance({ keepMs: KEEP_MS, ...options });
  await eventually('a lock is kept', async () => {
    await use(locks);
    return isKept();
  });
  return locks;
}

/** Returns how often the server has run each command since the last reset. */
async function commands(): Promise<Readonly<Record<string, number>>> {
  const stats = await here.admin.info('commandstats');
  return Object.fromEntries([...stats.matchAll(/cmdstat_([\w|]+):calls=(\d+)/g)].map(([, name, n]) => [name, +n]));
}

describe('a lock that is kept', () => {
  it('costs at most 0.05 commands an acquisition, one after the other', async () => {
    const locks = await keeper();
    await here.admin.config('RESETSTAT');
    const tokens: number[] = [];
    for (let i = 0; i < 2_000; i += 1) tokens.push(await use(locks));
    const { config: _config, info: _info, 'config|resetstat': _reset, ...ours } = await commands();
    const sum = Object.values(ours).reduce((all, count) => all + count, 0);
    expect(ours.evalsha).toBeGreaterThan(0);
    // The calls of the scripts count, too.
    expect(sum / tokens.length).toBeLessThanOrEqual(0.05);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  });

  it('goes to another instance by a message, with the first request of that instance', async () => {
    const { proxy, log } = await here.way();
    const other = here.instance({ redis: proxy.url });
    // Its channel is open from now on, so that its next request joins the queue.
    const first = await here.holder();
    const { granted } = await here.enqueue(() => other.acquire('goods:300'));
    await first.release();
    await (await granted).release();
    const locks = await keeper();
    const before = await use(locks);
    log.clear();
    const lock = await other.acquire('goods:300');
    expect(lock.fencingToken).toBeGreaterThan(before);
    expect(log.count('tokenAcquire')).toBe(1);
    await lock.release();
    expect(await use(locks)).toBeGreaterThan(lock.fencingToken);
  });

  it.each([['goods:300'], [['goods:299', 'goods:300']]])('is released for tryAcquire(%j)', async (wanted) => {
    await keeper();
    const other = here.instance();
    expect(await other.tryAcquire(wanted as string)).toBeNull();
    await eventually('it is acquired', async () => (await other.tryAcquire(wanted as string)) !== null);
  });

  it.each([{ mode: 'shared' }, { permits: 3 }] as const)('is released for a request with %o', async (mode) => {
    await keeper();
    expect((await here.instance().acquire('goods:300', mode)).held).toBe(true);
  });

  it('has no longer lease than keepMs, held or kept', async () => {
    const locks = await keeper({ keepMs: 1_000 });
    expect(await here.admin.pttl(here.key)).toBeLessThanOrEqual(1_000);
    const lock = await locks.acquire('goods:300');
    expect(await here.admin.pttl(here.key)).toBeLessThanOrEqual(1_000);
    await lock.release();
    expect(await isKept()).toBe(true);
    await eventually('it is released', async () => !(await isKept()));
  });

  it('is released when its time is over, although no message arrives', async () => {
    const { proxy } = await here.way();
    await keeper({ redis: proxy.url, keepMs: 500 });
    proxy.hold('messages');
    expect((await here.instance().acquire('goods:300')).held).toBe(true);
  });

  it('is released at the shutdown', async () => {
    const locks = await keeper();
    await locks.engine.close(0);
    expect(await here.leftovers()).toEqual([]);
  });

  it('is released if the connection is lost, and not given to a caller meanwhile', async () => {
    const { proxy } = await here.way();
    const locks = await keeper({ redis: proxy.url });
    const before = await here.admin.get(here.key);
    proxy.reset();
    await eventually('the old lock is gone', async () => (await here.admin.get(here.key)) !== before);
    await use(locks);
  });

  it('is released by the keyPrefix of its client, too', async () => {
    const client = new Redis(here.server.url, { keyPrefix: 'shop:' });
    const locks = here.instance({ redis: client, keepMs: KEEP_MS });
    const kept = async (): Promise<boolean> => (await here.admin.exists(`shop:${here.key}`)) === 1;
    await eventually('a lock is kept', async () => {
      await use(locks);
      return kept();
    });
    const other = new Redis(here.server.url, { keyPrefix: 'shop:' });
    await here.instance({ redis: other }).using('goods:300', () => undefined);
    await here.clear();
    client.disconnect();
    other.disconnect();
  });
});

describe('a lock is not kept', () => {
  it('by an instance that receives no messages', async () => {
    await here.admin.acl('SETUSER', 'mute', 'reset', 'on', 'nopass', '~*', 'resetchannels', '+@all');
    const locks = here.instance({ redis: here.server.url.replace('redis://', 'redis://mute:any@'), keepMs: KEEP_MS });
    for (let i = 0; i < 20; i += 1) await use(locks);
    expect(await isKept()).toBe(false);
  });

  it('while another instance waits', async () => {
    const locks = await keeper();
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await lock.release();
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });
});

describe('the message that a lock is wanted', () => {
  it('is not published for a lock that is not kept', async () => {
    const lock = await here.holder();
    await here.admin.config('RESETSTAT');
    expect(await here.instance().tryAcquire('goods:300')).toBeNull();
    expect(await here.instance().tryAcquire(['goods:299', 'goods:300'])).toBeNull();
    expect((await commands()).publish).toBeUndefined();
    await lock.release();
  });

  it('is published by the first in the queue only', async () => {
    const locks = await keeper();
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await here.admin.config('RESETSTAT');
    for (let i = 0; i < 5; i += 1) expect(await here.instance().tryAcquire('goods:300')).toBeNull();
    // The first in the queue repeats its request about once a second.
    expect((await commands()).publish ?? 0).toBeLessThan(5);
    await lock.release();
    await (await granted).release();
  });

  it('ends a keeping if a stranger forges it, and no hold', async () => {
    const locks = await keeper();
    const channel = `${here.prefix}nestjs-redis-lock:v1-${locks.engine.instanceId}`;
    for (const text of ['wanted ', 'wanted', `wanted ${here.key} `, 'wanted {x', `wanted ${here.keyOf('goods:301')}`])
      await here.admin.publish(channel, text);
    await locks.inspect('goods:301');
    expect(await isKept()).toBe(true);
    await here.admin.publish(channel, `wanted ${here.key}`);
    await eventually('the lock is released', async () => !(await isKept()));
    const lock = await locks.acquire('goods:300');
    await here.admin.publish(channel, `wanted ${here.key}`);
    await locks.inspect('goods:301');
    lock.assertHeld();
    expect(await isKept()).toBe(true);
    await lock.release();
    expect(await isKept()).toBe(false);
  });
});
