import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { hasMethods } from '../common/check-options.js';
import { type Clock, withTimeout } from '../clock/clock.js';
import { checkAddress, checkAddresses, checkDatabase } from './check-address.js';
import { type ClusterClient, isCluster, type ServerClient } from './client-port.js';
import { IoredisCluster } from './ioredis/ioredis-cluster.js';
import { failWithConnection, IoredisServer, onErrors } from './ioredis/ioredis-server.js';
import { type Ioredis, loadIoredis } from './load-ioredis.js';
import type { IoredisClient, RedisClient, RedisClusterOptions } from './redis-client.js';
import { sentinelConnector } from './sentinel-connector.js';

/** A client of the module. */
export interface OpenedRedis {
  readonly client: ServerClient | ClusterClient;
  /** Connects a client that was made here. Until then a failed start leaves no connection behind. */
  connect(): void;
  /** Closes a client that was made here. A client that the caller has given stays open. */
  close(): Promise<void>;
  /** Lets the process end although a client that was made here is connected. */
  unref(): void;
}

/** How long a closing connection may wait for replies before it is cut. */
const QUIT_TIMEOUT_MS = 500;

/**
 * Returns the given client, or makes one with ioredis from a URL or options.
 *
 * @throws LockConfigError if an address cannot be one, or if ioredis is not installed.
 */
export function openRedis(redis: string | RedisOptions | RedisClusterOptions | RedisClient, clock: Clock): OpenedRedis {
  if (isClient(redis)) {
    const client = 'run' in redis ? redis : portOf(redis);
    return { client, connect: ignore, close: () => Promise.resolve(), unref: ignore };
  }
  const ioredis = makeClient(redis, clock);
  onErrors(ioredis);
  // A Cluster rejects the requests of a node whose connection has ended.
  if (!isOfCluster(ioredis)) failWithConnection(ioredis);
  const connect = (): void => {
    if (ioredis.status === 'wait') ioredis.connect().catch(() => undefined);
  };
  return {
    client: portOf(ioredis, true),
    connect,
    close: () => closeClient(ioredis, clock),
    unref: () => unref(ioredis),
  };
}

function portOf(client: IoredisClient, isOurs = false): ServerClient | ClusterClient {
  if (isCluster(client)) return new IoredisCluster(client as object as Cluster, isOurs);
  return new IoredisServer(client as Redis, '', isOurs);
}

/** @throws LockConfigError if an address cannot be one. ioredis would print the password, or fail without end. */
function makeClient(redis: string | RedisOptions | RedisClusterOptions, clock: Clock): Redis | Cluster {
  if (typeof redis === 'string') {
    checkAddress(redis);
    const ioredis = loadIoredis();
    return new ioredis.Redis(redis, defaultsFor({}, clock, ioredis));
  }
  checkDatabase(redis);
  if (!('nodes' in redis)) {
    if (redis.sentinels) checkAddresses(redis.sentinels, 'sentinels');
    else checkAddress(redis);
    const ioredis = loadIoredis();
    return new ioredis.Redis({ ...defaultsFor(redis, clock, ioredis), ...redis });
  }
  const { nodes, ...options } = redis;
  checkAddresses(nodes, 'nodes');
  const { lazyConnect, ...nodeDefaults } = DEFAULTS;
  const redisOptions = { ...nodeDefaults, ...options.redisOptions } as ClusterOptions['redisOptions'];
  const ioredis = loadIoredis();
  return new ioredis.Cluster([...nodes], { lazyConnect, ...options, redisOptions });
}

const DEFAULTS: RedisOptions = {
  connectionName: 'nestjs-redis-lock',
  lazyConnect: true,
  // Commands wait for the connection. Each request has its own timeout, and a release must not be given up early.
  maxRetriesPerRequest: null,
  // A request ends with its connection. One that is sent again could arrive behind the release of its owner.
  autoResendUnfulfilledCommands: false,
  // ioredis' timer for cutting a connection outlives the connection. Its default of 2 s would keep the process alive.
  disconnectTimeout: 50,
};

/** The pause before the next attempt to connect, for each that has failed, and the longest. They vary by half. */
const RETRY_MS = 50;
const LONGEST_RETRY_MS = 500;

/** How long a Sentinel and its master may take, in milliseconds. They may hang, and another may have their place. */
const SENTINEL_MS = 2_000;

// ioredis' own pauses grow to 5 s. Leases run in that time, and callers get errors, so a connection has to come back
// sooner.
function defaultsFor(redis: RedisOptions, clock: Clock, ioredis: Ioredis): RedisOptions {
  const retryStrategy = (times: number): number =>
    Math.min(times * RETRY_MS, LONGEST_RETRY_MS) * (0.5 + clock.random());
  // Options that were read from a client contain null here.
  if (!redis.sentinels) return { ...DEFAULTS, retryStrategy };
  const Connector = sentinelConnector(ioredis.SentinelConnector);
  const limits = { connectTimeout: SENTINEL_MS, sentinelCommandTimeout: SENTINEL_MS };
  return { ...DEFAULTS, ...limits, retryStrategy, Connector, failoverDetector: true };
}

function isClient(redis: RedisOptions | RedisClusterOptions | RedisClient | string): redis is RedisClient {
  return hasMethods(redis, ['evalsha']) || hasMethods(redis, ['run']);
}

function isOfCluster(client: Redis | Cluster): client is Cluster {
  return isCluster(client);
}

const ignore = (): void => undefined;

function unref(client: Redis | Cluster): void {
  const connections = isOfCluster(client) ? client.nodes('all') : [client];
  // A client has no stream before its first connection. That of TLS may have no such method.
  for (const { stream } of connections) (stream as Partial<typeof stream> | undefined)?.unref?.();
}

async function closeClient(client: Redis | Cluster, clock: Clock): Promise<void> {
  if (isOfCluster(client) && client.status === 'end') return;
  if (client.status !== 'ready') return client.disconnect();
  await withTimeout<unknown>(clock, QUIT_TIMEOUT_MS, client.quit(), () => undefined).catch(() => undefined);
  client.disconnect();
}
