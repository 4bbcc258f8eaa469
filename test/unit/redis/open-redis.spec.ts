import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { IoredisCluster } from '../../../lib/redis/ioredis/ioredis-cluster.js';
import type { IoredisServer } from '../../../lib/redis/ioredis/ioredis-server.js';
import { openRedis } from '../../../lib/redis/open-redis.js';

/** A clock whose random numbers are the highest possible. */
class LatestClock extends ManualClock {
  override random(): number {
    return 1 - Number.EPSILON;
  }
}

const ATTEMPTS = Array.from({ length: 2_000 }, (_, i) => i + 1);

it.each([
  { host: 'localhost', port: 1 },
  { sentinels: [{ host: 'localhost', port: 1 }], name: 'locks' },
])('a connection of the module is tried again within 0.75 s, however long Redis is away: %j', (address) => {
  const { options } = (openRedis(address, new LatestClock()).client as IoredisServer).client;
  const pauses = ATTEMPTS.map((times) => Number(options.retryStrategy?.(times)));
  expect(Math.min(...pauses)).toBeGreaterThan(0);
  expect(Math.max(...pauses)).toBeLessThan(750);
});

it('a cluster is tried again within 2 s, however long it is away', () => {
  const { client } = openRedis({ nodes: [{ host: 'localhost', port: 1 }] }, new LatestClock());
  const { options } = (client as IoredisCluster)['cluster'];
  const pauses = ATTEMPTS.map((times) => Number(options.clusterRetryStrategy?.(times)));
  expect(Math.max(...pauses)).toBe(2_000);
});
