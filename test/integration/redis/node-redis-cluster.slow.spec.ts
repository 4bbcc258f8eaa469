import { afterEach, describe, expect, it } from '@jest/globals';
import { type OpenClient } from '../../support/client-libraries.js';
import { NODE_REDIS_VERSIONS } from '../../support/node-redis-versions.js';
import { eventually, renewed } from '../../support/redis-locks.js';
import type { RedisClient } from '../../../lib/redis/redis-client.js';
import { forTests } from '../../support/for-tests.js';
import { ClusterContention } from '../../support/cluster-contention.js';
import { listedBy } from '../../support/listed.js';

describe.each(NODE_REDIS_VERSIONS)('locks in a cluster by $name', (library) => {
  const here = forTests(new ClusterContention());
  const opened: OpenClient[] = [];

  afterEach(() => {
    for (const client of opened.splice(0)) client.disconnect();
  });

  const connect = async (): Promise<RedisClient> => {
    const client = await library.connectCluster(here.cluster.nodes);
    opened.push(client);
    return client.client;
  };
  const start = async () =>
    here.instance({ redis: await connect(), waitMs: 60_000, ttlMs: 30_000, fairness: 'strict' });
  it('move with their slot, and are handed off there', async () => {
    const [one, other] = [await start(), await start()];
    const lock = await one.acquire('goods:300');
    const to = await here.cluster.otherThan(lock.key);
    const { moveKeys, finish } = await here.cluster.migration(lock.key, to);
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
    expect(await listedBy(locks)).toEqual(['family1:300', 'family2:300', 'family3:300']);
    await Promise.all(held.map((lock) => lock.release()));
    expect(await here.connections('nestjs-redis-lock[^ ]*')).toBeGreaterThanOrEqual(3);
    await here.end();
    await eventually('theirs are closed', async () => (await here.connections('nestjs-redis-lock[^ ]*')) === 0);
    expect(opened.map(({ client }) => client.status)).toEqual(['connect']);
  });

  // The last one, because a node is gone afterwards.
  it('survive the death of a master, whose replica takes over', async () => {
    const [one, other] = [await start(), await start()];
    const lock = await one.acquire('goods:300');
    const master = await here.cluster.ownerOf(lock.key);
    const { admin } = here.cluster.replicaOf(master);
    await admin.readonly();
    await eventually('it is replicated', async () => (await admin.exists(lock.key)) === 1);
    await master.server.kill();
    await here.cluster.takeOver(here.cluster.replicaOf(master));
    await renewed(lock);
    const granted = other.acquire('goods:300');
    await eventually('it waits there', async () => (await admin.zcard(`${lock.key}|queue`)) === 1);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
  });
});
