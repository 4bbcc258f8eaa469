import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type OpenClient } from '../../support/client-libraries.js';
import { NODE_REDIS_VERSIONS } from '../../support/node-redis-versions.js';
import { RedisCluster } from '../../support/redis/index.js';
import { eventually, RedisLocks, renewed } from '../../support/redis-locks.js';
import type { RedisClient } from '../../../lib/redis/redis-client.js';

describe.each(NODE_REDIS_VERSIONS)('locks in a cluster by $name', (library) => {
  let cluster: RedisCluster;
  let running: RedisLocks;
  let opened: OpenClient[];

  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  beforeEach(() => {
    running = new RedisLocks();
    opened = [];
  });
  afterEach(async () => {
    await running.close();
    for (const client of opened) client.disconnect();
  });
  afterAll(() => cluster.close());

  const connect = async (): Promise<RedisClient> => {
    const client = await library.connectCluster(cluster.nodes);
    opened.push(client);
    return client.client;
  };
  const start = async () =>
    running.start({ redis: await connect(), waitMs: 60_000, ttlMs: 30_000, fairness: 'strict' });
  /** How many connections of the adapter there are, at all nodes. */
  const connections = async (): Promise<number> => {
    const live = cluster.members.filter(({ server }) => server.pid !== undefined);
    const lists = await Promise.all(live.map(({ admin }) => admin.client('LIST')));
    return [...lists.join('').matchAll(/ name=nestjs-redis-lock/g)].length;
  };

  it('move with their slot, and are handed off there', async () => {
    const [one, other] = [await start(), await start()];
    const lock = await one.acquire('goods:300');
    const to = await cluster.otherThan(lock.key);
    const { moveKeys, finish } = await cluster.migration(lock.key, to);
    await moveKeys();
    // Until the end, the old node redirects by ASK.
    await lock.extend();
    await finish();
    await lock.extend();
    const granted = other.acquire('goods:300');
    await eventually('it waits there', async () => (await to.admin.zcard(`${lock.key}|queue`)) === 1);
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
  });

  it('are listed, and leave no connection of their own behind', async () => {
    const locks = await start();
    const held = await Promise.all([1, 2, 3].map((id) => locks.acquire(`family${id}:300`)));
    const found: string[] = [];
    for await (const { resource } of locks.list()) found.push(resource);
    expect(found.toSorted()).toEqual(['family1:300', 'family2:300', 'family3:300']);
    await Promise.all(held.map((lock) => lock.release()));
    expect(await connections()).toBeGreaterThanOrEqual(3);
    await running.close();
    await eventually('theirs are closed', async () => (await connections()) === 0);
    expect(opened.map(({ client }) => client.status)).toEqual(['connect']);
  });

  // The last one, because a node is gone afterwards.
  it('survive the death of a master, whose replica takes over', async () => {
    const [one, other] = [await start(), await start()];
    const lock = await one.acquire('goods:300');
    const master = await cluster.ownerOf(lock.key);
    const { admin } = cluster.replicaOf(master);
    await admin.readonly();
    await eventually('it is replicated', async () => (await admin.exists(lock.key)) === 1);
    await master.server.kill();
    await cluster.takeOver(cluster.replicaOf(master));
    await renewed(lock);
    const granted = other.acquire('goods:300');
    await eventually('it waits there', async () => (await admin.zcard(`${lock.key}|queue`)) === 1);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
  });
});
