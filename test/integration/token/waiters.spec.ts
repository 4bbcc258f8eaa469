// Waiters that are gone. Those that are there and do nothing are in test/locks/waiting.spec.ts.
import { describe, expect, it } from '@jest/globals';
import type { LockOptions } from 'nestjs-redis-lock';
import { scripts } from '../../../lib/stores/token/scripts.js';
import { outcome } from '../../support/async.js';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

/** Many waiters that are gone must not keep the server busy: Redis runs one script at a time. */
const DEAD = 500;
/** How many of them one script removes. */
const MOST = 128;

const here = forTests(new Contention());

/** Puts ten of them before the waiter of a key. */
async function addBefore(key: string, mode: string): Promise<void> {
  const [waiter] = await here.admin.zrange(`${key}|queue`, '0', '0');
  await addDead(mode, key, 10);
  await here.admin.zadd(`${key}|queue`, '11', waiter);
}

/** Puts waiters into the queue whose instances have no subscriber. */
async function addDead(mode = '', key = here.key, count = DEAD): Promise<void> {
  const members = Array.from({ length: count }, (_, i) => [i + 1, `v2-gone-${i}:1${mode}`]);
  await here.admin.zadd(`${key}|queue`, ...members.flat());
}

/** The keys of a script for a lock. */
const keysOf = (key: string): string[] => [here.keyOf('fence'), key, `${key}|queue`, `${key}|holders`];

/** Releases a lock as an instance does that ends before it reads the reply. */
const release = (channels: string, entry: string): Promise<unknown> =>
  here.admin.eval(scripts.release.lua, 4, ...keysOf(here.key), '1200', channels, '0', entry, '0');

describe.each([
  ['waiters', ''],
  ['waiters for another number of permits', ' 7'],
])('many %s that are gone', (_which, mode) => {
  it('are removed by several scripts', async () => {
    await addDead(mode);
    for (let left = DEAD - MOST; left > -MOST; left -= MOST) {
      expect(await release('channel:', 'v2-api:1')).toBe(0);
      expect(await here.queueLength()).toBe(Math.max(0, left));
    }
  });

  it.each([20_000, 0, Infinity])('keep out no caller with waitMs: 0 and unavailableAfterMs: %d', async (limitMs) => {
    await addDead(mode);
    const locks = here.instance({ requestTimeoutMs: 20_000, unavailableAfterMs: limitMs });
    const lock = await locks.acquire('goods:300', { waitMs: 0 });
    expect(await lock.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });

  it('keep out no caller that does not wait if another one comes that waits', async () => {
    const locks = here.instance({ unavailableAfterMs: 20_000 });
    await here.subscribe(locks, here.instance());
    await addDead(mode);
    const first = locks.acquire('goods:300', { waitMs: 0 });
    const second = locks.acquire('goods:300');
    await (await first).release();
    expect(await (await second).release()).toBe(true);
  });

  it('delay no caller behind them if the instance that releases ends', async () => {
    const holder = await here.holder();
    await addDead(mode);
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const served = outcome(granted);
    const value = (await here.admin.get(here.key)) as string;
    const [channel] = await here.channels();
    expect(await release(channel.replace(/[^:]*$/, ''), value.slice(0, value.lastIndexOf(' ')))).toBe(1);
    // Its next request continues where the script has stopped.
    await eventually('it is served', () => Promise.resolve(served.value !== undefined));
    expect(await (await granted).release()).toBe(true);
    expect(await holder.release()).toBe(false);
  });

  it.each<[how: string, options: object]>([
    ['waits', {}],
    ['wants to read', { mode: 'shared' }],
    ['wants a permit', { permits: 3 }],
  ])('delay no caller behind them that %s', async (_how, options) => {
    const holder = await here.holder();
    await addDead(mode);
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300', options));
    await holder.release();
    const lock = await granted;
    expect(await lock.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });

  it('delay no caller behind them after a release by force', async () => {
    await here.holder();
    await addDead(mode);
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    expect(await here.instance().forceRelease('goods:300')).toBe(true);
    expect(await (await granted).release()).toBe(true);
  });

  it('of many locks delay no caller behind them if one call releases all', async () => {
    const resources = Array.from({ length: 60 }, (_, i) => `goods:${i}`);
    const [holder, waiter] = [here.instance(), here.instance()];
    await here.subscribe(holder, waiter);
    const locks = await Promise.all(resources.map((resource) => holder.acquire(resource)));
    const granted = resources.map((resource) => waiter.acquire(resource));
    const keys = resources.map((resource) => here.keyOf(resource));
    await eventually('all wait', async () => (await here.admin.exists(keys.map((key) => `${key}|queue`))) === 60);
    await Promise.all(keys.map((key) => addBefore(key, mode)));
    await Promise.all(locks.map((lock) => lock.release()));
    for (const lock of await Promise.all(granted)) expect(await lock.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });
});

it.each<[options: LockOptions, mode: string]>([
  [{ permits: 3 }, ' 3'],
  [{ mode: 'shared' }, ' *'],
])('waiters that are gone keep no caller from a lock that it may share: %j', async (options, mode) => {
  const holder = await here.instance().acquire('goods:300', options);
  await addDead(mode);
  const call = { ...options, waitMs: 0 };
  const patient = { unavailableAfterMs: 20_000 };
  const lock = await here.instance(patient).acquire('goods:300', call);
  const several = await here.instance(patient).acquire(['goods:300', 'goods:301'], call);
  expect([await lock.release(), await several.release(), await holder.release()]).toEqual([true, true, true]);
});
