import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { RedisFence } from 'nestjs-redis-lock/fence';
import type { RedisClient } from 'nestjs-redis-lock/store';
import { NODE_REDIS } from '../../support/client-libraries.js';
import type { RedisServer } from '../../support/redis/index.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks, renewed } from '../../support/redis-locks.js';

let servers: ReplicaSet;
let running: RedisLocks;

beforeEach(async () => {
  servers = await ReplicaSet.start({ replicas: 2, sentinels: 3 });
  running = new RedisLocks();
});
afterEach(async () => {
  await running.close();
  await servers.close();
});

describe.each(NODE_REDIS)('locks behind Sentinels by $name', (library) => {
  const start = () =>
    running.start({ redis: library.behindSentinels(servers.address), waitMs: 60_000, fairness: 'strict' });

  /** Returns how many connections of the adapter a server has. */
  const connections = async (at: RedisServer): Promise<number> => {
    const clients = (await servers.adminOf(at).client('LIST')) as string;
    return [...clients.matchAll(/ name=nestjs-redis-lock/g)].length;
  };
  const allClosed = async (): Promise<boolean> => {
    const live = [...servers.servers, ...servers.sentinels].filter(({ pid }) => pid !== undefined);
    return (await Promise.all(live.map(connections))).every((count) => count === 0);
  };

  const FAILOVERS: Record<string, () => Promise<RedisServer>> = {
    'is killed': () => servers.failOver(),
    'is replaced': () => servers.switchOver(),
    hangs: async () => {
      const before = await servers.master();
      before.pause();
      return servers.newMaster(before);
    },
  };

  // Version 5 differs in its connections, and not in how Sentinels are asked.
  const tried = library === NODE_REDIS[0] ? Object.keys(FAILOVERS) : ['hangs'];

  it.each(tried)('survive a master that %s, and the new one hands off', async (how) => {
    const [before] = servers.servers;
    const [one, other] = [start(), start()];
    const lock = await one.acquire('goods:300', { ttlMs: 60_000 });
    await servers.replicated(lock.key);
    const admin = servers.adminOf(await FAILOVERS[how]());
    await renewed(lock);
    const granted = other.acquire('goods:300');
    await eventually('it waits there', async () => (await admin.zcard(`${lock.key}|queue`)) === 1);
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
    if (how === 'hangs') before.resume();
    await running.close();
    await eventually('all connections are closed', allClosed);
  });

  it('have a fence that leaves no connection behind, with and without a module', async () => {
    const redis = library.behindSentinels(servers.address) as RedisClient;
    const [master] = servers.servers;
    const fence = new RedisFence(redis, 'order:300');
    await Promise.all([fence.open(1), new RedisFence(redis, 'order:301').open(1)]);
    // Requests in a row share a connection.
    expect(await connections(master)).toBe(1);
    await eventually('it is closed', allClosed);
    const locks = running.start({ redis });
    await (await locks.acquire('goods:300')).release();
    await fence.open(2);
    await running.close();
    await fence.open(3);
    await eventually('all are closed', allClosed);
  });
});
