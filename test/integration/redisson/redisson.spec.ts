import { describe, expect, it } from '@jest/globals';
import { LockConfigError, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { eventually, type InstanceOptions } from '../../support/redis-locks.js';
import { redissonCommands } from '../../support/redisson-commands.js';
import type { RequestLog } from '../../support/request-log.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const NAME = 'account-1';
const CHANNEL = 'redisson_lock__channel:{account-1}';
const THREAD = '0f0e0d0c-0b0a-4908-8706-050403020100:41';
/** The id of an instance, and the number of its attempt. */
const FIELD = /^[\w-]+:\d+$/;

const here = forTests(new StoppedContention());

const instance = (options: InstanceOptions = {}): LockService =>
  here.instance({ store: redisson(), key: (resource) => resource, waitMs: 30_000, ...options });

/** Returns the messages of a channel, as they arrive. */
async function listenTo(channel: string): Promise<readonly string[]> {
  const client = here.client();
  const messages: string[] = [];
  client.on('message', (_, message) => messages.push(message));
  await client.subscribe(channel);
  return messages;
}

async function listeners(channel = CHANNEL): Promise<number> {
  return ((await here.admin.pubsub('NUMSUB', channel)) as [string, number])[1];
}

/** Locks account-1 as a thread of Redisson does. */
async function holdAsRedisson(name: string, leaseMs = 30_000): Promise<void> {
  await here.admin.hincrby(name, THREAD, 1);
  await here.admin.pexpire(name, leaseMs);
}

async function releaseAsRedisson(name: string, channel: string): Promise<void> {
  await here.admin.del(name);
  await here.admin.publish(channel, '0');
}

/** Starts to wait for the lock. Resolves when its channel is subscribed, which it is after the second request. */
async function wait(locks: LockService, name = NAME, channel = CHANNEL) {
  const before = await listeners(channel);
  const granted = locks.acquire(name);
  granted.catch(() => undefined);
  await here.clock.advanceUntil('somebody listens', async () => (await listeners(channel)) === before + 1);
  return { granted };
}

/** Waits until the channel is subscribed and nothing is on its way. Returns how many acquires were sent. */
async function waiting(log: RequestLog): Promise<number> {
  await here.clock.advanceUntil('the channel is subscribed', async () => (await listeners()) > 0);
  await here.clock.advance(0);
  return log.count('redissonAcquire');
}

// A waiter that awaits a message gets the lock although the clock stands still. One that polls does not.

describe('a lock of redisson()', () => {
  it('that another client has taken is released without a message, and the next message counts', async () => {
    const locks = instance();
    await holdAsRedisson(NAME);
    const { granted } = await wait(locks);
    await releaseAsRedisson(NAME, CHANNEL);
    const lost = await granted;
    await here.admin.del(NAME);
    await holdAsRedisson(NAME);
    expect(await lost.release()).toBe(false);
    const next = locks.acquire(NAME);
    await here.clock.advanceUntil('it listens', async () => (await listeners()) === 1);
    await here.clock.advance(0);
    await releaseAsRedisson(NAME, CHANNEL);
    expect(await (await next).release()).toBe(true);
  });

  it('is a hash with the count of its owner, and a TTL', async () => {
    const lock = await instance().acquire(NAME);
    expect(await here.admin.keys('*')).toEqual([NAME]);
    const fields = await here.admin.hgetall(NAME);
    expect(Object.keys(fields)).toEqual([expect.stringMatching(FIELD)]);
    expect(Object.values(fields)).toEqual(['1']);
    expect(await here.admin.pttl(NAME)).toBe(30_000);
    expect(await lock.release()).toBe(true);
    expect(await here.admin.keys('*')).toEqual([]);
  });

  it('publishes a message when it ends, with and without braces in its name', async () => {
    const locks = instance();
    const plain = await listenTo(CHANNEL);
    const braced = await listenTo('redisson_lock__channel:{accounts}:1');
    await locks.using(NAME, () => undefined);
    await locks.using('{accounts}:1', () => undefined);
    await eventually('both messages have arrived', () => plain.length + braced.length === 2);
    expect([plain, braced]).toEqual([['0'], ['0']]);
  });

  it('keeps the count at 1 if holds are nested or an acquire is repeated', async () => {
    const { proxy, log } = await here.way();
    const locks = instance({ redis: proxy.url });
    const lock = await locks.acquire(NAME);
    await locks.using('other', () =>
      locks.using('other', async () => expect(await here.admin.hvals('other')).toEqual(['1'])),
    );
    expect(log.count('redissonAcquire')).toBe(2);
    const [request] = log.requestsOf('redissonAcquire');
    const again = async () => (await here.admin.call(request[0], ...request.slice(1))) as unknown[];
    expect(await again()).toEqual([1, 0]);
    await here.admin.pexpire(NAME, 1_000);
    expect(await again()).toEqual([1, 0]);
    expect(await here.admin.hvals(NAME)).toEqual(['1']);
    expect(await here.admin.pttl(NAME)).toBe(30_000);
    await lock.release();
    expect(await here.admin.exists(NAME)).toBe(0);
  });
});

describe('the fencing token', () => {
  it.each([
    [NAME, 'redisson_lock_token:{account-1}'],
    ['{accounts}:1', 'redisson_lock_token:{accounts}:1'],
  ])('of %s rises with every grant, in %s', async (name, tokenKey) => {
    const locks = instance({ store: redisson({ fencing: true }) });
    await here.admin.set(tokenKey, 41);
    const tokens: number[] = [];
    const callers = [1, 2, 3].map(() => locks.using(name, (lock) => tokens.push(lock.fencingToken)));
    await Promise.all(callers);
    expect(tokens).toEqual([42, 43, 44]);
    expect(await here.admin.get(tokenKey)).toBe('44');
    expect(await here.admin.pttl(tokenKey)).toBe(-1);
    await locks.using(name, async () => {
      expect(await locks.inspect(name)).toMatchObject({ isOwn: true, fencingToken: 45 });
    });
  });

  it('throws at start if the client has a keyPrefix', () => {
    const client = here.client({ keyPrefix: 'app:' });
    expect(() => instance({ redis: client, store: redisson({ fencing: true }) })).toThrow(/keyPrefix/);
  });

  it('throws an error that advises fencing: true if it is off', async () => {
    const lock = await instance().acquire(NAME);
    expect(() => lock.fencingToken).toThrow(LockConfigError);
    expect(() => lock.fencingToken).toThrow(/redisson\(\{ fencing: true \}\)/);
  });

  it('is enabled by the only option', () => {
    expect(() => redisson({ fancing: true } as object)).toThrow('unknown option fancing');
    expect(() => redisson({ fencing: 1 } as object)).toThrow('fencing is 1; expected true or false');
    for (const mistaken of [true, null, 'fencing']) {
      expect(() => redisson(mistaken as never)).toThrow(
        /redisson\(\): the options are (?:true|null|"fencing"); expected a plain object/,
      );
    }
  });
});

describe('a waiter', () => {
  it.each(['0', '1'])('is notified by the message %s, and sends no request until then', async (message) => {
    const { proxy, log } = await here.way();
    await holdAsRedisson(NAME);
    const { granted } = await wait(instance({ redis: proxy.url }));
    await waiting(log);
    log.clear();
    await here.clock.advance(500);
    expect(log.count('redissonAcquire')).toBe(0);
    await here.admin.del(NAME);
    await here.admin.publish(CHANNEL, message);
    await granted;
    expect(log.count('redissonAcquire')).toBe(1);
  });

  it('is notified if the name has braces, and if the client has a keyPrefix', async () => {
    const client = here.client({ keyPrefix: 'app:' });
    for (const [locks, name] of [
      [instance(), '{accounts}:1'],
      [instance({ redis: client }), 'app:account-1'],
    ] as const) {
      const channel = name.includes('{') ? `redisson_lock__channel:${name}` : `redisson_lock__channel:{${name}}`;
      await holdAsRedisson(name);
      const { granted } = await wait(locks, name.replace('app:', ''), channel);
      await here.clock.advance(0);
      await releaseAsRedisson(name, channel);
      expect(await (await granted).release()).toBe(true);
    }
  });

  it('is notified of a release that overtakes the reply to its request', async () => {
    const { proxy } = await here.way();
    const locks = instance({ redis: here.twoWays(proxy.url, here.server.url) });
    await holdAsRedisson(NAME);
    const { granted } = await wait(locks);
    await here.clock.advance(0);
    proxy.hold('replies');
    const before = await requestCount();
    await here.admin.publish(CHANNEL, '0');
    await eventually('the acquire is refused', async () => (await requestCount()) > before);
    await releaseAsRedisson(NAME, CHANNEL);
    await here.clock.advance(0);
    proxy.resume('replies');
    // A poll comes after 100 ms at the earliest.
    await here.clock.advance(0);
    expect(await (await granted).release()).toBe(true);
  });

  it('gets the lock when the lease of the holder is over', async () => {
    const locks = instance();
    // The clock would move on while it connects.
    await locks.ping();
    await holdAsRedisson(NAME, 500);
    const from = here.clock.now();
    await here.clock.until(locks.acquire(NAME));
    expect(here.clock.now() - from).toBeLessThan(600);
  });

  it('misses no release while its subscriber is disconnected', async () => {
    const { proxy } = await here.way();
    await holdAsRedisson(NAME);
    const { granted } = await wait(instance({ redis: here.twoWays(here.server.url, proxy.url) }));
    await here.clock.advance(0);
    proxy.reset();
    await releaseAsRedisson(NAME, CHANNEL);
    expect(await (await granted).release()).toBe(true);
  });

  it('polls if pub/sub is refused, with one warning', async () => {
    const { proxy } = await here.way();
    proxy.refuseCommands(['SUBSCRIBE'], 'NOPERM this user has no permissions to access one of the channels');
    await holdAsRedisson(NAME);
    const granted = instance({ redis: proxy.url }).acquire(NAME);
    await here.clock.advanceUntil('the refusal is reported', () => here.warnings.length === 1);
    await here.admin.del(NAME);
    await here.clock.until(granted);
    expect(here.warnings).toEqual([expect.stringContaining('release messages cannot be received')]);
  });

  it('leaves no subscription, neither with the lock nor after a timeout', async () => {
    await holdAsRedisson(NAME);
    const locks = instance();
    const { granted } = await wait(locks);
    await releaseAsRedisson(NAME, CHANNEL);
    const lock = await granted;
    await here.clock.advanceUntil('nobody is subscribed', async () => (await listeners()) === 0, 11_000);
    await expect(here.clock.until(instance({ waitMs: 300 }).acquire(NAME))).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    });
    await here.clock.advanceUntil('nobody is subscribed', async () => (await listeners()) === 0, 11_000);
    await lock.release();
  });

  it('costs no subscription if it tries once', async () => {
    await holdAsRedisson(NAME);
    const { proxy } = await here.way();
    expect(await instance({ redis: proxy.url }).tryAcquire(NAME)).toBeNull();
    await here.clock.advance(100);
    expect(proxy.connectionCount).toBe(1);
  });
});

