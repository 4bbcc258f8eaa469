import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { type LockConfigError, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';

needWallClocks();

const NAME = 'account-1';
const THREAD = '0f0e0d0c-0b0a-4908-8706-050403020100:41';

let server: StoppedServers;
let admin: Redis;
let clock: ServerManualClock;
let running: RedisLocks;

beforeAll(async () => {
  server = await StoppedServers.start();
  admin = server.admin;
});
beforeEach(() => {
  clock = server.clock();
  running = new RedisLocks(clock);
});
afterEach(async () => {
  await running.close();
  await admin.flushall();
});
afterAll(() => server.stop());

function instance(fencing = false): LockService {
  return running.start({ redis: server.url, store: redisson({ fencing }), key: (resource) => resource, ttlMs: 900 });
}

/** Writes what a ReadWriteLock of Redisson writes to its hash when a thread locks it. */
async function lockAsReadWrite(mode: 'read' | 'write'): Promise<void> {
  const field = mode === 'write' ? `${THREAD}:write` : THREAD;
  await admin.multi().hset(NAME, 'mode', mode).hincrby(NAME, field, 1).pexpire(NAME, 30_000).exec();
}

describe.each([false, true])('a key that is not an RLock, fencing: %s', (fencing) => {
  it.each<[string, RegExp, () => Promise<unknown>]>([
    ['ReadWriteLock, read', /WRONGTYPE.*ReadWriteLock of Redisson/, () => lockAsReadWrite('read')],
    ['ReadWriteLock, write', /WRONGTYPE.*ReadWriteLock of Redisson/, () => lockAsReadWrite('write')],
    ['map', /WRONGTYPE.*not a lock of Redisson/, () => admin.hset(NAME, { name: 'ann', city: 'Ulm' })],
    ['map with one field', /WRONGTYPE.*not a lock of Redisson/, () => admin.hset(NAME, 'name', 'ann')],
    ['semaphore', /WRONGTYPE/, () => admin.set(NAME, 3)],
    ['list', /WRONGTYPE/, () => admin.lpush(NAME, 'x')],
  ])('is refused by its kind and stays as it is: %s', async (_kind, message, write) => {
    await write();
    const before = await admin.dump(NAME);
    const error: unknown = await instance(fencing)
      .acquire(NAME, { waitMs: 5_000 })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect(error).toMatchObject({ resource: NAME, message: expect.stringMatching(message) });
    expect(await admin.dump(NAME)).toBe(before);
    await expect(instance(fencing).forceRelease(NAME)).rejects.toMatchObject({ refusal: 'WRONGTYPE' });
    expect(await admin.dump(NAME)).toBe(before);
  });

  it('does not prevent a release of a lock by force, and its waiters get the message', async () => {
    const [subscriber, messages] = [admin.duplicate(), [] as string[]];
    await subscriber.subscribe(`redisson_lock__channel:{${NAME}}`);
    subscriber.on('message', (_channel, message) => messages.push(message));
    await admin.multi().hset(NAME, THREAD, 2).pexpire(NAME, 30_000).exec();
    const locks = instance(fencing);
    const waiting = locks.acquire(NAME, { waitMs: 20_000 });
    expect(await locks.forceRelease(NAME)).toBe(true);
    const lock = await clock.until(waiting);
    await eventually('the message comes', () => messages.includes('0'));
    const other = locks.forceRelease(NAME, { ifToken: 999 }).catch((error: unknown) => (error as LockConfigError).code);
    expect(await other).toBe(fencing ? false : 'LOCK_CONFIG');
    expect(await lock.release()).toBe(true);
    subscriber.disconnect();
  });
});

describe('a lock of redisson() that a ReadWriteLock of Redisson has entered', () => {
  it('is lost, and its release removes its own field only', async () => {
    const lock = await instance().acquire(NAME);
    await lockAsReadWrite('write');
    await clock.advanceUntil('the lock is lost', () => lock.signal.aborted, 900);
    await lock.release();
    await clock.advanceUntil('the field is removed', async () => (await admin.hlen(NAME)) === 2);
    expect(await admin.hgetall(NAME)).toEqual({ mode: 'write', [`${THREAD}:write`]: '1' });
    // Neither a renewal nor a release has changed the other lock's TTL.
    expect(await admin.pttl(NAME)).toBeGreaterThan(10_000);
  });

  it('leaves the other lock open for its own lease after a minimum hold', async () => {
    const lock = await instance().acquire(NAME, { minHoldMs: 500 });
    await lockAsReadWrite('read');
    await lock.release();
    expect(await admin.hgetall(NAME)).toEqual({ mode: 'read', [THREAD]: '1' });
    expect(await admin.pttl(NAME)).toBeGreaterThan(10_000);
  });

  it('refuses other callers until the hash is gone', async () => {
    const [ours, others] = [instance(), instance()];
    const lock = await ours.acquire(NAME);
    await lockAsReadWrite('write');
    await expect(others.acquire(NAME)).rejects.toThrow('ReadWriteLock of Redisson');
    await lock.release();
    await admin.del(NAME);
    await others.using(NAME, () => undefined);
    expect(await admin.exists(NAME)).toBe(0);
  });
});
