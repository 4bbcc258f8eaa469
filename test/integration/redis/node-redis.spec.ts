import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockConfigError, LockUnavailableError } from 'nestjs-redis-lock';
import { RedisFence } from 'nestjs-redis-lock/fence';
import { fromNodeRedis, type NodeRedisClient } from 'nestjs-redis-lock/node-redis';
import { createClient, createClientPool, createSentinel } from 'redis';
import { ioredis, NODE_REDIS, type OpenClient } from '../../support/client-libraries.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let server: RedisServer;
let admin: Redis;
let running: RedisLocks;
let opened: OpenClient[];

beforeEach(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url).on('error', () => undefined);
  running = new RedisLocks();
  opened = [];
});
afterEach(async () => {
  await running.close();
  for (const client of opened) client.disconnect();
  admin.disconnect();
  await server.stop();
});

const cutAll = (): Promise<unknown> => admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

async function names(): Promise<readonly string[]> {
  const clients = (await admin.client('LIST')) as string;
  return [...clients.matchAll(/ name=(nestjs-redis-lock\S*)/g)].map(([, name]) => name).toSorted();
}

describe.each([ioredis, ...NODE_REDIS])('locks by $name', (library) => {
  const connect = async () => {
    const client = await library.connect(server.url);
    opened.push(client);
    return client;
  };

  it('are handed off by message, also after all connections were cut', async () => {
    const instances = [];
    for (const { client } of [await connect(), await connect()]) {
      instances.push(running.start({ redis: client, fairness: 'strict' }));
    }
    const [one, other] = instances;
    for (const isCut of [false, true]) {
      const lock = await one.acquire('goods:300');
      const granted = other.acquire('goods:300');
      const queue = `${lock.key}|queue`;
      await eventually('it waits in the queue', async () => (await admin.zcard(queue)) === 1, 20_000);
      if (isCut) await Promise.all([cutAll(), admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')]);
      await lock.release();
      const next = await granted;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
    }
    expect(running.errors).toEqual([]);
  });

  it('stay with their holder over a cut, and are renewed after it', async () => {
    const { client } = await connect();
    const lock = await running.start({ redis: client, ttlMs: 30_000 }).acquire('goods:300');
    await admin.pexpire(lock.key, 20_000);
    await cutAll();
    // The connection is back, and the holder looks after its lock at once.
    await eventually('it is renewed', async () => (await admin.pttl(lock.key)) > 20_000, 20_000);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('are listed', async () => {
    const { client } = await connect();
    const locks = running.start({ redis: client });
    const held = await Promise.all([1, 2, 3].map((id) => locks.acquire(`goods:${id}`)));
    const found: string[] = [];
    for await (const { resource } of locks.list()) found.push(resource);
    expect(found.toSorted()).toEqual(['goods:1', 'goods:2', 'goods:3']);
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('show the error of the server and its code', async () => {
    const { client } = await connect();
    const locks = running.start({ redis: client });
    await admin.rpush(running.keyOf('goods', '300'), 'no lock');
    const failure = await locks.acquire('goods:300').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockUnavailableError);
    expect(failure).toMatchObject({ refusal: 'WRONGTYPE', permanent: true });
  });

  it('leave no connection of their own behind, and the client open', async () => {
    const { client } = await connect();
    const lock = await running.start({ redis: client }).acquire('goods:300');
    await lock.release();
    await running.close();
    await eventually('theirs are closed', async () => (await names()).length === 0, 20_000);
    expect(client.status).toBe('ready');
  });

  it('are guarded by a fence', async () => {
    const { client } = await connect();
    const fence = new RedisFence(client, 'order:300');
    await fence.open(1);
    expect(await fence.write(1, [['set', 'order:300', 'paid']])).toEqual(['OK']);
    await fence.open(2);
    await expect(fence.write(1, [['set', 'order:300', 'late']])).rejects.toThrow('order:300');
  });
});

describe('fromNodeRedis()', () => {
  it('returns the same object for the same client', () => {
    const client = createClient() as unknown as NodeRedisClient;
    expect(fromNodeRedis(client)).toBe(fromNodeRedis(client));
  });

  it.each([
    ['a Sentinel', () => createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: 'a', port: 26_379 }] })],
    ['a pool', () => createClientPool()],
    ['a client of ioredis', () => new Redis({ lazyConnect: true })],
    ['no client', () => ({})],
  ])('refuses %s', (_, make) => {
    expect(() => fromNodeRedis(make() as unknown as NodeRedisClient)).toThrow(LockConfigError);
  });

  it('is named by the error for a client that was given without it', () => {
    const redis = createClient() as unknown as Parameters<RedisLocks['start']>[0]['redis'];
    expect(() => running.start({ redis })).toThrow('fromNodeRedis(client)');
  });

  it('serves locks as soon as the client is connected', async () => {
    const client = createClient({ url: server.url }).on('error', () => undefined);
    const adapter = fromNodeRedis(client as unknown as NodeRedisClient);
    opened.push({ client: adapter, quit: () => client.close(), disconnect: () => client.destroy() });
    const locks = running.start({ redis: adapter });
    expect(adapter.status).toBe('wait');
    const granted = locks.acquire('goods:300');
    await client.connect();
    await (await granted).release();
  });

  it('puts the keyPrefix of the client before keys', async () => {
    const client = createClient({ url: server.url, keyPrefix: 'shop:' }).on('error', () => undefined);
    await client.connect();
    const adapter = fromNodeRedis(client as unknown as NodeRedisClient);
    opened.push({ client: adapter, quit: () => client.close(), disconnect: () => client.destroy() });
    const lock = await running.start({ redis: adapter }).acquire('goods:300');
    expect(await admin.exists(`shop:${running.keyOf('goods', '300')}`)).toBe(1);
    await lock.release();
  });
});
