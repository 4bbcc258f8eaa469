import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockConfigError, LockLostError, LockTimeoutError } from 'nestjs-redis-lock';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { commandsIn, sectionOf } from '../../support/pages.js';
import { RedisProxy } from '../../support/proxy.js';
import { RedisLocks } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';

needWallClocks();

let servers: StoppedServers;
let redis: Redis;
let clock: ServerManualClock;
let running: RedisLocks;

beforeAll(async () => {
  servers = await StoppedServers.start();
  redis = servers.admin;
});
beforeEach(() => {
  clock = servers.clock();
  running = new RedisLocks(clock);
});
afterEach(async () => {
  await running.close();
  await redis.flushall();
});
afterAll(() => servers.stop());

describe.each([true, false])('a lock service on timestamp(), scripts: %s', (scripts) => {
  const keyOf = (resource: string): string => `${running.prefix}${resource}_lock`;
  const start = (unit: 's' | 'ms', ttlMs: number, more: object = {}) =>
    running.start({ redis: servers.url, store: timestamp({ unit, scripts }), ttlMs, key: keyOf, ...more });

  it('renews while the lock is held, under the given key', async () => {
    const locks = start('ms', 1_200);
    const others = start('ms', 1_200);
    const lock = await locks.acquire('account:1');
    expect(lock.key).toBe(`${running.prefix}account:1_lock`);
    await clock.advance(2_500);
    lock.assertHeld();
    expect(await others.tryAcquire('account:1')).toBeNull();
    expect(await locks.inspect('account:1')).toMatchObject({ isOwn: true, fencingToken: undefined });
    const seen = await others.inspect('account:1');
    // Plain commands write no more than the value, which a renewal may have replaced since.
    const value: unknown = expect.stringMatching(/^\d{13}$/);
    const name = scripts ? (await locks.inspect('account:1'))?.holder : value;
    expect(seen).toMatchObject({ isOwn: false, holder: name });
    expect(await lock.release()).toBe(true);
    expect(await redis.exists(lock.key)).toBe(0);
  });

  it('throws an error with its name if a fencing token is read', async () => {
    const lock = await start('s', 2_000).acquire('account:1');
    expect(() => lock.fencingToken).toThrow(LockConfigError);
    expect(() => lock.fencingToken).toThrow('gives no fencing tokens');
    await lock.release();
  });

  it('loses a lock whose key another client has, and leaves the key', async () => {
    const lock = await start('ms', 1_000).acquire('account:1');
    const theirs = String(clock.wallTime() + 60_000);
    await redis.set(lock.key, theirs);
    await clock.advanceUntil('the lock is lost', () => lock.signal.aborted);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    expect(await redis.get(lock.key)).toBe(theirs);
    await redis.del(lock.key);
  });

  it('stops after retryCount, and waits for an expiry', async () => {
    const key = keyOf('account:1');
    await redis.set(key, Math.floor(clock.wallTime() / 1000) + 60);
    const store = timestamp({ scripts, retryCount: 2, retryDelayMs: 20 });
    const few = running.start({ redis: servers.url, store, ttlMs: 1_000, key: keyOf });
    const patient = start('s', 1_000);
    // The clock would move on while they connect.
    for (const locks of [few, patient]) await locks.ping();
    const from = clock.now();
    await expect(clock.until(few.acquire('account:1'))).rejects.toThrow(LockTimeoutError);
    // Two pauses of 20 ms, which the manual clock jitters to three quarters.
    expect(clock.now() - from).toBe(30);
    const seconds = (): number => Math.floor(clock.wallTime() / 1000);
    const expiry = seconds();
    await redis.set(key, expiry);
    const lock = await clock.until(patient.acquire('account:1'));
    expect(seconds()).toBe(expiry + 1);
    await lock.release();
  });

  it('works after a lost connection, and with the keyPrefix of a client', async () => {
    const proxy = await RedisProxy.start(servers.url);
    const client = new Redis(proxy.url, { keyPrefix: 'app:', maxRetriesPerRequest: null, stringNumbers: true });
    client.on('error', () => undefined);
    const locks = running.start({ redis: client, store: timestamp({ unit: 'ms', scripts }), ttlMs: 5_000, key: keyOf });
    const lock = await locks.acquire('account:1');
    expect(await redis.exists(`app:${lock.key}`)).toBe(1);
    const ready = new Promise<void>((resolve) => client.once('ready', resolve));
    proxy.reset();
    await ready;
    expect(await locks.using('account:2', () => 'done')).toBe('done');
    expect(await lock.release()).toBe(true);
    expect(await redis.exists(`app:${lock.key}`)).toBe(0);
    await client.quit();
    await proxy.close();
  });
});

