import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { type Clock, withTimeout } from '../core/time/clock.js';
import type { RedisClusterOptions } from '../options/redis-lock.options.js';
import { sentinelConnector, SILENCE_MS } from './sentinel-connector.js';
import { isCluster } from './cluster/cluster-client.js';
import type { RedisClient, RedisSubscriber } from './redis-client.js';
import type { ReplicaConnection } from '../stores/token/replication/replica-options.js';
import type { RedisEndpoint } from '../stores/store-context.js';

/** The module's client, and how to end it. */
export interface OpenedRedis extends RedisEndpoint {
  /** Another connection to the same place, not yet connected, to wait for replicas on; undefined if there can be none. */
  replicaLink(): ReplicaConnection | undefined;
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
    return { client: redis, ...copiesOf(redis), connect: () => undefined, close: () => Promise.resolve() };
  }
  const client = make(redis, clock);
  // Without a listener ioredis writes every refused connection to the console; the module tells about it once.
  client.on('error', () => undefined);
  const connect = (): void => {
    if (client.status === 'wait') client.connect().catch(() => undefined);
  };
  return { client, ...copiesOf(client), connect, close: () => closeClient(client, clock) };
}

function make(redis: string | RedisOptions | RedisClusterOptions, clock: Clock): Redis | Cluster {
  if (typeof redis === 'string') return new Redis(redis, OURS);
  if (!('nodes' in redis)) return new Redis({ ...defaultsFor(redis, clock), ...redis });
  const { nodes, ...options } = redis;
  const { lazyConnect, ...ofNodes } = OURS;
  const redisOptions = { ...ofNodes, ...options.redisOptions } as ClusterOptions['redisOptions'];
  return new Cluster([...nodes], { lazyConnect, ...options, redisOptions });
}

/** Further connections to where a client leads; in a cluster that is no single place, and the store makes its own. */
function copiesOf(client: RedisClient): Pick<OpenedRedis, 'subscriber' | 'replicaLink'> {
  const original = isCluster(client) || !('duplicate' in client) ? undefined : (client as Redis);
  return {
    subscriber: () => original && subscriberOf(original),
    replicaLink: () => original && replicaLinkOf(original),
  };
}

/** It is subscribed anew by its owner, who wants to know when. */
function subscriberOf(client: Redis): RedisSubscriber {
  return client.duplicate({ ...FOLLOWING, connectionName: 'nestjs-redis-lock:hand-offs', autoResubscribe: false });
}

/** What is not answered on one connection is never sent on the next one; WAIT has a time limit of its own. */
function replicaLinkOf(client: Redis): ReplicaConnection {
  return client.duplicate({
    ...FOLLOWING,
    connectionName: 'nestjs-redis-lock:replicas',
    autoResendUnfulfilledCommands: false,
    commandTimeout: undefined,
  });
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

/** It goes where the connection that asks for locks goes: its owner sees to that. */
const FOLLOWING: RedisOptions = { ...OURS, failoverDetector: false };

const LONGEST_RETRY_MS = 500;

/**
 * With Sentinels, a connection has to leave a master that hangs or was cut off when another one takes its place, and to come back
 * soon after: leases go on meanwhile, and ioredis' own pauses grow to 5 s.
 */
function defaultsFor(redis: RedisOptions, clock: Clock): RedisOptions {
  // Options that are read from a client have null there.
  if (!redis.sentinels) return OURS;
  const retryStrategy = (times: number): number => Math.min(times * 50, LONGEST_RETRY_MS) * (0.5 + clock.random());
  const Connector = sentinelConnector(clock);
  return { ...OURS, Connector, failoverDetector: true, sentinelCommandTimeout: SILENCE_MS, retryStrategy };
}

function isClient(redis: RedisOptions | RedisClient | string): redis is RedisClient {
  return typeof redis === 'object' && 'evalsha' in redis && typeof redis.evalsha === 'function';
}

async function closeClient(client: Redis | Cluster, clock: Clock): Promise<void> {
  if (client instanceof Cluster && client.status === 'end') return;
  if (client.status !== 'ready') return client.disconnect();
  await withTimeout<unknown>(clock, QUIT_TIMEOUT_MS, client.quit(), () => undefined).catch(() => undefined);
  client.disconnect();
}
