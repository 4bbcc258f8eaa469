import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockService, type RedisLockModuleOptions, token } from 'nestjs-redis-lock';
import { eventually, RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { pythonWithRedis, runClient } from './client-process.js';

/** The result of another library's client. */
interface Done {
  /** How often the lock was held when the client requested it. */
  readonly refused: number;
  /** How often the client no longer had the lock when it released it. */
  readonly lost: number;
}

const ROUNDS = 30;
const LEASE_MS = 60_000;

/** The clients of other libraries: the command and the file. */
const CLIENTS: readonly (readonly [library: string, command: () => string | undefined, file: string])[] = [
  ['redlock', () => process.execPath, 'redlock-client.mjs'],
  ['redis-py', pythonWithRedis, 'redis_py_client.py'],
];

let running: RedisLocks;
let redis: Redis;
let key: string;

beforeEach(() => {
  running = new RedisLocks();
  redis = new Redis(testRedisUrl());
  key = `${uniquePrefix()}account:1`;
});
afterEach(async () => {
  await running.close();
  await redis.del(key, `${key}:counter`);
  await redis.quit();
});

/** Starts an instance whose keys are the resources, as the page on algorithms says. */
function instance(more: RedisLockModuleOptions = {}): LockService {
  const options = { redis: testRedisUrl(), store: token(), ttlMs: LEASE_MS };
  return running.start({ ...options, key: (resource) => resource, ...more });
}

/** Increments the counter by reading and writing. */
async function count(locks: LockService): Promise<void> {
  const counter = `${key}:counter`;
  for (let round = 0; round < ROUNDS; round += 1) {
    const lock = await locks.acquire(key);
    const read = Number(await redis.get(counter));
    await sleep(1);
    await redis.set(counter, read + 1);
    expect(await lock.release()).toBe(true);
    await sleep(Math.random() * 4);
  }
}

/** Returns whether the client of the other library has requested the lock. Its connection has the name of the key. */
async function hasRequested(): Promise<boolean> {
  const clients = (await redis.client('LIST')) as string;
  return clients.split('\n').some((client) => client.includes(`name=${key} `) && /cmd=(?:set|eval)\b/.test(client));
}

describe.each(CLIENTS)('token() with the keys of %s', (_library, command, file) => {
  it('loses no increment of a counter, and the other side waits', async () => {
    const executable = command();
    if (executable === undefined) return;
    const { hostname: host, port } = new URL(testRedisUrl());
    const options = { host, port: Number(port), key, counter: `${key}:counter`, leaseMs: LEASE_MS, rounds: ROUNDS };
    const locks = instance();
    const first = await locks.acquire(key);
    const theirs = runClient<Done>(executable, join(__dirname, file), options);
    await eventually('the other client is refused', hasRequested);
    await first.release();
    await count(locks);
    const { refused, lost } = await theirs;
    expect(await redis.get(options.counter)).toBe(String(2 * ROUNDS));
    expect(lost).toBe(0);
    expect(refused).toBeGreaterThan(0);
  });
});

describe('token() with a key that another library has locked', () => {
  it('waits until that library deletes its key, and leaves it as it is', async () => {
    await redis.set(key, 'theirs', 'PX', LEASE_MS);
    const locks = instance();
    expect(await locks.tryAcquire(key)).toBeNull();
    expect(await locks.inspect(key)).toMatchObject({ isOwn: false });
    const granted = locks.acquire(key);
    expect(await redis.get(key)).toBe('theirs');
    await redis.del(key);
    const lock = await granted;
    expect(await redis.set(key, 'theirs', 'PX', LEASE_MS, 'NX')).toBeNull();
    await lock.release();
    expect(await redis.set(key, 'theirs', 'PX', LEASE_MS, 'NX')).toBe('OK');
  });
});
