import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { type Clock, inTime } from './core/clock.js';
import type { RedisClusterOptions } from './redis-lock.options.js';
import { isCluster } from './stores/redis-cluster.js';
import type { RedisClient, RedisSubscriber } from './stores/redis-client.js';
import type { RedisEndpoint } from './stores/store-context.js';

/** The module's client, and how to end it. */
export interface OpenedRedis extends RedisEndpoint {
  /** Begins to connect what was opened here. Until then nothing is open that a failed start could leave behind. */
  connect(): void;
  /** Closes what was opened here; a client that was given is left alone. */
  close(): Promise<void>;
}

/** How long a closing connection may wait for what it has sent before it is cut. */
const QUIT_TIMEOUT_MS = 500;

/** Takes the client that was given, or opens one. */
export function openRedis(redis: string | RedisOptions | RedisClusterOptions | RedisClient, clock: Clock): OpenedRedis {
  if (isClient(redis)) {
    const subscriber = (): RedisSubscriber | undefined => subscriberOf(redis as Redis | Cluster);
    return { client: redis, subscriber, connect: () => undefined, close: () => Promise.resolve() };
  }
  const client = make(redis);
  // Without a listener ioredis writes every refused connection to the console; the module tells about it once.
  client.on('error', () => undefined);
  const connect = (): void => {
    if (client.status === 'wait') client.connect().catch(() => undefined);
  };
  return { client, subscriber: () => subscriberOf(client), connect, close: () => closeClient(client, clock) };
}

function make(redis: string | RedisOptions | RedisClusterOptions): Redis | Cluster {
  if (typeof redis === 'string') return new Redis(redis, OURS);
  if (!('nodes' in redis)) return new Redis({ ...OURS, ...redis });
  const { nodes, ...options } = redis;
  const { lazyConnect, ...ofNodes } = OURS;
  const redisOptions = { ...ofNodes, ...options.redisOptions } as ClusterOptions['redisOptions'];
  return new Cluster([...nodes], { lazyConnect, ...options, redisOptions });
}

/** In a cluster the store listens at each node by itself. */
function subscriberOf(client: Redis | Cluster): RedisSubscriber | undefined {
  return isCluster(client) || !('duplicate' in client) ? undefined : copyOf(client as Redis);
}

/** It is subscribed anew by its owner, who wants to know when. */
function copyOf(client: Redis): RedisSubscriber {
  return client.duplicate({ ...OURS, connectionName: 'nestjs-redis-lock:hand-offs', autoResubscribe: false });
}

/**
 * Commands wait for the connection instead of failing after a number of tries: every request of this library has its own
 * timeout, and a release must not be given up while its lock may still be closed.
 */
const OURS: RedisOptions = {
  connectionName: 'nestjs-redis-lock',
  lazyConnect: true,
  maxRetriesPerRequest: null,
  // ioredis' timer for cutting a connection outlives one that is cut already; 2 s of it would keep the process alive.
  disconnectTimeout: 50,
};

function isClient(redis: RedisOptions | RedisClient | string): redis is RedisClient {
  return typeof redis === 'object' && 'evalsha' in redis && typeof redis.evalsha === 'function';
}

async function closeClient(client: Redis | Cluster, clock: Clock): Promise<void> {
  if (client.status === 'end') return;
  if (client.status !== 'ready') return client.disconnect();
  await inTime<unknown>(clock, QUIT_TIMEOUT_MS, client.quit(), () => undefined).catch(() => undefined);
  client.disconnect();
}
