import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockConfigError, LockLostError } from 'nestjs-redis-lock';
import { RedisFence } from 'nestjs-redis-lock/fence';
import { fromNodeRedis, type NodeRedisClient } from 'nestjs-redis-lock/node-redis';
import { quorum } from 'nestjs-redis-lock/quorum';
import type { ServerClient } from '../../../lib/redis/client-port.js';
import { createClient, createCluster } from 'redis';
import { ioredis, type OpenClient } from '../../support/client-libraries.js';
import { NODE_REDIS_VERSIONS } from '../../support/node-redis-versions.js';
import { startRedis } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';
import type { RedisClient } from '../../../lib/redis/redis-client.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';

/** No limit of a request ends during a test. */
const PATIENT = { ttlMs: 600_000, waitMs: 60_000, requestTimeoutMs: 60_000 };

const here = forTests(new Contention());
const opened: OpenClient[] = [];

afterEach(() => {
  for (const client of opened.splice(0)) client.disconnect();
});

const cutAll = (): Promise<unknown> => here.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

async function names(): Promise<readonly string[]> {
  const clients = (await here.admin.client('LIST')) as string;
  return [...clients.matchAll(/ name=(nestjs-redis-lock\S*)/g)].map(([, name]) => name).toSorted();
}

describe.each([ioredis, ...NODE_REDIS_VERSIONS])('locks by $name', (library) => {
  const connect = async () => {
    const client = await library.connect(here.server.url);
    opened.push(client);
    return client;
  };

  it('are handed off by message, even after all connections were cut', async () => {
    const instances = [];
    for (const { client } of [await connect(), await connect()]) {
      instances.push(here.instance({ ...PATIENT, redis: client, fairness: 'strict' }));
    }
    const [one, other] = instances;
    for (const isCut of [false, true]) {
      const lock = await one.acquire('goods:300');
      const granted = other.acquire('goods:300');
      const queue = `${lock.key}|queue`;
      await eventually('it waits in the queue', async () => (await here.admin.zcard(queue)) === 1);
      if (isCut) await Promise.all([cutAll(), here.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')]);
      // A release without a connection is rejected, and repeated as soon as there is one.
      await lock.release().catch(() => undefined);
      const next = await granted;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
    }
    expect(here.running.errors).toEqual([]);
  });

  it('are lost at once if the server is back without them', async () => {
    const { client } = await connect();
    const lock = await here.instance({ ...PATIENT, redis: client }).acquire('goods:300');
    await here.admin.flushall();
    await cutAll();
    await eventually('its signal aborts', () => lock.signal.aborted);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('leave no connection of their own behind, and the client open', async () => {
    const { client } = await connect();
    const lock = await here.instance({ ...PATIENT, redis: client }).acquire('goods:300');
    await lock.release();
    await here.clear();
    await eventually('theirs are closed', async () => (await names()).length === 0);
    expect(client.status).toBe('ready');
  });

  it('are guarded by a fence', async () => {
    const { client } = await connect();
    const fence = new RedisFence(client, 'order:300');
    await fence.open(1);
    const set = (value: string) => ({
      lua: `return redis.call('SET', KEYS[1], ARGV[1])`,
      keys: ['order:300'],
      args: [value],
    });
    expect(await fence.write(1, set('paid'))).toBe('OK');
    await fence.open(2);
    await expect(fence.write(1, set('late'))).rejects.toThrow('order:300');
  });
});

describe.each(NODE_REDIS_VERSIONS)('fromNodeRedis() of $name', ({ redis }) => {
  /** Makes a client that the test ends. */
  const clientOf = (options: object = { url: here.server.url }) => {
    const client = redis.createClient(options);
    client.on('error', () => undefined);
    const disconnect = () => {
      try {
        client.destroy();
      } catch {
        // Version 5 throws for a client that is closed.
      }
    };
    const adapter = fromNodeRedis(client);
    opened.push({ client: adapter, quit: () => Promise.resolve(client.close()), disconnect });
    return { client, adapter };
  };

  it.each([
    ['a Sentinel', () => redis.createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: 'a', port: 26_379 }] })],
    ['a pool', () => redis.createClientPool()],
    ['an ioredis client', () => new Redis({ lazyConnect: true })],
    ['no client', () => ({})],
  ])('refuses %s', (_, make) => {
    expect(() => fromNodeRedis(make() as NodeRedisClient)).toThrow(LockConfigError);
  });

  it('is named by the errors for a client that was given without it', () => {
    const client = redis.createClient({}) as unknown as RedisClient;
    expect(() => here.instance({ ...PATIENT, redis: client })).toThrow('fromNodeRedis(client)');
    expect(() => here.instance({ store: quorum([client, here.server.url, here.server.url]) })).toThrow(
      'node 1 is a node-redis client; use fromNodeRedis(client)',
    );
    expect(() => new RedisFence(client, 'order:300')).toThrow('fromNodeRedis(client)');
  });

  it('serves locks as soon as the client is connected', async () => {
    const { client, adapter } = clientOf();
    const locks = here.instance({ ...PATIENT, redis: adapter });
    expect(adapter.status).toBe('wait');
    const granted = locks.acquire('goods:300');
    await client.connect();
    await (await granted).release();
  });

  it('reports a server that hangs while the client connects', async () => {
    const { proxy } = await here.way();
    proxy.hold('requests');
    const { client, adapter } = clientOf({ url: proxy.url });
    const locks = here.instance({ redis: adapter, requestTimeoutMs: 200 });
    const connected = client.connect();
    await eventually('it is reported', () => here.warnings.length > 0);
    expect(here.warnings[0]).toContain('Redis cannot be reached');
    expect(here.warnings[0]).toContain('connected, but Redis is not ready');
    proxy.resume('requests');
    await connected;
    await (await locks.acquire('goods:300')).release();
  });

  it('goes through the states of its client', async () => {
    const { client, adapter } = clientOf();
    const seen: string[] = [];
    for (const event of ['connecting', 'connect', 'ready', 'close', 'end'] as const) {
      (adapter as ServerClient).watch({ [event]: () => seen.push(`${event}: ${adapter.status}`) });
    }
    await client.connect();
    await cutAll();
    await eventually('it is back', () => seen.length >= 6);
    client.destroy();
    await client.connect();
    expect(seen).toEqual([
      'connecting: connecting',
      'connect: connect',
      'ready: ready',
      'close: reconnecting',
      'connect: connect',
      'ready: ready',
      'close: end',
      'end: end',
      'connecting: connecting',
      'connect: connect',
      'ready: ready',
    ]);
  });

  it('adds no listeners with further modules, and removes theirs', async () => {
    const { client, adapter } = clientOf();
    await client.connect();
    const watchers = Reflect.get(adapter, 'listeners') as Set<unknown>;
    const counts = () => [
      watchers.size,
      ...['connect', 'ready', 'end', 'error'].map((event) =>
        (client as unknown as NodeJS.EventEmitter).listenerCount(event),
      ),
    ];
    const before = counts();
    for (let i = 0; i < 2; i++)
      await (await here.instance({ ...PATIENT, redis: adapter }).acquire('goods:300')).release();
    await here.clear();
    expect(counts()).toEqual(before);
  });
});

