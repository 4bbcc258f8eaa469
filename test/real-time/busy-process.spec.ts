import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { createClient } from 'redis';
import { RedisProxy } from '../support/proxy.js';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';

/** How long the process stands still. That is longer than both limits. */
const BLOCKED_MS = 3_000;

/** A request whose limit ends late has half of it more: 1.25 s for the reply of a Redis that is slow, too. */
const LIMITS = { unavailableAfterMs: 500, requestTimeoutMs: 2_500, waitMs: 600_000 };

function block(ms = BLOCKED_MS): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** Blocks the event loop as long, in ten tasks. */
async function blockInPieces(): Promise<void> {
  for (let i = 0; i < 10; i += 1) {
    block(BLOCKED_MS / 10);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const CLIENTS = [
  {
    name: 'ioredis',
    open: () => {
      const client = new Redis(testRedisUrl());
      return { redis: client, close: () => Promise.resolve(client.disconnect()) };
    },
  },
  {
    name: 'node-redis',
    open: () => {
      const client = createClient({ url: testRedisUrl() });
      const opened = client.connect();
      return {
        redis: fromNodeRedis(client),
        close: async () => {
          await opened;
          client.destroy();
        },
      };
    },
  },
];

describe.each(CLIENTS)('a busy process with a healthy Redis, $name', ({ open }) => {
  let running: RedisLocks;
  let client: ReturnType<typeof open>;
  let locks: LockService;

  beforeEach(() => {
    running = new RedisLocks();
    client = open();
    locks = running.start({ redis: client.redis, ...LIMITS });
  });

  afterEach(async () => {
    await running.close();
    await client.close();
  });

  const work = (id: string) => locks.using(`goods:${id}`, () => id);
  const outages = () => running.warnings.filter((line) => line.includes('cannot be reached'));

  it('serves calls around synchronous work', async () => {
    // The first calls of the process, before it has a connection.
    const first = [work('first'), work('second')];
    block();
    expect(await Promise.all(first)).toEqual(['first', 'second']);
    block();
    expect(await work('after')).toBe('after');
    const calls = [work('a'), work('b'), locks.using('goods:c', { waitMs: 0 }, () => 'c')];
    block();
    expect(await Promise.all(calls)).toEqual(['a', 'b', 'c']);
    const during = [work('d'), locks.using('goods:e', { waitMs: 0 }, () => 'e')];
    await blockInPieces();
    expect(await Promise.all(during)).toEqual(['d', 'e']);
    const held = await locks.acquire('goods:held');
    block();
    expect(held.held).toBe(true);
    const released = held.release();
    const health = locks.ping();
    block();
    expect(await released).toBe(true);
    expect(await health).toMatchObject({ isUp: true });
    expect(outages()).toEqual([]);
  });

  it('serves 3,000 calls for different keys at once', async () => {
    const ids = Array.from({ length: 3_000 }, (_, id) => String(id));
    const settled = await Promise.allSettled(ids.map(work));
    expect(settled.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(outages()).toEqual([]);
  });
});

describe('a Redis that is slow, and alive', () => {
  it('serves calls late if each reply takes longer than unavailableAfterMs, without an outage', async () => {
    const proxy = await RedisProxy.start(testRedisUrl());
    const running = new RedisLocks();
    const locks = running.start({ redis: proxy.url, ...LIMITS, requestTimeoutMs: 60_000 });
    try {
      await locks.using('goods:0', () => 0);
      proxy.delay('replies', 900);
      const calls = [1, 2, 3].map((id) => locks.using('goods:300', () => id));
      expect(await Promise.all(calls)).toEqual([1, 2, 3]);
      expect(await locks.using('goods:301', { waitMs: 0 }, () => 4)).toBe(4);
      expect(running.warnings).toEqual([]);
    } finally {
      await running.close();
      await proxy.close();
    }
  });
});
