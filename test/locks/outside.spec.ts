import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  LockNotHeldError,
  runInLockScope,
  type LockService,
  LockTimeoutError,
} from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { Subject } from 'rxjs';
import { deferred, outcome } from '../support/async.js';

/** What inside a hold starts work that is not part of the hold. */
const STARTERS: readonly [string, (locks: LockService, work: () => void, clock: ManualClock) => void][] = [
  ['a call', (locks, work) => locks.outside(work)],
  ['a timer', (locks, work, clock) => locks.outside(() => void clock.schedule(1, work))],
  ['a microtask', (locks, work) => locks.outside(() => queueMicrotask(work))],
  [
    'a subscription',
    (locks, work) => {
      const values = new Subject<void>();
      values.subscribe(work);
      locks.outside(() => values.next());
    },
  ],
];

/** What the work must be outside of. */
const HOLDS: readonly [string, (locks: LockService, fn: () => Promise<void>) => Promise<void>][] = [
  ['using()', (locks, fn) => locks.using('goods:1', fn)],
  ['a list of locks', (locks, fn) => locks.using(['goods:1', 'goods:2'], fn)],
  ['nested holds', (locks, fn) => locks.using('goods:1', () => locks.using('goods:1', fn))],
  [
    'a lock scope',
    (locks, fn) =>
      locks.scope(async () => {
        await using _ = await locks.acquire('goods:1');
        await fn();
      }),
  ],
  ['scopes in a hold', (locks, fn) => locks.using('goods:1', () => runInLockScope(() => locks.scope(fn)))],
];

describe('work that is started by locks.outside()', () => {
  it.each(HOLDS)('is outside of %s', async (_, hold) => {
    const locks = createTestLocks();
    await hold(locks, async () => {
      expect(locks.current('goods:1')).toBeDefined();
      await locks.outside(async () => {
        const check = async (): Promise<void> => {
          expect(locks.current()).toBeUndefined();
          expect(() => locks.assertHeld('goods:1')).toThrow(LockNotHeldError);
          expect(await locks.tryAcquire('goods:1')).toBeNull();
        };
        await check();
        await Promise.resolve().then(check);
      });
      // The caller itself is still inside.
      expect(locks.assertHeld('goods:1').resource).toBe('goods:1');
    });
  });

  it.each(STARTERS)('waits for the lock of its starter after %s', async (_, start) => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    const [entered, done] = [deferred(), deferred()];
    const holding = locks.using('goods:1', async () => {
      start(locks, () => void locks.using('goods:1', () => entered.resolve()), clock);
      await done.promise;
    });
    const work = outcome(entered.promise.then(() => 'entered'));
    await clock.advance(5);
    expect(work).toEqual({});
    done.resolve();
    await holding;
    await clock.advance(5);
    expect(work).toEqual({ value: 'entered' });
  });

  it("keeps its locks to itself, and out of the starter's lock scope", async () => {
    const locks = createTestLocks();
    await locks.scope(async () => {
      await locks.outside(() => locks.using('goods:1', () => undefined));
      expect(locks.current()).toBeUndefined();
      expect(await locks.inspect('goods:1')).toBeNull();
    });
  });

  it('keeps every other AsyncLocalStorage', async () => {
    const request = new AsyncLocalStorage<string>();
    const locks = createTestLocks();
    const seen = await request.run('request 7', () =>
      locks.using('goods:1', () => locks.outside(async () => Promise.resolve().then(() => request.getStore()))),
    );
    expect(seen).toBe('request 7');
  });

  it('can hold locks, and calls inside of them nest', async () => {
    const locks = createTestLocks();
    const nested = locks.using('goods:1', () =>
      locks.outside(() => locks.using('goods:2', () => locks.using('goods:2', { waitMs: 0 }, (lock) => lock.resource))),
    );
    expect(await nested).toBe('goods:2');
  });

  it('waits until waitMs has elapsed if its starter holds the lock and awaits the work', async () => {
    const locks = createTestLocks();
    const waiting = locks.using('goods:1', () =>
      locks.outside(() => locks.using('goods:1', { waitMs: 0 }, () => undefined)),
    );
    await expect(waiting).rejects.toThrow(LockTimeoutError);
  });

  it('returns or throws what the function does, and refuses anything else', () => {
    const locks = createTestLocks();
    expect(locks.outside(() => 7)).toBe(7);
    const failure = new Error('failed');
    const fail = (): never => {
      throw failure;
    };
    expect(() => locks.outside(fail)).toThrow(failure);
    expect(() => locks.outside(undefined as never)).toThrow(LockConfigError);
  });
});
