import { checkValue, hasMethods, type OptionRule } from '../common/check-options.js';
import type { ClusterClient, ServerClient } from '../redis/client-port.js';
import { type NodeRedisClient, SharedClient } from './node-redis-client.js';
import { type NodeRedisCluster, SharedCluster } from './node-redis-cluster.js';

const isCluster = (value: unknown): value is NodeRedisCluster =>
  hasMethods(value, ['nodeClient', 'on']) && 'masters' in value;

// Sentinel and pools have no options, and the legacy client has no duplicate().
const isClient = (value: unknown): boolean =>
  hasMethods(value, ['sendCommand', 'duplicate', 'sSubscribe', 'on']) && 'options' in value && 'isReady' in value;

const clientRule: OptionRule = {
  allowed:
    'what createClient() or createCluster() of redis 5.9 to 6 returns. ' +
    'For Sentinel use ioredis: redis: { sentinels, name }',
  fits: (value) => isCluster(value) || isClient(value),
};

const adapters = new WeakMap<object, SharedClient | SharedCluster>();

/**
 * Returns a client or a cluster of node-redis (`redis` 5.9 to 6) as a value for the option `redis` of the module. That
 * of a client is also a node for `quorum()` and a client for `RedisFence`. Each call with the same client returns the
 * same object. For Sentinel, use ioredis: `redis: { sentinels, name }`.
 *
 * The client stays the caller's: connect it before the application starts, and close it after the application. Until
 * it is connected, lock requests fail as they do in an outage. Further connections have the options of the client. The
 * module opens and closes them.
 *
 * @throws {LockConfigError} if the client is neither of them: of `createSentinel()`, a pool or a legacy client.
 * @publicApi
 */
export function fromNodeRedis(client: NodeRedisClient | NodeRedisCluster): ServerClient | ClusterClient {
  checkValue('fromNodeRedis()', 'the client', client, clientRule);
  const adapter = adapters.get(client) ?? (isCluster(client) ? new SharedCluster(client) : new SharedClient(client));
  adapters.set(client, adapter);
  return adapter;
}
