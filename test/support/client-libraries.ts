import { Cluster, Redis } from 'ioredis';
import { fromNodeRedis, type NodeRedisClient, type NodeRedisCluster } from 'nestjs-redis-lock/node-redis';
import * as redis6 from 'redis';
import type { RedisClient } from '../../lib/redis/redis-client.js';

/** A connected client, and how to close it. */
export interface OpenClient {
  readonly client: RedisClient;
  /** Closes it after the replies. */
  quit(): Promise<unknown>;
  /** Cuts it. */
  disconnect(): void;
}

/** A library by which tests connect to Redis. */
export interface ClientLibrary {
  readonly name: string;
  connect(url: string): Promise<OpenClient>;
  connectCluster(nodes: readonly Address[]): Promise<OpenClient>;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

export const ioredis: ClientLibrary = {
  name: 'ioredis',
  connect: async (url) => {
    const client = new Redis(url, { maxRetriesPerRequest: null }).on('error', () => undefined);
    await client.ping();
    return { client, quit: () => client.quit(), disconnect: () => client.disconnect() };
  },
  connectCluster: async (nodes) => {
    const client = new Cluster([...nodes]);
    await client.ping();
    const quit = () => client.quit();
    return { client: client as object as RedisClient, quit, disconnect: () => client.disconnect() };
  },
};

interface Closable {
  connect(): Promise<unknown>;
  close(): unknown;
  destroy(): void;
  on(event: 'error', listener: () => void): unknown;
}

/** The part of a version of node-redis that tests use. */
interface NodeRedis {
  createClient(options: object): NodeRedisClient & Closable;
  createClientPool(): unknown;
  createCluster(options: { rootNodes: object[]; defaults?: object }): NodeRedisCluster & Closable;
  createSentinel(options: { name: string; sentinelRootNodes: Address[] }): unknown;
}

/** A version of node-redis. */
export interface NodeRedisLibrary extends ClientLibrary {
  readonly redis: NodeRedis;
  /** Returns the adapter of a client or a cluster. */
  adapt(client: NodeRedisClient | NodeRedisCluster): RedisClient;
}

/** Makes a version of node-redis a library. */
export function nodeRedis(name: string, redis: NodeRedis): NodeRedisLibrary {
  const connected = async (client: (NodeRedisClient | NodeRedisCluster) & Closable): Promise<OpenClient> => {
    client.on('error', () => undefined);
    await client.connect();
    return { client: fromNodeRedis(client), quit: async () => client.close(), disconnect: () => client.destroy() };
  };
  return {
    name,
    redis,
    adapt: fromNodeRedis,
    connect: (url) => connected(redis.createClient({ url })),
    connectCluster: (nodes) =>
      connected(
        redis.createCluster({
          rootNodes: nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` })),
          // `destroy` leaves the pause before the next attempt to connect, of up to 2.2 s. The process ends after it.
          defaults: { socket: { reconnectStrategy: 100 } },
        }),
      ),
  };
}

/** The versions of node-redis of `npm test`. `redis-5.slow.spec.ts` runs its tests again. */
export const NODE_REDIS: NodeRedisLibrary[] = [nodeRedis('redis 6', redis6)];