/** Counts the acquires of a held lock and the releases. */
async function requestCount(): Promise<number> {
  return Number(/cmdstat_hkeys:calls=(\d+)/.exec(await here.admin.info('commandstats'))?.[1] ?? 0);
}

describe('a user with an ACL', () => {
  it('needs only the permissions in the documentation', async () => {
    const keys = ['resetkeys', `~${NAME}`, `~redisson_lock_token:*`];
    const redis = await here.guest(...keys, '&redisson_lock__channel:*', '+info', ...redissonCommands());
    for (const store of [redisson(), redisson({ fencing: true })]) {
      const [one, other] = [1, 2].map(() => instance({ redis, store, ttlMs: 1_500 }));
      const lock = await one.acquire(NAME, { minHoldMs: 100 });
      const { granted } = await wait(other);
      await here.clock.advance(3_000);
      lock.assertHeld();
      expect(await one.inspect(NAME)).toMatchObject({ isOwn: true });
      expect(await one.ping()).toMatchObject({ isUp: true, handoff: 'subscription', degraded: undefined });
      await lock.release();
      await (await here.clock.until(granted)).release();
      const forced = await one.acquire(NAME);
      expect(await other.forceRelease(NAME)).toBe(true);
      expect(await forced.release()).toBe(false);
      await here.clock.advanceUntil('nobody is subscribed', async () => (await listeners()) === 0);
    }
    expect(await here.refused()).toEqual([]);
    expect(here.warnings).toEqual([]);
  });
});

