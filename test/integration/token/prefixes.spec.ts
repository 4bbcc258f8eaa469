import { describe, expect, it } from '@jest/globals';
import type { RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';
import { infosOf } from '../../support/listed.js';

const here = forTests(new Contention());

describe('a prefix', () => {
  const stores: [name: string, RedisLockModuleOptions['store']][] = [
    ['token()', undefined],
    ['redisson()', redisson()],
    ['timestamp()', timestamp()],
  ];

  it.each(stores)('keeps the locks of applications apart: %s', async (_name, store) => {
    const { prefix } = here;
    const prefixes = [`shop:${prefix}`, `billing:${prefix}`, prefix];
    const [shop, billing, neither] = prefixes.map((each) => here.instance({ store, prefix: each }));
    const held = await Promise.all([shop, billing, neither].map((locks) => locks.acquire('goods:300')));
    expect(held.map(({ key }) => key)).toEqual(prefixes.map((each) => `{${each}goods}:300`));
    expect(await here.instance({ store, prefix: `shop:${prefix}` }).tryAcquire('goods:300')).toBeNull();
    expect(await infosOf(shop.list())).toMatchObject([{ key: held[0].key }]);
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('is the start of every key and channel, so that an ACL can keep tenants apart', async () => {
    const prefix = `shop:${here.prefix}`;
    const keys = [`~{${prefix}*`, `&${prefix}nestjs-redis-lock:*`];
    const redis = await here.guest('resetkeys', 'resetchannels', ...keys, '+@all');
    const [one, two] = [here.instance({ redis, prefix }), here.instance({ redis, prefix })];
    const lock = await one.acquire('goods:300');
    const waiting = two.acquire('goods:300', { waitMs: 20_000 });
    await eventually('the other is queued', async () => (await two.inspect('goods:300'))?.waiting.length === 1);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await here.admin.keys(`*${prefix}*fence`)).toEqual([`{${prefix}}|fence`]);
    await next.release();
    await expect(here.instance({ redis }).acquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(here.warnings.filter((line) => line.includes('cannot be received'))).toEqual([]);
  });
});
