import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { timestamp, type TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { pythonWithRedis, runClient } from './client-process.js';

/** The result of a client: how often it has incremented the counter. */
interface Done {
  readonly added: number;
}

const NODE = join(__dirname, 'timestamp-client.mjs');
const PYTHON = join(__dirname, 'timestamp_client.py');
const ROUNDS = 40;
/** Longer than a machine stands still: a client that is late between a check and its write loses an update. */
const LEASES = { s: 3, ms: 3_000 } as const;
/** How often each client has the key beside busy callers. */
const VISITS = 10;

let running: RedisLocks;
let redis: Redis;
let key: string;
let counter: string;

beforeEach(() => {
  running = new RedisLocks();
  redis = new Redis(testRedisUrl());
  key = `${uniquePrefix()}account:1_lock`;
  counter = `${key}:counter`;
});
afterEach(async () => {
  await running.close();
  await redis.del(key, counter);
  await redis.quit();
});

const instance = (ttlMs: number, options: TimestampOptions) =>
  running.start({ redis: testRedisUrl(), store: timestamp(options), ttlMs, key: () => key });

/** Runs independent clients on the key: one in Node, and some in Python if there is one. */
function independent(inPython: number, options: object): Promise<Done>[] {
  const { hostname: host, port } = new URL(testRedisUrl());
  const given = { host, port: Number(port), key, counter, ...options };
  const python = pythonWithRedis();
  const count = python === undefined ? 0 : inPython;
  const clients = Array.from({ length: count }, () => runClient<Done>(python as string, PYTHON, given));
  return [runClient<Done>(process.execPath, NODE, given), ...clients];
}

/** Runs one instance of this library, with rounds like those of the other clients. */
async function ours(options: TimestampOptions): Promise<Done> {
  const locks = instance(options.unit === 'ms' ? LEASES.ms : LEASES.s * 1_000, { retryDelayMs: 8, ...options });
  let added = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const lock = await locks.acquire('account:1');
    const read = Number(await redis.get(counter));
    await sleep(1 + Math.random() * 3);
    if (!lock.signal.aborted) {
      await redis.set(counter, read + 1);
      added += 1;
    }
    await lock.release();
    await sleep(Math.random() * 4);
  }
  return { added };
}

describe.each([true, false])('timestamp() beside clients in other languages, scripts: %s', (scripts) => {
  it.each(['s', 'ms'] as const)('loses no update of a counter, expiries included, in %s', async (unit) => {
    // A client that crashes leaves a key without a TTL.
    const theirs = independent(2, { unit, lease: LEASES[unit], rounds: ROUNDS, crashes: 2 });
    const done = await Promise.all([...theirs, ours({ unit, scripts }), ours({ unit, scripts })]);
    const added = done.reduce((sum, one) => sum + one.added, 0);
    expect(await redis.get(counter)).toBe(String(added));
    expect(added).toBeGreaterThan(done.length * ROUNDS * 0.8);
  });

  it('lets clients in that poll every 100 ms beside busy callers', async () => {
    const locks = instance(10_000, { scripts });
    const over = new AbortController();
    const call = async (): Promise<void> => {
      while (!over.signal.aborted) await locks.using('account:1', () => sleep(2));
    };
    const calling = Array.from({ length: 5 }, call);
    const polling = { unit: 's', lease: 10, rounds: VISITS, crashes: 0, paceMs: 100 };
    const done = await Promise.all(independent(1, polling)).finally(() => over.abort());
    await Promise.all(calling);
    expect(new Set(done.map(({ added }) => added))).toEqual(new Set([VISITS]));
  });
});