describe('redisson() beside another store', () => {
  it('releases a lock although PUBLISH is refused', async () => {
    const lock = await instance({ redis: await here.guest('resetchannels', '+@all') }).acquire(NAME);
    expect(await lock.release()).toBe(true);
    expect(await here.admin.exists(NAME)).toBe(0);
    expect(here.warnings).toEqual([expect.stringContaining('release messages cannot be received')]);
  });
});

describe('a minimum hold', () => {
  it('notifies all waiters, and a Java thread that subscribes later', async () => {
    const messages = await listenTo(CHANNEL);
    const lock = await instance().acquire(NAME, { minHoldMs: 20_000 });
    await lock.release();
    await eventually('the message has arrived', () => messages.length === 2);
    expect(messages).toEqual(['1', '0']);
    expect(await here.admin.pttl(NAME)).toBeGreaterThan(10_000);
  });
});

/** Starts an instance whose lease a test can outlast. */
function withShortLease(fencing = false): LockService {
  return instance({ store: redisson({ fencing }), ttlMs: 900 });
}

/** Writes what a ReadWriteLock of Redisson writes to its hash when a thread locks it. */
async function lockAsReadWrite(mode: 'read' | 'write'): Promise<void> {
  const field = mode === 'write' ? `${THREAD}:write` : THREAD;
  await here.admin.multi().hset(NAME, 'mode', mode).hincrby(NAME, field, 1).pexpire(NAME, 30_000).exec();
}

