import { afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockService, LockUnavailableError, token } from 'nestjs-redis-lock';
import { Masters } from '../support/masters.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { installLibraries } from './install-libraries.js';
import { Peer } from './peer.js';
import { forTests } from '../support/for-tests.js';

/** The key that a library makes of the name that its caller gives. The table of docs/moving.md has them. */
type KeyOf = (resource: string) => string;

const same: KeyOf = (resource) => resource;

const LIBRARIES: readonly (readonly [library: string, keyOf: KeyOf])[] = [
  ['redlock', same],
  ['redlock 4', same],
  ['@sesamecare-oss/redlock', same],
  ['redlock-universal', same],
  ['redis-semaphore', (resource) => `mutex:${resource}`],
  ['murlock', (resource) => `AccountService:pay:${resource}`],
  ['@anchan828/nest-redlock', same],
  ['nestjs-simple-redis-lock', (resource) => `lock:${resource}`],
];

const ON_MASTERS = LIBRARIES.filter(([library]) =>
  ['redlock', 'redlock 4', 'redlock-universal', 'redis-semaphore', '@anchan828/nest-redlock'].includes(library),
);

const ROUNDS = 30;
const LEASE_MS = 30_000;

const peers: Peer[] = [];
let running: RedisLocks;
let redis: Redis;
let name: string;

beforeAll(installLibraries);
beforeEach(() => {
  running = new RedisLocks();
  redis = new Redis(testRedisUrl());
  name = `${uniquePrefix()}1`;
});
afterEach(async () => {
  await Promise.all(peers.splice(0).map((peer) => peer.kill()));
  await running.close();
  const left = await redis.keys(`*${name}*`);
  if (left.length > 0) await redis.del(...left);
  await redis.quit();
});

async function started(library: string, urls: readonly string[] = [testRedisUrl()]): Promise<Peer> {
  const peer = await Peer.library(library, urls, LEASE_MS);
  peers.push(peer);
  return peer;
}

/** Starts an instance whose keys are those of a library. */
function instance(keyOf: KeyOf): LockService {
  return running.start({ redis: testRedisUrl(), store: token(), ttlMs: LEASE_MS, waitMs: 60_000, key: keyOf });
}

/** Lets each side hold the lock while the other wants it. Asserts that it does not get it. */
async function expectExclusion(peer: Peer, locks: LockService): Promise<void> {
  expect(await peer.call('try', name)).toBe('held');
  expect(await locks.tryAcquire(name)).toBeNull();
  const waiting = locks.acquire(name);
  expect(await peer.call('unlock', name)).toBe('released');
  const lock = await waiting;
  expect(await peer.call('try', name)).toBe('busy');
  // What the caller there did after its refusal has left the lock as it is.
  await lock.extend();
  expect(await lock.release()).toBe(true);
  expect(await peer.call('try', name)).toBe('held');
  expect(await peer.call('unlock', name)).toBe('released');
}

/** Increments the counter by reading and writing. */
async function count(locks: LockService, counter: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    await locks.using(name, async () => {
      const read = Number(await redis.get(counter));
      await redis.set(counter, read + 1);
    });
  }
}

describe.each(LIBRARIES)('token() with the keys of %s', (library, keyOf) => {
  it('refuses its callers and is refused by one key, and both count without a loss', async () => {
    const peer = await started(library);
    const locks = instance(keyOf);
    await expectExclusion(peer, locks);
    expect(await redis.exists(keyOf(name))).toBe(0);
    expect(await peer.call('try', name)).toBe('held');
    expect(await redis.exists(keyOf(name))).toBe(1);
    expect(await peer.call('unlock', name)).toBe('released');

    const counter = `${name}:counter`;
    const theirs = peer.call('count', name, counter, String(ROUNDS));
    await count(locks, counter);
    expect(JSON.parse(await theirs)).toMatchObject({ lost: 0 });
    expect(await redis.get(counter)).toBe(String(2 * ROUNDS));
  });
});