it('uses neither scripts nor TIME if scripts is false', async () => {
  const proxy = await RedisProxy.start(servers.url);
  proxy.refuseCommands(['EVALSHA', 'EVAL', 'SCRIPT', 'TIME'], "ERR unknown command 'EVAL'");
  const locks = running.start({ redis: proxy.url, store: timestamp({ scripts: false }), ttlMs: 1_000 });
  const lock = await locks.acquire('account:1');
  await lock.extend(2_000);
  expect(await lock.release()).toBe(true);
  expect(running.warnings).toEqual([]);
  await proxy.close();
});

it.each([
  ['EVAL', { scripts: true }, "unknown command 'EVAL"],
  ['SETNX', { scripts: false }, "unknown command 'SETNX"],
])('names the missing command if the server has no %s', async (command, options, why) => {
  const proxy = await RedisProxy.start(servers.url);
  proxy.refuseCommands([command, `${command}SHA`], `ERR unknown command '${command}', with args beginning with: 'x'`);
  const locks = running.start({ redis: proxy.url, store: timestamp(options), ttlMs: 1_000 });
  const refused = expect.objectContaining({ permanent: true, message: expect.stringContaining(why) });
  await expect(locks.acquire('account:1')).rejects.toEqual(refused);
  await proxy.close();
});

describe('the commands that SECURITY.md lists', () => {
  const section = sectionOf('SECURITY.md', '`timestamp()`');
  const [forScripts, forPlain] = section.split('`scripts: false`').map(commandsIn);

  it.each([
    { scripts: true, listed: forScripts, helpers: ['~{*_lock}||holder'] },
    { scripts: false, listed: forPlain, helpers: [] },
  ])('are enough for a user with an ACL, scripts: $scripts', async ({ scripts, listed, helpers }) => {
    await redis.acl('LOG', 'RESET');
    const may = ['info', ...listed].map((command) => `+${command}`);
    await redis.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*_lock', ...helpers, ...may);
    const locks = running.start({
      redis: servers.url.replace('redis://', 'redis://guest:any@'),
      store: timestamp({ scripts, unit: 'ms' }),
      ttlMs: 1_200,
      key: (resource) => `${resource}_lock`,
    });
    const lock = await locks.acquire('account:1');
    await clock.advance(1_400);
    lock.assertHeld();
    expect(await locks.tryAcquire('account:1')).toBeNull();
    expect(await locks.inspect('account:1')).toMatchObject({ isOwn: true });
    expect(await locks.ping()).toMatchObject({ isUp: true, handoff: 'polling' });
    expect(await lock.release()).toBe(true);
    await locks.using('account:1', { minHoldMs: 20 }, () => undefined);
    await redis.set('account:2_lock', clock.wallTime() - 1);
    await locks.using('account:2', () => undefined);
    const held = await locks.acquire('account:2');
    const forced = await locks.forceRelease('account:2').catch((error: unknown) => (error as LockConfigError).code);
    expect(forced).toBe(scripts ? true : 'LOCK_CONFIG');
    expect(await held.release()).toBe(!scripts);
    // Another client has locked it.
    await redis.set('account:4_lock', clock.wallTime() + 60_000);
    const isEnded = await locks.forceRelease('account:4').catch(() => false);
    expect([isEnded, await redis.del('account:4_lock')]).toEqual(scripts ? [true, 0] : [false, 1]);
    await redis.set('account:3_lock', 'somebody');
    expect(await locks.inspect('account:3')).toMatchObject({ holder: 'somebody' });
    const log = (await redis.acl('LOG', '100')) as readonly (readonly string[])[];
    const refused = log.map((entry) => entry[entry.indexOf('object') + 1]);
    // The other commands are those that ioredis sends by itself.
    expect(refused.filter((object) => !/^(?:client|hello)\b/.test(object))).toEqual([]);
    await redis.acl('DELUSER', 'guest');
  });
});
