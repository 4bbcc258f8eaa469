import type { ServerClient } from '../../lib/redis/client-port.js';
import { SystemClock } from '../../lib/clock/clock.js';
import { openRedis } from '../../lib/redis/open-redis.js';
import type { RedisClient } from '../../lib/redis/redis-client.js';

/** Returns a client, or a new one for an address, as stores see it. */
export function asPort(client: unknown): ServerClient {
  return openRedis(client as RedisClient, new SystemClock()).client as ServerClient;
}
