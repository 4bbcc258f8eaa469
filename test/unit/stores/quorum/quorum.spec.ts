import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { LockConfigError } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { LockRuntime } from '../../../../lib/lock-runtime.js';

const [a, b, c, d] = [1, 2, 3, 4].map((i) => `redis://:secret@10.0.0.${i}:6379`);

function start(...given: Parameters<typeof quorum>): unknown {
  try {
    LockRuntime.start({ store: quorum(...given) });
    return undefined;
  } catch (error) {
    return error;
  }
}

describe('quorum()', () => {
  it.each<[string, Parameters<typeof quorum>, RegExp]>([
    ['has no nodes', [[]], /0 nodes.*odd number from 3 up/],
    ['has one node', [[a]], /1 nodes.*odd number from 3 up/],
    ['has an even number of nodes', [[a, b, c, d]], /4 nodes.*odd number from 3 up/],
    ['is given no array', [a as never], /array/],
    ['has a node that is a number', [[a, b, 3 as never]], /node 3 is neither a URL/],
    ['has a node that is not a URL', [[a, 'localhost:6379', c]], /node 2 is neither a URL/],
    ['has a node twice', [[a, b, a]], /nodes 1 and 3 are the same, 10\.0\.0\.1:6379/],
    ['has two databases of one node', [[a, b, `${b}/7`]], /nodes 2 and 3 are the same/],
    [
      'has a node twice, spelt differently',
      [[a, 'redis://Redis-2', 'redis://redis-2:6379/1']],
      /nodes 2 and 3 are the same/,
    ],
    [
      'has a node as a URL and as options',
      [['redis://localhost', { host: 'localhost' }, c]],
      /nodes 1 and 2 are the same/,
    ],
    [
      'has a nodeTimeoutMs of 0',
      [[a, b, c], { nodeTimeoutMs: 0 }],
      /nodeTimeoutMs is 0; expected a number of milliseconds from 1 to 500/,
    ],
    [
      'has a nodeTimeoutMs over 500',
      [[a, b, c], { nodeTimeoutMs: 501 }],
      /nodeTimeoutMs is 501; expected a number of milliseconds from 1 to 500/,
    ],
  ])('throws at start if it %s', (_, given, reason) => {
    const error = start(...given);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(reason);
    expect((error as Error).message).not.toContain('secret');
  });

  it('throws if a client is given twice, or a Cluster', () => {
    const client = new Redis({ lazyConnect: true });
    expect(start([client, b, client])).toBeInstanceOf(LockConfigError);
    const cluster = new Cluster(['redis://10.0.0.1'], { lazyConnect: true });
    expect(start([a, b, cluster as never])).toBeInstanceOf(LockConfigError);
  });

  it('takes an odd number of URLs, options and clients', () => {
    expect(
      start([a, { host: '10.0.0.2' }, new Redis(c, { lazyConnect: true })], { nodeTimeoutMs: 50 }),
    ).toBeUndefined();
  });
});
