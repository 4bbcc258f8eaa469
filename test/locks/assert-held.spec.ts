import { beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockConfigError, LockKeyError, LockLostError, LockNotHeldError, type LockService } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { deferred } from '../support/async.js';
import { loseAllOf } from '../support/inside.js';

describe('assertHeld()', () => {
  let locks: LockService;

  beforeEach(() => {
    Logger.overrideLogger(false);
    locks = createTestLocks();
  });

  it('returns the hold that the caller runs in', async () => {
    await locks.using('goods:300', async (lock) => {
      expect(locks.assertHeld('goods:300')).toBe(lock);
      await new Promise((resolve) => setImmediate(resolve));
      expect(locks.assertHeld('goods:300').fencingToken).toBe(lock.fencingToken);
    });
  });

  it('throws outside of the lock, and under another one', async () => {
    expect(() => locks.assertHeld('goods:300')).toThrow(LockNotHeldError);
    await locks.using('goods:301', async () => {
      expect(() => locks.assertHeld('goods:300')).toThrow('goods:300 is not held here; call this inside');
    });
    expect(() => locks.assertHeld('goods:300')).toThrow(expect.objectContaining({ code: 'LOCK_NOT_HELD' }));
  });

  it('throws for a lock of another service', async () => {
    await createTestLocks().using('goods:300', async () => {
      expect(() => locks.assertHeld('goods:300')).toThrow(LockNotHeldError);
    });
  });

  it('does not see the hold of acquire()', async () => {
    await using lock = await locks.acquire('goods:300');
    lock.assertHeld();
    expect(() => locks.assertHeld('goods:300')).toThrow('A lock from acquire() has an assertHeld() of its own');
  });

  it('throws in work that outlives its lock', async () => {
    const released = deferred();
    let late: Promise<unknown> | undefined;
    await locks.using('goods:300', () => {
      late = released.promise.then(() => locks.assertHeld('goods:300'));
    });
    released.resolve();
    await expect(late).rejects.toThrow(LockNotHeldError);
  });

  it('finds each lock of several, and those that a lock scope keeps', async () => {
    await locks.using(['goods:1', 'goods:2'], async (multi) => {
      expect(locks.assertHeld('goods:2')).toBe(multi.locks[1]);
    });
    await locks.scope(async () => {
      await locks.using('goods:3', async () => undefined);
      expect(locks.assertHeld('goods:3').resource).toBe('goods:3');
    });
  });

  it('needs an exclusive lock, or accepts one that is shared', async () => {
    await locks.using('goods:300', { mode: 'shared' }, async () => {
      expect(() => locks.assertHeld('goods:300')).toThrow('goods:300 is held with others');
      expect(locks.assertHeld('goods:300', { mode: 'shared' }).resource).toBe('goods:300');
    });
    await locks.using('supplier:1', { permits: 2 }, async () => {
      expect(() => locks.assertHeld('supplier:1')).toThrow(LockNotHeldError);
      locks.assertHeld('supplier:1', { mode: 'shared' });
    });
    await locks.using('goods:300', async () => {
      locks.assertHeld('goods:300', { mode: 'shared' });
      await locks.using('goods:300', { mode: 'shared' }, async () => locks.assertHeld('goods:300'));
    });
  });

  it('throws the loss of a lock that was lost, even in a lock scope', async () => {
    const lose = (): void => {
      loseAllOf(locks);
    };
    await locks.using('goods:300', { onLost: 'ignore' }, async () => {
      lose();
      expect(() => locks.assertHeld('goods:300')).toThrow(LockLostError);
    });
    let asserted: Promise<unknown> | undefined;
    const scope = locks.scope(async () => {
      await locks.using('goods:1', async () => undefined);
      lose();
      // The error of a lost scope would hide that of an expectation.
      asserted = Promise.resolve().then(() => locks.assertHeld('goods:1'));
      await asserted.catch(() => undefined);
    });
    await expect(scope).rejects.toThrow(LockLostError);
    await expect(asserted).rejects.toThrow(LockLostError);
  });

  it('checks the lock against its deadline, before a timer has', async () => {
    const clock = new ManualClock();
    locks = createTestLocks({ clock, ttlMs: 10_000 });
    await locks.using('goods:300', { onLost: 'ignore' }, () => {
      clock.jump(10_000);
      expect(() => locks.assertHeld('goods:300')).toThrow(LockLostError);
    });
  });

  it('refuses an invalid resource and an unknown option', () => {
    expect(() => locks.assertHeld(300 as never)).toThrow(LockKeyError);
    expect(() => locks.assertHeld('goods:300', { mode: 'read' as never })).toThrow(LockConfigError);
  });
});
