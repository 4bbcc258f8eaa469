import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockLostError, LockTimeoutError } from 'nestjs-redis-lock';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { commandsIn, sectionOf } from '../../support/pages.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

describe.each([true, false])('a lock service on timestamp(), scripts: %s', (scripts) => {
  const keyOf = (resource: string): string => `${here.prefix}${resource}_lock`;
  const start = (unit: 's' | 'ms', ttlMs: number, more: object = {}) =>
    here.instance({ store: timestamp({ unit, scripts }), ttlMs, key: keyOf, ...more });

  it('renews while the lock is held, under the given key', async () => {
    const locks = start('ms', 1_200);
    const others = start('ms', 1_200);
    const lock = await locks.acquire('account:1');
    expect(() => lock.fencingToken).toThrow('gives no fencing tokens');
    expect(lock.key).toBe(`${here.prefix}account:1_lock`);
    await here.clock.advance(2_500);
    lock.assertHeld();
    expect(await others.tryAcquire('account:1')).toBeNull();
    expect(await locks.inspect('account:1')).toMatchObject({ isOwn: true, fencingToken: undefined });
    const seen = await others.inspect('account:1');
    // Plain commands write no more than the value, which a renewal may have replaced since.
    const value: unknown = expect.stringMatching(/^\d{13}$/);
    const name = scripts ? (await locks.inspect('account:1'))?.holder : value;
    expect(seen).toMatchObject({ isOwn: false, holder: name });
    expect(await lock.release()).toBe(true);
    expect(await here.admin.exists(lock.key)).toBe(0);
  });

  it('loses a lock whose key another client has, and leaves the key', async () => {
    const lock = await start('ms', 1_000).acquire('account:1');
    const theirs = String(here.clock.wallTime() + 60_000);
    await here.admin.set(lock.key, theirs);
    await here.clock.advanceUntil('the lock is lost', () => lock.signal.aborted);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    expect(await here.admin.get(lock.key)).toBe(theirs);
    await here.admin.del(lock.key);
  });

  it('stops after retryCount, and waits for an expiry', async () => {
    const key = keyOf('account:1');
    await here.admin.set(key, Math.floor(here.clock.wallTime() / 1000) + 60);
    const store = timestamp({ scripts, retryCount: 2, retryDelayMs: 20 });
    const few = here.instance({ store, ttlMs: 1_000, key: keyOf });
    const patient = start('s', 1_000);
    // The clock would move on while they connect.
    for (const locks of [few, patient]) await locks.ping();
    const from = here.clock.now();
    await expect(here.clock.until(few.acquire('account:1'))).rejects.toThrow(LockTimeoutError);
    // Two pauses of 20 ms, which the manual clock jitters to three quarters.
    expect(here.clock.now() - from).toBe(30);
    const seconds = (): number => Math.floor(here.clock.wallTime() / 1000);
    const expiry = seconds();
    await here.admin.set(key, expiry);
    const lock = await here.clock.until(patient.acquire('account:1'));
    expect(seconds()).toBe(expiry + 1);
    await lock.release();
  });

  it('works after a lost connection, and with the keyPrefix of a client', async () => {
    const { proxy } = await here.way();
    const client = here.client({ keyPrefix: 'app:', stringNumbers: true }, proxy.url);
    const locks = here.instance({ redis: client, store: timestamp({ unit: 'ms', scripts }), ttlMs: 5_000, key: keyOf });
    const lock = await locks.acquire('account:1');
    expect(await here.admin.exists(`app:${lock.key}`)).toBe(1);
    const ready = new Promise<void>((resolve) => client.once('ready', resolve));
    proxy.reset();
    await ready;
    expect(await locks.using('account:2', () => 'done')).toBe('done');
    expect(await lock.release()).toBe(true);
    expect(await here.admin.exists(`app:${lock.key}`)).toBe(0);
  });
});

it('uses neither scripts nor TIME if scripts is false', async () => {
  const { proxy } = await here.way();
  proxy.refuseCommands(['EVALSHA', 'EVAL', 'SCRIPT', 'TIME'], "ERR unknown command 'EVAL'");
  const locks = here.instance({ redis: proxy.url, store: timestamp({ scripts: false }), ttlMs: 1_000 });
  const lock = await locks.acquire('account:1');
  await lock.extend(2_000);
  expect(await lock.release()).toBe(true);
  expect(here.warnings).toEqual([]);
});

it.each([
  ['EVAL', { scripts: true }, "unknown command 'EVAL"],
  ['SETNX', { scripts: false }, "unknown command 'SETNX"],
])('names the missing command if the server has no %s', async (command, options, why) => {
  const { proxy } = await here.way();
  proxy.refuseCommands([command, `${command}SHA`], `ERR unknown command '${command}', with args beginning with: 'x'`);
  const locks = here.instance({ redis: proxy.url, store: timestamp(options), ttlMs: 1_000 });
  const refused = expect.objectContaining({ permanent: true, message: expect.stringContaining(why) });
  await expect(locks.acquire('account:1')).rejects.toEqual(refused);
});

describe('the commands that SECURITY.md lists', () => {
  const section = sectionOf('SECURITY.md', '`timestamp()`');
  const [forScripts, forPlain] = section.split('`scripts: false`').map(commandsIn);

  it.each([
    { scripts: true, listed: forScripts, helpers: ['~{*_lock}||holder'] },
    { scripts: false, listed: forPlain, helpers: [] },
  ])('are enough for a user with an ACL, scripts: $scripts', async ({ scripts, listed, helpers }) => {
    const may = ['info', ...listed].map((command) => `+${command}`);
    const locks = here.instance({
      redis: await here.guest('resetkeys', '~*_lock', ...helpers, ...may),
      store: timestamp({ scripts, unit: 'ms' }),
      ttlMs: 1_200,
      key: (resource) => `${resource}_lock`,
    });
    const lock = await locks.acquire('account:1');
    await here.clock.advance(1_400);
    lock.assertHeld();
    expect(await locks.tryAcquire('account:1')).toBeNull();
    expect(await locks.inspect('account:1')).toMatchObject({ isOwn: true });
    expect(await locks.ping()).toMatchObject({ isUp: true, handoff: 'polling' });
    expect(await lock.release()).toBe(true);
    await locks.using('account:1', { minHoldMs: 20 }, () => undefined);
    await here.admin.set('account:2_lock', here.clock.wallTime() - 1);
    await locks.using('account:2', () => undefined);
    const held = await locks.acquire('account:2');
    const forced = await locks.forceRelease('account:2').catch((error: unknown) => (error as LockConfigError).code);
    expect(forced).toBe(scripts ? true : 'LOCK_CONFIG');
    expect(await held.release()).toBe(!scripts);
    // Another client has locked it.
    await here.admin.set('account:4_lock', here.clock.wallTime() + 60_000);
    const isEnded = await locks.forceRelease('account:4').catch(() => false);
    expect([isEnded, await here.admin.del('account:4_lock')]).toEqual(scripts ? [true, 0] : [false, 1]);
    await here.admin.set('account:3_lock', 'somebody');
    expect(await locks.inspect('account:3')).toMatchObject({ holder: 'somebody' });
    expect(await here.refused()).toEqual([]);
  });
});