describe.each(NODE_REDIS_VERSIONS)('a quorum by $name', (library) => {
  it('locks on a majority, even after a node has died', async () => {
    const others = await Promise.all([startRedis({ local: true }), startRedis({ local: true })]);
    try {
      const nodes = await Promise.all([here.server, ...others].map(({ url }) => library.connect(url)));
      opened.push(...nodes);
      const store = quorum(
        nodes.map(({ client }) => client),
        { nodeTimeoutMs: 30_000 },
      );
      const [one, other] = [1, 2].map(() => here.instance({ ...PATIENT, store }));
      const lock = await one.acquire('goods:300');
      expect(await other.tryAcquire('goods:300')).toBeNull();
      await others[1].kill();
      await lock.extend();
      expect(await other.tryAcquire('goods:300')).toBeNull();
      expect(await lock.release()).toBe(true);
      await (await other.acquire('goods:300')).release();
    } finally {
      await here.clear();
      await Promise.all(others.map((node) => node.stop()));
    }
  });
});

describe('fromNodeRedis()', () => {
  it('takes a cluster, by its own types', () => {
    expect(fromNodeRedis(createCluster({ rootNodes: [{ url: here.server.url }] })).status).toBe('wait');
  });

  it('puts the keyPrefix of the client before keys', async () => {
    const client = createClient({ url: here.server.url, keyPrefix: 'shop:' }).on('error', () => undefined);
    await client.connect();
    const adapter = fromNodeRedis(client);
    opened.push({ client: adapter, quit: () => client.close(), disconnect: () => client.destroy() });
    const lock = await here.instance({ ...PATIENT, redis: adapter }).acquire('goods:300');
    expect(await here.admin.exists(`shop:${here.key}`)).toBe(1);
    await lock.release();
  });
});
