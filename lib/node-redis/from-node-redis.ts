import { checkValue, hasMethods, type OptionRule } from '../core/check-options.js';
import type { RedisClient } from '../redis/redis-client.js';
import type { NodeRedisClient } from './node-redis.js';
import { SharedClient } from './shared-client.js';

const METHODS = ['sendCommand', 'duplicate', 'subscribe', 'destroy', 'connect', 'on'];

const clientRule: OptionRule = {
  allowed: 'what createClient() of redis 5 or 6 returns',
  fits: (value) => hasMethods(value, METHODS) && 'isReady' in (value as object) && 'options' in (value as object),
};

const adapters = new WeakMap<NodeRedisClient, SharedClient>();

/**
 * Returns a client of node-redis (`redis` 5 or 6) as a value for the option `redis` of the module, for nodes of
 * `quorum()` and for `RedisFence`. Each call with the same client returns the same object.
 *
 * The client stays the caller's: connect it before the application starts, and close it after the application. Until
 * it is connected, lock requests fail as they do in an outage. Further connections are duplicates of the client. The
 * module opens and closes them.
 *
 * @throws {LockConfigError} if it is no such client, or one of a cluster, of Sentinel or of a pool.
 * @publicApi
 */
export function fromNodeRedis(client: NodeRedisClient): RedisClient {
  checkValue('fromNodeRedis()', 'the client', client, clientRule);
  let adapter = adapters.get(client);
  if (adapter === undefined) {
    adapter = new SharedClient(client);
    adapters.set(client, adapter);
  }
  return adapter;
}
