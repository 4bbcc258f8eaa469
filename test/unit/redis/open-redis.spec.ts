import { Cluster, Redis } from 'ioredis';
import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { openAddress } from '../../../lib/redis/open-redis.js';

/** A clock whose random numbers are the highest possible. */
class LatestClock extends ManualClock {
  override random(): number {
    return 1 - Number.EPSILON;
  }
}

const ATTEMPTS = Array.from({ length: 2_000 }, (_, i) => i + 1);

it.each([{ port: 1 }, { sentinels: [{ host: 'localhost', port: 1 }], name: 'locks' }])(
  'a connection of the module is tried again within 0.75 s, however long Redis is away: %j',
  (address) => {
    const { options } = openAddress(address, new LatestClock()).ioredis as Redis;
    const pauses = ATTEMPTS.map((times) => Number(options.retryStrategy?.(times)));
    expect(Math.min(...pauses)).toBeGreaterThan(0);
    expect(Math.max(...pauses)).toBeLessThan(750);
  },
);

it('a cluster is tried again within 2 s, however long it is away', () => {
  const { options } = openAddress({ nodes: [{ host: 'localhost', port: 1 }] }, new LatestClock()).ioredis as Cluster;
  const pauses = ATTEMPTS.map((times) => Number(options.clusterRetryStrategy?.(times)));
  expect(Math.max(...pauses)).toBe(2_000);
});