describe.each([false, true])('a key that is not an RLock, fencing: %s', (fencing) => {
  it.each<[string, RegExp, () => Promise<unknown>]>([
    ['ReadWriteLock, read', /WRONGTYPE.*ReadWriteLock of Redisson/, () => lockAsReadWrite('read')],
    ['ReadWriteLock, write', /WRONGTYPE.*ReadWriteLock of Redisson/, () => lockAsReadWrite('write')],
    ['map', /WRONGTYPE.*not a lock of Redisson/, () => here.admin.hset(NAME, { name: 'ann', city: 'Ulm' })],
    ['map with one field', /WRONGTYPE.*not a lock of Redisson/, () => here.admin.hset(NAME, 'name', 'ann')],
    ['semaphore', /WRONGTYPE/, () => here.admin.set(NAME, 3)],
    ['list', /WRONGTYPE/, () => here.admin.lpush(NAME, 'x')],
  ])('is refused by its kind and stays as it is: %s', async (_kind, message, write) => {
    await write();
    const before = await here.admin.dump(NAME);
    const refused = withShortLease(fencing).acquire(NAME, { waitMs: 5_000 });
    await expect(refused).rejects.toBeInstanceOf(LockUnavailableError);
    await expect(refused).rejects.toMatchObject({ resource: NAME, message: expect.stringMatching(message) });
    expect(await here.admin.dump(NAME)).toBe(before);
    await expect(withShortLease(fencing).inspect(NAME)).rejects.toThrow(message);
    await expect(withShortLease(fencing).forceRelease(NAME)).rejects.toMatchObject({ refusal: 'WRONGTYPE' });
    expect(await here.admin.dump(NAME)).toBe(before);
  });

  it('does not prevent a release of a lock by force, and its waiters get the message', async () => {
    const messages = await listenTo(CHANNEL);
    await here.admin.multi().hset(NAME, THREAD, 2).pexpire(NAME, 30_000).exec();
    const locks = withShortLease(fencing);
    const next = locks.acquire(NAME, { waitMs: 20_000 });
    expect(await locks.forceRelease(NAME)).toBe(true);
    const lock = await here.clock.until(next);
    await eventually('the message comes', () => messages.includes('0'));
    const other = locks.forceRelease(NAME, { ifToken: 999 }).catch((error: unknown) => (error as LockConfigError).code);
    expect(await other).toBe(fencing ? false : 'LOCK_CONFIG');
    expect(await lock.release()).toBe(true);
  });
});

describe('a lock of redisson() that a ReadWriteLock of Redisson has entered', () => {
  it('is lost, and its release removes its own field only', async () => {
    const lock = await withShortLease().acquire(NAME);
    await lockAsReadWrite('write');
    await here.clock.advanceUntil('the lock is lost', () => lock.signal.aborted, 900);
    await lock.release();
    await here.clock.advanceUntil('the field is removed', async () => (await here.admin.hlen(NAME)) === 2);
    expect(await here.admin.hgetall(NAME)).toEqual({ mode: 'write', [`${THREAD}:write`]: '1' });
    // Neither a renewal nor a release has changed the other lock's TTL.
    expect(await here.admin.pttl(NAME)).toBeGreaterThan(10_000);
  });

  it('leaves the other lock open for its own lease after a minimum hold', async () => {
    const lock = await withShortLease().acquire(NAME, { minHoldMs: 500 });
    await lockAsReadWrite('read');
    await lock.release();
    expect(await here.admin.hgetall(NAME)).toEqual({ mode: 'read', [THREAD]: '1' });
    expect(await here.admin.pttl(NAME)).toBeGreaterThan(10_000);
  });
});
