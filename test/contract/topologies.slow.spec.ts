import { afterAll, beforeAll, describe } from '@jest/globals';
import { type StoreFactory, token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { type ClientLibrary, ioredis } from '../support/client-libraries.js';
import { NODE_REDIS_VERSIONS } from '../support/node-redis-versions.js';
import { RedisCluster } from '../support/redis/index.js';
import { ReplicaSet } from '../support/redis/replica-set.js';
import { declaredBy, declaredOnCluster, onCluster, onRedis, sideBySide } from './under-test.js';
import { registerStoreContract } from './store-contract.js';

// Gossip and failure detection need clocks that run. One server by itself shows that real clocks also work.
describe('in real time', () => {
  let servers: ReplicaSet;
  let cluster: RedisCluster;
  const one = { store: declaredBy(token()), ...sideBySide() };

  beforeAll(async () => {
    [servers, cluster] = await Promise.all([ReplicaSet.start({ replicas: 1, sentinels: 0 }), RedisCluster.start()]);
  });
  afterAll(() => Promise.all([servers.close(), cluster.close()]));

  describe('token store', () => {
    registerStoreContract({ ...one, createStore: () => onRedis(token()) });
  });

  describe.each([ioredis, ...NODE_REDIS_VERSIONS])('token store with replicas, by $name', (library) => {
    const createStore = () => onRedis(token(), { library, url: servers.servers[0].url, min: 1 });
    registerStoreContract({ ...one, createStore });
  });

  const STORES: readonly (readonly [string, StoreFactory, ClientLibrary, min?: number])[] = [
    ['token store with replicas', token(), ioredis, 1],
    ['redisson store with fencing', redisson({ fencing: true }), ioredis],
    // One server by each client is in node-redis.slow.spec.ts.
    ...[ioredis, ...NODE_REDIS_VERSIONS].flatMap((library) => [
      ['token store', token(), library] as const,
      ['redisson store', redisson(), library] as const,
    ]),
  ];
  for (const [name, factory, library, min = 0] of STORES) {
    describe(`Redis Cluster, ${name} by ${library.name}`, () => {
      const createStore = () => onCluster(factory, cluster.nodes, { library, min });
      const store = declaredOnCluster(factory);
      registerStoreContract({ store, createStore, ...sideBySide() });
    });
  }
});
