import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockReentryError, runInLockScope, type LockScope } from 'nestjs-redis-lock';
import { deferred, outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

describe('a lock scope', () => {
  it('keeps and renews a lock after its use, and releases it at the end', async () => {
    const { clock, locks, store, stranger } = faultyLocks({ ttlMs: 3_000 });
    const end = deferred();
    const scope = locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      await end.promise;
      return 'sold';
    });
    await clock.advance(60_000);
    expect(await stranger.take(KEY)).toBe(false);
    expect(store.releases).toHaveLength(0);
    end.resolve();
    await expect(scope).resolves.toBe('sold');
    expect(await stranger.take(KEY)).toBe(true);
    await clock.advance(10_000);
    expect(clock.pending).toBe(0);
  });

  it.each([
    ['release()', async (locks) => void (await (await locks.acquire('goods:300')).release())],
    ['release() of several', async (locks) => void (await (await locks.acquire(['goods:300', 'goods:301'])).release())],
    ['using()', (locks) => locks.using(['goods:300'], () => undefined)],
    [
      'a use that throws',
      (locks) => locks.using('goods:300', () => Promise.reject(new Error())).catch(() => undefined),
    ],
    ['mode: shared', (locks) => locks.using('goods:300', { mode: 'shared' }, () => undefined)],
    ['permits', (locks) => locks.using('goods:300', { permits: 1 }, () => undefined)],
    ['tryAcquire()', async (locks) => void (await (await locks.tryAcquire('goods:300'))?.release())],
    [
      'await using',
      async (locks) => {
        await using lock = await locks.acquire('goods:300');
        lock.assertHeld();
      },
    ],
  ] as [string, (locks: ReturnType<typeof faultyLocks>['locks']) => Promise<void>][])(
    'keeps a lock that ends by %s',
    async (_how, use) => {
      const { locks, stranger } = faultyLocks();
      await locks.scope(async () => {
        await use(locks);
        expect(await stranger.take(KEY)).toBe(false);
      });
      expect(await stranger.take(KEY)).toBe(true);
    },
  );

  it.each([
    ['rejects', () => Promise.reject(new Error('no stock'))],
    [
      'throws at once',
      () => {
        throw new Error('no stock');
      },
    ],
  ])('releases its locks if the work %s', async (_how, fail: () => Promise<never>) => {
    const { locks, stranger } = faultyLocks();
    await expect(runInLockScope(fail)).rejects.toThrow('no stock');
    const work = locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      return fail();
    });
    await expect(work).rejects.toThrow('no stock');
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('gives nested holds of a lock without a request, also after its first use', async () => {
    const { locks, store } = faultyLocks();
    await locks.scope(async () => {
      const lock = await locks.acquire('goods:300');
      const again = await locks.acquire('goods:300');
      expect(again.fencingToken).toBe(lock.fencingToken);
      await Promise.all([lock.release(), again.release()]);
      await locks.using(['goods:300'], (nested) => {
        expect(nested.of('goods:300').fencingToken).toBe(lock.fencingToken);
      });
      expect(locks.current('goods:300')?.fencingToken).toBe(lock.fencingToken);
    });
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
    expect(locks.current()).toBeUndefined();
  });
});

describe('a lost lock of a scope', () => {
  it('aborts its signal, and the scope rejects with the error of the work as the cause', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const end = deferred();
    let running: LockScope | undefined;
    const scope = outcome(
      locks.scope(async (own) => {
        running = own;
        await locks.using('goods:300', () => undefined);
        own.assertHeld();
        await end.promise;
      }),
    );
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    expect(running?.signal.reason).toBeInstanceOf(LockLostError);
    expect(() => running?.assertHeld()).toThrow(LockLostError);
    const failure = new Error('no stock');
    end.reject(failure);
    await clock.advance(0);
    expect(scope.error).toMatchObject({ code: 'LOCK_LOST', cause: failure });
    expect(await stranger.leave(KEY)).toBe(true);
  });
});

describe('parallel requests of a scope', () => {
  it('share the grant of the first', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const scope = locks.scope(() => Promise.all([1, 2, 3].map(() => locks.acquire('goods:300'))));
    await clock.advance(1_000);
    await stranger.leave(KEY);
    await clock.advance(2_000);
    const tokens = (await scope).map(({ fencingToken }) => fencingToken);
    expect(new Set(tokens).size).toBe(1);
  });

  it('refuses an upgrade', async () => {
    const { locks } = faultyLocks();
    await locks.scope(async () => {
      await locks.using('goods:300', { mode: 'shared' }, () => undefined);
      await expect(locks.acquire('goods:300')).rejects.toBeInstanceOf(LockReentryError);
    });
  });
});
