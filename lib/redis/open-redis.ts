import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { type Clock, withTimeout } from '../core/time/clock.js';
import { checkAddress, checkNodes, checkSentinels, checkUrl } from './check-address.js';
import { isCluster } from './cluster/cluster-client.js';
import type {
  FurtherConnections,
  RedisClient,
  RedisClusterOptions,
  RedisEndpoint,
  RedisSubscriber,
  ReplicaConnection,
} from './redis-client.js';
import { SILENCE_MS, sentinelConnector } from './sentinel-connector.js';

/** A client of the module. */
export interface OpenedRedis extends RedisEndpoint {
  /**
   * Returns a new connection to the same server that waits for replicas, not yet connected. Returns undefined if the
   * client cannot be duplicated.
   */
  replicaConnection(): ReplicaConnection | undefined;
  /** Connects a client that was made here. Until then a failed start leaves no connection behind. */
  connect(): void;
  /** Closes a client that was made here. A client that the caller has given stays open. */
  close(): Promise<void>;
}

/** How long a closing connection may wait for replies before it is cut. */
const QUIT_TIMEOUT_MS = 500;

/** Returns the given client, or makes one from a URL or options. */
export function openRedis(redis: string | RedisOptions | RedisClusterOptions | RedisClient, clock: Clock): OpenedRedis {
  if (isClient(redis)) {
    return { client: redis, ...furtherConnections(redis), connect: () => undefined, close: () => Promise.resolve() };
  }
  const client = makeClient(redis, clock);
  // Without a listener ioredis prints every failed connection. The module logs an outage once.
  client.on('error', () => undefined);
  const connect = (): void => {
    if (client.status === 'wait') client.connect().catch(() => undefined);
  };
  return { client, ...furtherConnections(client), connect, close: () => closeClient(client, clock) };
}

/** @throws LockConfigError if an address cannot be one. ioredis would print the password, or fail without end. */
function makeClient(redis: string | RedisOptions | RedisClusterOptions, clock: Clock): Redis | Cluster {
  if (typeof redis === 'string') {
    checkUrl(redis);
    return new Redis(redis, defaultsFor({}, clock));
  }
  if (!('nodes' in redis)) {
    if (redis.sentinels) checkSentinels(redis.sentinels, redis.name);
    else checkAddress(redis);
    return new Redis({ ...defaultsFor(redis, clock), ...redis });
  }
  const { nodes, ...options } = redis;
  checkNodes(nodes);
  const { lazyConnect, ...nodeDefaults } = DEFAULTS;
  const redisOptions = { ...nodeDefaults, ...options.redisOptions } as ClusterOptions['redisOptions'];
  return new Cluster([...nodes], { lazyConnect, ...options, redisOptions });
}

function furtherConnections(client: RedisClient): FurtherConnections {
  if (client.furtherConnections !== undefined) return client.furtherConnections;
  // A cluster is no single server. Its stores connect to the nodes by themselves.
  const original = isCluster(client) || !('duplicate' in client) ? undefined : (client as Redis);
  return {
    subscriber: () => original && subscriberOf(original),
    replicaConnection: () => original && replicaConnectionOf(original),
  };
}

function subscriberOf(client: Redis): RedisSubscriber {
  // The owner subscribes again after an outage, because it must know when the channel is subscribed.
  return client.duplicate({ ...FOLLOWING, connectionName: 'nestjs-redis-lock:handoffs', autoResubscribe: false });
}

function replicaConnectionOf(client: Redis): ReplicaConnection {
  return client.duplicate({
    ...FOLLOWING,
    connectionName: 'nestjs-redis-lock:replicas',
    // WAIT counts only for what was written over the same connection.
    autoResendUnfulfilledCommands: false,
    // WAIT has its own timeout.
    commandTimeout: undefined,
  });
}

const DEFAULTS: RedisOptions = {
  connectionName: 'nestjs-redis-lock',
  lazyConnect: true,
  // Commands wait for the connection. Each request has its own timeout, and a release must not be given up early.
  maxRetriesPerRequest: null,
  // ioredis' timer for cutting a connection outlives the connection. Its default of 2 s would keep the process alive.
  disconnectTimeout: 50,
};

/** Options of a further connection. Its owner reconnects it after the connection for commands was lost. */
const FOLLOWING: RedisOptions = { ...DEFAULTS, failoverDetector: false, enableAutoPipelining: false };

const SHORTEST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 500;

/** How many attempts to connect have the shortest pause before them. They find a Redis that was away for a moment. */
const QUICK_RETRIES = 10;

// ioredis' own pauses grow to 5 s. Leases go on meanwhile, and callers get errors, so a connection has to come back
// sooner.
function defaultsFor(redis: RedisOptions, clock: Clock): RedisOptions {
  const retryAfter = (pauseMs: number): number =>
    Math.min(Math.max(pauseMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS) * (0.5 + clock.random());
  // Options that were read from a client contain null here.
  if (!redis.sentinels)
    return { ...DEFAULTS, retryStrategy: (times) => retryAfter((times - QUICK_RETRIES) * SHORTEST_RETRY_MS) };
  const retryStrategy = (times: number): number => retryAfter(times * SHORTEST_RETRY_MS);
  const Connector = sentinelConnector(clock);
  return { ...DEFAULTS, Connector, failoverDetector: true, sentinelCommandTimeout: SILENCE_MS, retryStrategy };
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
