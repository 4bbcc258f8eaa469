import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { Redis } from 'ioredis';
import { timestamp, type TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { pythonWithRedis, runClient } from './client-process.js';

/** The result of a client. */
interface Done {
  readonly added: number;
  readonly takenOver: number;
  readonly lost: number;
  readonly late: number;
}

/** What all clients share. */
interface Place {
  readonly running: RedisLocks;
  readonly redis: Redis;
  readonly key: string;
  readonly counter: string;
}

const NODE = join(__dirname, 'timestamp-client.mjs');
const PYTHON = join(__dirname, 'timestamp_client.py');
const ROUNDS = 40;
const CRASHES = 2;
/** Longer than a machine stands still: a client that is late between a check and its write loses an update. */
const LEASES = { s: 3, ms: 3_000 } as const;

/** Runs one instance of this library, with rounds like those of the other clients. */
async function ourClient({ running, redis, key, counter }: Place, options: TimestampOptions): Promise<Done> {
  const ttlMs = options.unit === 'ms' ? LEASES.ms : LEASES.s * 1_000;
  const store = timestamp({ retryDelayMs: 8, ...options });
  const locks = running.start({ redis: testRedisUrl(), store, ttlMs, waitMs: 60_000, key: () => key });
  const done = { added: 0, takenOver: 0, lost: 0, late: 0 };
  for (let round = 0; round < ROUNDS; round += 1) {
    const lock = await locks.acquire('account:1');
    const read = Number(await redis.get(counter));
    await sleep(1 + Math.random() * 3);
    if (lock.signal.aborted) done.late += 1;
    else {
      await redis.set(counter, read + 1);
      done.added += 1;
    }
    await lock.release();
    await sleep(Math.random() * 4);
  }
  return done;
}

/**
 * Runs two instances of this library and three independent clients on one key. Each increments a counter by reading and
 * writing. The independent clients crash in some rounds and leave a key without a TTL.
 */
export async function contend(unit: 'ms' | 's', scripts: boolean): Promise<void> {
  const key = `${uniquePrefix()}account:1_lock`;
  const counter = `${key}:counter`;
  const running = new RedisLocks();
  const redis = new Redis(testRedisUrl());
  try {
    const { hostname: host, port } = new URL(testRedisUrl());
    const others = {
      host,
      port: Number(port),
      key,
      counter,
      unit,
      lease: LEASES[unit],
      rounds: ROUNDS,
      crashes: CRASHES,
    };
    const python = pythonWithRedis();
    const ours = { running, redis, key, counter };
    const clients = [
      runClient<Done>(process.execPath, NODE, others),
      ...(python === undefined ? [] : [1, 2].map(() => runClient<Done>(python, PYTHON, others))),
      ...[1, 2].map(() => ourClient(ours, { unit, scripts })),
    ];
    const done = await Promise.all(clients);
    const sum = (of: (one: Done) => number): number => done.reduce((all, one) => all + of(one), 0);
    const added = sum((one) => one.added);
    expect(await redis.get(counter)).toBe(String(added));
    expect(added).toBeGreaterThan(clients.length * ROUNDS * 0.8);
  } finally {
    await running.close();
    await redis.del(key, counter);
    await redis.quit();
  }
}

/** How many callers of this library request the key over and over beside the clients that poll. */
const BUSY_CALLERS = 5;
export const VISITS = 10;
/** The pace of the articles' clients. */
const PACE_MS = 100;

/** Runs clients that poll every 100 ms beside busy callers of this library, until each has had the key 10 times.
 * Returns how often each had it. */
export async function pollBesideBusyCallers(scripts: boolean): Promise<readonly number[]> {
  const key = `${uniquePrefix()}account:1_lock`;
  const counter = `${key}:counter`;
  const running = new RedisLocks();
  const redis = new Redis(testRedisUrl());
  const locks = running.start({ redis: testRedisUrl(), store: timestamp({ scripts }), ttlMs: 10_000, key: () => key });
  const over = new AbortController();
  const call = async (): Promise<void> => {
    while (!over.signal.aborted) await locks.using('account:1', () => sleep(2));
  };
  try {
    const calling = Array.from({ length: BUSY_CALLERS }, call);
    const { hostname: host, port } = new URL(testRedisUrl());
    const rounds = { lease: 10, unit: 's', rounds: VISITS, crashes: 0, paceMs: PACE_MS };
    const others = { host, port: Number(port), key, counter, ...rounds };
    const python = pythonWithRedis();
    const clients = [runClient<Done>(process.execPath, NODE, others)];
    if (python !== undefined) clients.push(runClient<Done>(python, PYTHON, others));
    const done = await Promise.all(clients);
    over.abort();
    await Promise.all(calling);
    return done.map(({ added }) => added);
  } finally {
    over.abort();
    await running.close();
    await redis.del(key, counter);
    await redis.quit();
  }
}
