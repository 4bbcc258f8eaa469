import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';

let server: RedisServer;
let admin: Redis;
let running: RedisLocks;

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
beforeEach(() => {
  running = new RedisLocks();
});
afterEach(() => running.close());
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

const start = (options: RedisLockModuleOptions = {}): LockService => running.start({ redis: server.url, ...options });

describe('a prefix', () => {
  const stores: [name: string, RedisLockModuleOptions['store']][] = [
    ['token()', undefined],
    ['redisson()', redisson()],
    ['timestamp()', timestamp()],
  ];

  it.each(stores)('keeps the locks of applications apart: %s', async (_name, store) => {
    const { prefix } = running;
    const prefixes = [`shop:${prefix}`, `billing:${prefix}`, prefix];
    const [shop, billing, neither] = prefixes.map((each) => start({ store, prefix: each }));
    const held = await Promise.all([shop, billing, neither].map((locks) => locks.acquire('goods:300')));
    expect(held.map(({ key }) => key)).toEqual(prefixes.map((each) => `{${each}goods}:300`));
    expect(await start({ store, prefix: `shop:${prefix}` }).tryAcquire('goods:300')).toBeNull();
    const listed: string[] = [];
    for await (const { key } of shop.list()) listed.push(key);
    expect(listed).toEqual([held[0].key]);
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('is the start of every key and channel, so that an ACL can keep tenants apart', async () => {
    const prefix = `shop:${running.prefix}`;
    const keys = [`~{${prefix}*`, `&${prefix}nestjs-redis-lock:*`];
    await admin.call('ACL', 'SETUSER', 'shop', 'on', '>secret', 'resetchannels', ...keys, '+@all');
    const { hostname, port } = new URL(server.url);
    const redis = `redis://shop:secret@${hostname}:${port}`;
    const [one, two] = [start({ redis, prefix }), start({ redis, prefix })];
    const lock = await one.acquire('goods:300');
    const waiting = two.acquire('goods:300', { waitMs: 20_000 });
    await eventually('the other is queued', async () => (await two.inspect('goods:300'))?.waiting.length === 1);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await admin.keys(`*${prefix}*fence`)).toEqual([`{${prefix}}|fence`]);
    await next.release();
    await expect(start({ redis }).acquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(running.warnings.filter((line) => line.includes('cannot be received'))).toEqual([]);
  });
});
