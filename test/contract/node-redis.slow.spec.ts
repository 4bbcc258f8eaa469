import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { registerStoreContract } from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { NODE_REDIS } from '../support/client-libraries.js';
import { RedisCluster, type RedisServer, startRedis } from '../support/redis/index.js';
import { ReplicaSet } from '../support/redis/replica-set.js';
import { onCluster, onQuorum, onRedis, sideBySide } from './under-test.js';

const ON_ONE_SERVER = {
  'token store': token(),
  'redisson store': redisson(),
  'timestamp store': timestamp(),
  'timestamp store without scripts': timestamp({ scripts: false }),
};

describe.each(NODE_REDIS)('by $name', (library) => {
  describe.each(Object.entries(ON_ONE_SERVER))('%s', (_, factory) => {
    registerStoreContract({ createStore: () => onRedis(factory, { library }), ...sideBySide() });
  });

  describe('token store with replicas', () => {
    let servers: ReplicaSet;
    beforeAll(async () => {
      servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
    });
    afterAll(() => servers.close());

    const createStore = () => onRedis(token(), { library, url: servers.servers[0].url, min: 1 });
    registerStoreContract({ createStore, ...sideBySide() });
  });

  describe('Redis Cluster', () => {
    let cluster: RedisCluster;
    beforeAll(async () => {
      cluster = await RedisCluster.start();
    });
    afterAll(() => cluster.close());

    describe('token store', () => {
      registerStoreContract({ createStore: () => onCluster(token(), cluster.nodes, { library }), ...sideBySide() });
    });

    describe('token store with replicas', () => {
      const createStore = () => onCluster(token(), cluster.nodes, { library, min: 1 });
      registerStoreContract({ createStore, ...sideBySide() });
    });

    describe('redisson store', () => {
      registerStoreContract({ createStore: () => onCluster(redisson(), cluster.nodes, { library }), ...sideBySide() });
    });
  });

  describe('quorum store', () => {
    let masters: RedisServer[];
    beforeAll(async () => {
      masters = await Promise.all([1, 2, 3].map(() => startRedis({ local: true })));
    });
    afterAll(() => Promise.all(masters.map((master) => master.stop())));

    registerStoreContract({ createStore: () => onQuorum(masters, { library }), describe, it });
  });
});
