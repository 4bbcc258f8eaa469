import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockStore } from 'nestjs-redis-lock/store';
import { TimestampLocks } from '../../support/timestamp-locks.js';

let locks: TimestampLocks;

beforeEach(() => {
  locks = new TimestampLocks();
});
afterEach(() => locks.close());

describe.each([true, false])('locks by timestamps, scripts: %s', (scripts) => {
  let ours: LockStore;
  let owner: string;

  beforeEach(async () => {
    ours = await locks.store({ scripts });
    owner = locks.nextOwner();
  });

  it('the value is now + lease + 1, and the TTL a duration', async () => {
    locks.clock.wall += 900;
    expect(await locks.status(ours, owner)).toBe('granted');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    const ttl = await locks.admin.pttl(locks.key);
    expect(ttl).toBeGreaterThan(10_000);
    expect(ttl).toBeLessThanOrEqual(11_000);
    expect(locks.outcomes).toEqual(['acquired']);
  });

  it('in milliseconds, too', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.ask(ours, owner, 250);
    expect(await locks.value()).toBe(String(locks.clock.wall + 251));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(251);
  });

  it('a lease that is no whole number of seconds is rounded up', async () => {
    await locks.ask(ours, owner, 1_001);
    expect(await locks.value()).toBe(String(locks.seconds + 3));
  });

  it('a value is taken over from now > value on, not before', async () => {
    await locks.admin.set(locks.key, locks.seconds);
    locks.clock.wall += 999;
    const held = await locks.ask(ours, owner);
    expect(held).toEqual({ status: 'held', queued: false, remainingMs: 1 });
    locks.clock.wall += 1;
    expect(await locks.status(ours, owner)).toBe('granted');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    expect(await locks.admin.pttl(locks.key)).toBeGreaterThan(10_000);
    expect(locks.outcomes).toEqual(['stillHeld', 'takenOver']);
  });

  it('a value with a fraction of a second, as some clients write it, is read as it is', async () => {
    await locks.admin.set(locks.key, `${locks.seconds}.5`);
    expect(await locks.status(ours, owner)).toBe('held');
    locks.clock.wall += 1_000;
    expect(await locks.status(ours, owner)).toBe('granted');
  });

  it.each(['', 'somebody', '-1', '0x10', 'nan', '1e3'])(
    'what reads as no time is never taken over: %j',
    async (value) => {
      await locks.admin.set(locks.key, value);
      expect(await locks.ask(ours, owner)).toEqual({ status: 'held', queued: false, remainingMs: undefined });
      expect(await ours.inspect(locks.key)).toEqual({ holder: value, remainingMs: Infinity, token: undefined });
      expect(await locks.value()).toBe(value);
    },
  );

  it('seconds where milliseconds are agreed on are never taken over', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.admin.set(locks.key, locks.seconds);
    expect(await locks.status(ours, owner)).toBe('held');
    await locks.admin.set(locks.key, '1000');
    expect(await locks.status(ours, owner)).toBe('granted');
  });

  it('milliseconds where seconds are agreed on are no time of which anybody could tell how far it is', async () => {
    const milliseconds = String(locks.clock.wall - 60_000);
    await locks.admin.set(locks.key, milliseconds);
    expect(await locks.ask(ours, owner)).toEqual({ status: 'held', queued: false, remainingMs: undefined });
    expect(await ours.inspect(locks.key)).toMatchObject({ holder: milliseconds, remainingMs: Infinity });
  });

  it('ours ends at now = value: it is neither deleted nor renewed from then on', async () => {
    await locks.ask(ours, owner);
    locks.clock.wall += 11_000;
    expect(await locks.extend(ours, owner)).toBe('lost');
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).not.toBeNull();
  });

  it('ours is released until then', async () => {
    await locks.ask(ours, owner);
    locks.clock.wall += 10_999;
    expect(await locks.release(ours, owner)).toBe(true);
    expect(await locks.value()).toBeNull();
  });

  it('a wall clock that was set back makes no lease longer for its holder', async () => {
    ours = await locks.store({ scripts, unit: 'ms' });
    await locks.ask(ours, owner, 50);
    locks.clock.wall -= 3_600_000;
    await new Promise((resolve) => setTimeout(resolve, 60));
    await locks.admin.set(locks.key, locks.clock.wall + 3_600_051);
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await locks.value()).not.toBeNull();
  });

  it('a wall clock that was set back ends no lease sooner for its holder than for the others', async () => {
    const before = locks.seconds;
    await locks.ask(ours, owner);
    locks.clock.wall -= 8_000;
    expect(await locks.extend(ours, owner, 20_000)).toBe('renewed');
    expect(await locks.value()).toBe(String(before + 21));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(21_000);
    expect(await locks.extend(ours, owner, 5_000)).toBe('renewed');
    expect(await locks.value()).toBe(String(before + 21));
    expect(await locks.release(ours, owner, 3_000)).toBe(true);
    expect(await locks.value()).toBe(String(before + 4));
  });

  it('a wall clock that was set forward makes no lease longer for its holder', async () => {
    await locks.ask(ours, owner);
    locks.clock.wall += 5_000;
    expect(await locks.extend(ours, owner)).toBe('renewed');
    expect(await locks.value()).toBe(String(locks.seconds + 11));
    expect(await locks.admin.pttl(locks.key)).toBeLessThanOrEqual(11_000);
  });

  it.each([-1, 1, 2])("a loser's GETSET of a value %i s later takes nothing from the holder", async (later) => {
    await locks.admin.set(locks.key, locks.seconds - 1);
    await locks.ask(ours, owner);
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

  it('a lock that somebody else has after a flush is neither renewed nor deleted', async () => {
    await locks.ask(ours, owner);
    const theirs = String(locks.seconds + 30);
    await locks.admin.set(locks.key, theirs);
    expect(await locks.release(ours, owner)).toBe(false);
    const again = locks.nextOwner();
    await locks.admin.del(locks.key);
    await locks.ask(ours, again);
    await locks.admin.set(locks.key, theirs);
    expect(await locks.extend(ours, again)).toBe('lost');
    expect(await locks.release(ours, again)).toBe(false);
    expect(await locks.value()).toBe(theirs);
  });

  it('a minimum hold leaves the key closed for that long, and can be ended', async () => {
    await locks.ask(ours, owner, 60_000);
    expect(await locks.release(ours, owner, 1_500)).toBe(true);
    expect(await locks.value()).toBe(String(locks.seconds + 3));
    locks.clock.wall += 1_500;
    expect(await locks.release(ours, owner)).toBe(true);
    expect(await locks.value()).toBeNull();
  });

  it('a release behind an ask that is under way ends what it gets', async () => {
    const asked = locks.status(ours, owner);
    const released = locks.release(ours, owner);
    await asked;
    await released;
    expect(await locks.value()).toBeNull();
  });

  it('a release behind an ask that is refused deletes nothing, even if the values are equal', async () => {
    const theirs = await locks.store({ scripts });
    const holder = locks.nextOwner();
    await locks.ask(theirs, holder);
    const asked = locks.status(ours, owner);
    expect(await locks.release(ours, owner)).toBe(false);
    expect(await asked).not.toBe('granted');
    expect(await locks.release(theirs, holder)).toBe(true);
  });

  it('a value of another type is an error that asking again does not cure', async () => {
    await locks.admin.lpush(locks.key, 'x');
    await expect(locks.ask(ours, owner)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true });
  });
});

