import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LockStore } from '../../../lib/contract/store.js';
import { TimestampLocks } from '../../support/timestamp-locks.js';
import { forTests } from '../../support/for-tests.js';

const locks = forTests(new TimestampLocks());

describe.each([true, false])('timestamp() with scripts: %s', (scripts) => {
  let ours: LockStore;
  let owner: string;

  beforeEach(async () => {
    ours = await locks.store({ scripts });
    owner = locks.nextOwner();
  });

  it('writes now + lease + 1, and a TTL', async () => {
    locks.clock.wallMs += 900;
    expect(await locks.status(ours, owner)).toBe('granted');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    const ttl = await locks.admin.pttl(locks.key);
    expect(ttl).toBeGreaterThan(10_000);
    expect(ttl).toBeLessThanOrEqual(11_000);
  });

  it('writes the same in milliseconds', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.acquire(ours, owner, 250);
    expect(await locks.value()).toBe(String(locks.clock.wallMs + 251));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(251);
  });

  it('rounds a lease up to whole seconds', async () => {
    await locks.acquire(ours, owner, 1_001);
    expect(await locks.value()).toBe(String(locks.seconds + 3));
  });

  it('takes a lock over if now > value, not before', async () => {
    await locks.admin.set(locks.key, locks.seconds);
    locks.clock.wallMs += 999;
    const held = await locks.acquire(ours, owner);
    expect(held).toMatchObject({ status: 'held', queued: false, remainingMs: 1 });
    locks.clock.wallMs += 1;
    expect(await locks.status(ours, owner)).toBe('granted');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    expect(await locks.admin.pttl(locks.key)).toBeGreaterThan(10_000);
  });

  it('reads a value with a fraction of a second', async () => {
    await locks.admin.set(locks.key, `${locks.seconds}.5`);
    expect(await locks.status(ours, owner)).toBe('held');
    locks.clock.wallMs += 1_000;
    expect(await locks.status(ours, owner)).toBe('granted');
  });

  it.each(['', 'somebody', '-1', '0x10', 'nan', '1e3'])('never takes a lock over if its value is %j', async (value) => {
    await locks.admin.set(locks.key, value);
    expect(await locks.acquire(ours, owner)).toMatchObject({ status: 'held', queued: false, remainingMs: undefined });
    expect(await ours.inspect(locks.key)).toEqual({ holder: value, remainingMs: Infinity, token: undefined });
    expect(await locks.value()).toBe(value);
  });

  it('never takes a lock over if its value is seconds in place of milliseconds', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.admin.set(locks.key, locks.seconds);
    expect(await locks.status(ours, owner)).toBe('held');
    await locks.admin.set(locks.key, '1000');
    expect(await locks.status(ours, owner)).toBe('granted');
  });

  it('returns no remainingMs for milliseconds in place of seconds', async () => {
    const milliseconds = String(locks.clock.wallMs - 60_000);
    await locks.admin.set(locks.key, milliseconds);
    expect(await locks.acquire(ours, owner)).toMatchObject({ status: 'held', queued: false, remainingMs: undefined });
    expect(await ours.inspect(locks.key)).toMatchObject({ holder: milliseconds, remainingMs: Infinity });
  });

  it('neither deletes nor renews its lock from now = value on', async () => {
    await locks.acquire(ours, owner);
    locks.clock.wallMs += 11_000;
    expect(await locks.extend(ours, owner)).toBe('lost');
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).not.toBeNull();
  });

  it('releases its lock until now = value', async () => {
    await locks.acquire(ours, owner);
    locks.clock.wallMs += 10_999;
    expect(await locks.release(ours, owner)).toBe(true);
    expect(await locks.value()).toBeNull();
  });

  it('does not extend a lease if the wall clock is set back', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.acquire(ours, owner, 50);
    locks.clock.wallMs -= 3_600_000;
    await locks.pass(60);
    await locks.admin.set(locks.key, locks.clock.wallMs + 3_600_051);
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).not.toBeNull();
  });

  it('renews beyond the old expiry if the wall clock is set back', async () => {
    const before = locks.seconds;
    await locks.acquire(ours, owner);
    await locks.pass(1);
    locks.clock.wallMs -= 8_000;
    expect(await locks.extend(ours, owner, 20_000)).toBe('renewed');
    expect(await locks.value()).toBe(String(before + 21));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(21_000);
    expect(await locks.extend(ours, owner, 5_000)).toBe('renewed');
    expect(await locks.value()).toBe(String(before + 21));
    expect(await locks.release(ours, owner, 3_000)).toBe(true);
    expect(await locks.value()).toBe(String(before + 4));
  });

  it('ends a lease if the wall clock is set forward', async () => {
    await locks.acquire(ours, owner);
    locks.clock.wallMs += 5_000;
    expect(await locks.extend(ours, owner)).toBe('renewed');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(11_000);
  });

  it.each([-1, 1, 2])('keeps its lock if the loser of a race writes a value %i s later', async (later) => {
    await locks.admin.set(locks.key, locks.seconds - 1);
    await locks.acquire(ours, owner);
    const lose = (): Promise<unknown> => locks.admin.getset(locks.key, locks.seconds + 11 + later);
    await lose();
    expect((await ours.inspect(locks.key))?.holder).toBe('instance');
    expect(await locks.extend(ours, owner, 30_000)).toBe('renewed');
    expect(await locks.value()).toBe(String(locks.seconds + 31));
    expect(await locks.admin.pttl(locks.key)).toBeGreaterThan(30_000);
    await locks.admin.getset(locks.key, locks.seconds + 31 + later);
    expect(await locks.release(ours, owner)).toBe(true);
    expect(await locks.value()).toBeNull();
  });

  it('neither renews nor deletes the lock of another client after a flush', async () => {
    await locks.acquire(ours, owner);
    const theirs = String(locks.seconds + 30);
    await locks.admin.set(locks.key, theirs);
    expect(await locks.release(ours, owner)).toBe(false);
    const again = locks.nextOwner();
    await locks.admin.del(locks.key);
    await locks.acquire(ours, again);
    await locks.admin.set(locks.key, theirs);
    expect(await locks.extend(ours, again)).toBe('lost');
    expect(await locks.release(ours, again)).toBe(false);
    expect(await locks.value()).toBe(theirs);
  });

  it.each([
    [1_000, 'with'],
    [1_000, 'without'],
    [30_000, 'with'],
    [30_000, 'without'],
  ])('leaves the lock of a client that took over a loser’s expiry: %i ms, %s a TTL', async (leaseMs, ttl) => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.acquire(ours, owner, leaseMs);
    await locks.admin.getset(locks.key, locks.clock.wallMs + leaseMs - 4);
    // An old client takes over by the rules 3 ms before our expiry.
    locks.clock.wallMs += leaseMs - 3;
    const theirs = String(locks.clock.wallMs + leaseMs + 1);
    await locks.admin.getset(locks.key, theirs);
    // The wall clock of the test has moved, and the TTL of our keys has not.
    const elapsedMs = leaseMs - 3;
    if (ttl === 'with') await locks.admin.pexpire(locks.key, elapsedMs + leaseMs + 1);
    expect(await locks.extend(ours, owner, leaseMs)).toBe('lost');
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).toBe(theirs);
  });

  it('trusts the value of a race’s loser in the first half of its lease only', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.acquire(ours, owner, 1_200);
    const losers = String(locks.clock.wallMs + 1_150);
    await locks.admin.getset(locks.key, losers);
    expect(await locks.extend(ours, owner, 1_200)).toBe('renewed');
    await locks.admin.getset(locks.key, losers);
    await locks.pass(610);
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).toBe(losers);
  });

  it('keeps the key for a minimum hold, as nobody’s', async () => {
    await locks.acquire(ours, owner, 60_000);
    expect(await locks.release(ours, owner, 1_500)).toBe(true);
    expect(await locks.value()).toBe(String(locks.seconds + 3));
    expect(await ours.inspect(locks.key)).toMatchObject({ remainingMs: 3_000 });
    expect(await locks.extend(ours, owner)).toBe('lost');
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).toBe(String(locks.seconds + 3));
  });
});

