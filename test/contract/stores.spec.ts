import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { memory, token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { ManualClock, registerStoreContract, type OtherClient, type StoreUnderTest } from 'nestjs-redis-lock/testing';
import { RedisCluster, type RedisServer, startRedis } from '../support/redis/index.js';
import { ReplicaSet } from '../support/redis/replica-set.js';
import { CONTEXT, onCluster, onQuorum, onRedis, sideBySide } from './under-test.js';

let cluster: RedisCluster;

function inMemory(): Promise<StoreUnderTest> {
  const clock = new ManualClock();
  const store = memory()({ ...CONTEXT, clock });
  return Promise.resolve({ store, clock, pass: (ms) => clock.advance(ms), close: () => store.close() });
}

describe('token store', () => {
  registerStoreContract({ createStore: () => onRedis(token()), ...sideBySide() });
});

describe('token store with replicas', () => {
  let servers: ReplicaSet;
  beforeAll(async () => {
    servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
  });
  afterAll(() => servers.close());

  const createStore = () => onRedis(token(), { url: servers.servers[0].url, min: 1 });
  registerStoreContract({ createStore, ...sideBySide() });
});

describe('Redis Cluster', () => {
  beforeAll(async () => {
    cluster = await RedisCluster.start();
  }, 30_000);

  afterAll(() => cluster.close());

  describe('token store', () => {
    registerStoreContract({ createStore: () => onCluster(token(), cluster.nodes), ...sideBySide() });
  });

  describe('token store with replicas', () => {
    registerStoreContract({ createStore: () => onCluster(token(), cluster.nodes, { min: 1 }), ...sideBySide() });
  });

  describe('redisson store', () => {
    registerStoreContract({ createStore: () => onCluster(redisson(), cluster.nodes), ...sideBySide() });
  });

  describe('redisson store with fencing', () => {
    registerStoreContract({
      createStore: () => onCluster(redisson({ fencing: true }), cluster.nodes),
      ...sideBySide(),
    });
  });
});

describe('redisson store', () => {
  registerStoreContract({ createStore: () => onRedis(redisson()), ...sideBySide() });
});

describe('redisson store with fencing', () => {
  registerStoreContract({ createStore: () => onRedis(redisson({ fencing: true })), ...sideBySide() });
});

describe('memory store', () => {
  registerStoreContract({ createStore: inMemory, describe, it });
});

/** A client of the articles that the timestamp store shares its keys with. */
function oldClient(redis: Redis, unitMs: number): OtherClient {
  let written = '';
  const now = (): number => Math.floor(Date.now() / unitMs);
  return {
    // It has read the expired value before the holder replaced it, and its own expiry is a little earlier.
    lose: async (key) => void (await redis.getset(key, Number(await redis.get(key)) - Math.ceil(20 / unitMs))),
    acquire: async (key) => {
      const held = await redis.get(key);
      if (held !== null && now() <= Number(held)) return false;
      written = String(now() + Math.ceil(1_000 / unitMs) + 1);
      return (await redis.getset(key, written)) === held;
    },
    holds: async (key) => (await redis.get(key)) === written,
  };
}

async function besideOldClient(unit: 'ms' | 's', scripts: boolean): Promise<StoreUnderTest> {
  const under = await onRedis(timestamp({ unit, scripts }));
  const redis = new Redis(process.env['TEST_REDIS_URL'] as string);
  const close = async (): Promise<void> => {
    await under.close();
    await redis.quit();
  };
  return { ...under, otherClient: oldClient(redis, unit === 's' ? 1_000 : 1), close };
}

describe.each([true, false])('timestamp store with scripts: %s', (scripts) => {
  describe('in milliseconds', () => {
    const createStore = () => besideOldClient('ms', scripts);
    registerStoreContract({ createStore, ...sideBySide() });
  });

  describe('in seconds', () => {
    const createStore = () => besideOldClient('s', scripts);
    registerStoreContract({ createStore, ...sideBySide() });
  });
});

describe('quorum store', () => {
  let masters: RedisServer[];
  beforeAll(async () => {
    masters = await Promise.all([1, 2, 3].map(() => startRedis({ local: true })));
  });
  afterAll(() => Promise.all(masters.map((master) => master.stop())));

  registerStoreContract({ createStore: () => onQuorum(masters), describe, it });
});