describe.each(['redlock', 'redlock 4', '@sesamecare-oss/redlock'])('a list of keys beside %s', (library) => {
  it('is acquired by one side as a whole, or not at all', async () => {
    const list = [`${name}a`, `${name}b`];
    const peer = await started(library);
    const locks = instance(same);
    const second = await locks.acquire(list[1]);
    expect(await peer.call('try', list.join(','))).toBe('busy');
    expect(await redis.exists(list[0])).toBe(0);
    await second.release();
    expect(await peer.call('try', list.join(','))).toBe('held');
    expect(await locks.tryAcquire(list)).toBeNull();
    const waiting = locks.acquire(list);
    expect(await peer.call('unlock', list.join(','))).toBe('released');
    await (await waiting).release();
    expect(await redis.exists(...list)).toBe(0);
  });
});

describe('a quorum beside', () => {
  const masters = forTests(new Masters(3));

  it.each(ON_MASTERS)('%s refuses its callers and is refused, on three masters', async (library, keyOf) => {
    const peer = await started(library, masters.urls);
    const options = { ttlMs: LEASE_MS, waitMs: 60_000, requestTimeoutMs: 10_000, key: keyOf };
    await expectExclusion(peer, await masters.instance(options, { nodeTimeoutMs: 5_000 }));
    expect(masters.warnings).toEqual([]);
  });
});

describe('a semaphore of redis-semaphore', () => {
  const LIBRARY = 'a semaphore of redis-semaphore';

  it('makes keys that no lock here can have, and neither side gets them', async () => {
    const peer = await started(LIBRARY);
    const locks = instance((resource) => `semaphore:${resource}`);
    expect(await peer.call('try', name)).toBe('held');
    await expect(locks.acquire(name)).rejects.toThrow(LockUnavailableError);
    expect(await peer.call('unlock', name)).toBe('released');
    await locks.using(name, async () => {
      await expect(peer.call('try', name)).rejects.toThrow(/WRONGTYPE/);
    });
  });

  it('moves to permits in two steps, with two holders at any time', async () => {
    const [old, first] = await Promise.all([started(LIBRARY), started(LIBRARY)]);
    const [locks, next] = [instance(same), instance(same)];
    const permits = { permits: 2 };
    // An instance of step 1 holds both, the old one first.
    expect(await old.call('try', name)).toBe('held');
    expect(await first.call('try', name)).toBe('held');
    const inside = await locks.acquire(name, permits);
    expect(await (await started(LIBRARY)).call('try', name)).toBe('busy');
    // The last instance of the old code has stopped. Those of step 2 have the permits only.
    expect(await old.call('unlock', name)).toBe('released');
    const second = await next.tryAcquire(name, permits);
    expect(second).not.toBeNull();
    expect(await next.tryAcquire(name, permits)).toBeNull();
    expect(await first.call('unlock', name)).toBe('released');
    await inside.release();
    await second?.release();
  });
});

describe('nestjs-simple-redis-lock', () => {
  const LIBRARY = 'nestjs-simple-redis-lock';
  const keyOf: KeyOf = (resource) => `lock:${resource}`;

  it('sets the TTL of a lock of this module by `setTTL`, and a renewal restores it', async () => {
    const peer = await started(LIBRARY);
    const lock = await instance(keyOf).acquire(name);
    await peer.call('setTtl', name, '5000');
    expect(await redis.pttl(keyOf(name))).toBeLessThanOrEqual(5_000);
    await lock.extend();
    expect(await redis.pttl(keyOf(name))).toBeGreaterThan(5_000);
    expect(await lock.release()).toBe(true);
  });

  it('deletes the lock of its own holder if another caller of its process times out', async () => {
    const peer = await started(LIBRARY);
    expect(await peer.call('try', name)).toBe('held');
    expect(await peer.call('try', name)).toBe('busy');
    await eventually('the lock is gone', async () => (await redis.exists(keyOf(name))) === 0);
  });
});