it('leaves a lock that has its own value and another TTL', async () => {
  const ours = await locks.store({ scripts: true });
  await locks.acquire(ours, 'a:1');
  const theirs = (await locks.value()) as string;
  await locks.admin.set(locks.key, theirs, 'PX', 10_000);
  expect(await locks.extend(ours, 'a:1')).toBe('lost');
  expect(await locks.release(ours, 'a:1')).toBe(false);
  expect(await locks.value()).toBe(theirs);
});

describe('a command of another client between two plain commands', () => {
  const expire = () => locks.admin.set(locks.key, locks.seconds - 5);

  it('starts over if the key is deleted before GET', async () => {
    await locks.admin.set(locks.key, locks.seconds + 100);
    const ours = await locks.store({ scripts: false }, { get: () => locks.admin.del(locks.key) });
    expect(await locks.status(ours, 'a:1')).toBe('granted');
  });

  it('grants the lock if the key is deleted before GETSET', async () => {
    await expire();
    const ours = await locks.store({ scripts: false }, { getset: () => locks.admin.del(locks.key) });
    expect(await locks.status(ours, 'a:1')).toBe('granted');
    expect(await locks.release(ours, 'a:1')).toBe(true);
  });

  it('refuses the loser of a race, and the winner renews and releases', async () => {
    await expire();
    const theirs = await locks.store({ scripts: false });
    const faster = async (): Promise<void> => {
      expect(await locks.status(theirs, 'b:1')).toBe('granted');
      locks.clock.wallMs += 1_000;
    };
    const ours = await locks.store({ scripts: false }, { getset: faster });
    expect(await locks.status(ours, 'a:1')).toBe('held');
    expect(await locks.extend(theirs, 'b:1')).toBe('renewed');
    expect(await locks.release(theirs, 'b:1')).toBe(true);
    expect(await locks.release(ours, 'a:1')).toBe(false);
  });

  it('restores the value of a winner with a longer lease', async () => {
    await expire();
    const winners = String(locks.seconds + 61);
    const ours = await locks.store({ scripts: false }, { getset: () => locks.admin.set(locks.key, winners) });
    expect(await locks.status(ours, 'a:1', 5_000)).toBe('held');
    expect(await locks.value()).toBe(winners);
  });

  it('sends no renewal close to the end, and ignores its reply after the end', async () => {
    const ours = await locks.store({ scripts: false, unit: 'ms' });
    await locks.acquire(ours, 'a:1', 2_000);
    await locks.pass(1_600);
    expect(await locks.extend(ours, 'a:1', 2_000)).toBe('unknown');
    const slow = () => locks.pass(250);
    const late = await locks.store({ scripts: false, unit: 'ms' }, { set: slow });
    await locks.admin.del(locks.key);
    await locks.acquire(late, 'b:1', 200);
    expect(await locks.extend(late, 'b:1', 200)).toBe('lost');
    expect(await locks.release(late, 'b:1')).toBe(false);
  });
});