describe('between two plain commands', () => {
  const expire = () => locks.admin.set(locks.key, locks.seconds - 5);

  it('gone when it is looked at: from the start', async () => {
    await locks.admin.set(locks.key, locks.seconds + 100);
    const ours = await locks.store({ scripts: false }, { get: () => locks.admin.del(locks.key) });
    expect(await locks.status(ours, 'a:1')).toBe('granted');
    expect(locks.outcomes).toEqual(['deletedMeanwhile', 'acquired']);
  });

  it('deleted before GETSET: nobody else can have it', async () => {
    await expire();
    const ours = await locks.store({ scripts: false }, { getset: () => locks.admin.del(locks.key) });
    expect(await locks.status(ours, 'a:1')).toBe('granted');
    expect(await locks.release(ours, 'a:1')).toBe(true);
  });

  it('taken over before GETSET: lost, and the winner releases and renews as if nothing had happened', async () => {
    await expire();
    const theirs = await locks.store({ scripts: false });
    const faster = async (): Promise<void> => {
      expect(await locks.status(theirs, 'b:1')).toBe('granted');
      locks.clock.wall += 1_000;
    };
    const ours = await locks.store({ scripts: false }, { getset: faster });
    expect(await locks.status(ours, 'a:1')).toBe('held');
    expect(locks.outcomes).toEqual(['takenOver', 'lostRace', 'stillHeld']);
    expect(await locks.extend(theirs, 'b:1')).toBe('renewed');
    expect(await locks.release(theirs, 'b:1')).toBe(true);
    expect(await locks.release(ours, 'a:1')).toBe(false);
  });

  it('a loser whose lease is shorter gives the winner its value back', async () => {
    await expire();
    const winners = String(locks.seconds + 61);
    const ours = await locks.store({ scripts: false }, { getset: () => locks.admin.set(locks.key, winners) });
    expect(await locks.status(ours, 'a:1', 5_000)).toBe('held');
    expect(await locks.value()).toBe(winners);
  });

  it('a renewal is not sent close to the end, and not believed in after it', async () => {
    const ours = await locks.store({ scripts: false, unit: 'ms' });
    await locks.ask(ours, 'a:1', 2_000);
    await new Promise((resolve) => setTimeout(resolve, 1_600));
    expect(await locks.extend(ours, 'a:1', 2_000)).toBe('unknown');
    const slow = () => new Promise((resolve) => setTimeout(resolve, 250));
    const late = await locks.store({ scripts: false, unit: 'ms' }, { set: slow });
    await locks.admin.del(locks.key);
    await locks.ask(late, 'b:1', 200);
    expect(await locks.extend(late, 'b:1', 200)).toBe('lost');
    expect(await locks.release(late, 'b:1')).toBe(false);
  });

  it('an ask that nobody wants any more stops', async () => {
    await locks.admin.set(locks.key, locks.seconds + 100);
    let released: Promise<boolean> | undefined;
    const leave = (): Promise<unknown> => {
      released = locks.release(ours, 'a:1');
      return locks.admin.del(locks.key);
    };
    const ours = await locks.store({ scripts: false }, { get: leave });
    expect(await locks.status(ours, 'a:1')).toBe('expired');
    expect(await released).toBe(false);
    expect(await locks.value()).toBeNull();
  });
});
