import { afterAll, beforeAll, describe } from '@jest/globals';
import { token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { registerStoreContract, type StoreDeclaration } from 'nestjs-redis-lock/testing';
import { ioredis, NODE_REDIS } from '../support/client-libraries.js';
import { RedisCluster } from '../support/redis/index.js';
import { ReplicaSet } from '../support/redis/replica-set.js';
import { declaredBy, declaredOnCluster, onCluster, onRedis, sideBySide } from './under-test.js';

// Gossip and failure detection need clocks that run. One server by itself shows that real clocks work, too.
describe.each([ioredis, ...NODE_REDIS])('in real time, by $name', (library) => {
  const one = { store: declaredBy(token()), ...sideBySide() };

  describe('token store', () => {
    registerStoreContract({ ...one, createStore: () => onRedis(token(), { library }) });
  });

  describe('token store with replicas', () => {
    let servers: ReplicaSet;
    beforeAll(async () => {
      servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
    });
    afterAll(() => servers.close());

    const createStore = () => onRedis(token(), { library, url: servers.servers[0].url, min: 1 });
    registerStoreContract({ ...one, store: withReplicas(one.store), createStore });
  });

  describe('Redis Cluster', () => {
    let cluster: RedisCluster;
    beforeAll(async () => {
      cluster = await RedisCluster.start();
    });
    afterAll(() => cluster.close());

    const STORES = {
      'token store': { factory: token(), min: 0 },
      'token store with replicas': { factory: token(), min: 1 },
      'redisson store': { factory: redisson(), min: 0 },
      'redisson store with fencing': { factory: redisson({ fencing: true }), min: 0 },
    };
    describe.each(Object.entries(STORES))('%s', (_, { factory, min }) => {
      const createStore = () => onCluster(factory, cluster.nodes, { library, min });
      const declared = declaredOnCluster(factory);
      const store = min > 0 ? withReplicas(declared) : declared;
      registerStoreContract({ store, createStore, ...sideBySide() });
    });
  });
});

/** Returns what a store declares that waits for replicas. */
function withReplicas(declared: StoreDeclaration): StoreDeclaration {
  const { list, forceRelease, capabilities } = declared;
  return { list, forceRelease, capabilities: { ...capabilities, replicas: true } };
}
