import { describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockClosedError,
  LockConfigError,
  LockLostError,
  type LockOptions,
  type LockScope,
  type LockScopeOptions,
  LockUnavailableError,
  runInLockScope,
} from 'nestjs-redis-lock';
import { deferred, outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

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

  it('gives nested holds of a lock without a request, even after its first use', async () => {
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
  /** Runs a scope that uses the lock and then waits, and takes the lock away from it. */
  async function losing(options: LockScopeOptions, ...uses: LockOptions[]) {
    const all = faultyLocks({ ttlMs: 3_000 });
    const { clock, locks, stranger } = all;
    const end = deferred<string>();
    let running!: LockScope;
    const result = outcome(
      locks.scope(options, async (scope) => {
        running = scope;
        for (const use of uses) await locks.using('goods:300', use, () => undefined);
        return end.promise;
      }),
    );
    await clock.advance(0);
    running.assertHeld();
    await stranger.steal(KEY);
    await clock.advance(1_000);
    return { ...all, end, result, running };
  }

  it('aborts its signal, and the scope rejects with the error of the work as the cause', async () => {
    const { clock, stranger, end, result, running } = await losing({}, {});
    expect(running.signal.reason).toBeInstanceOf(LockLostError);
    expect(() => running.assertHeld()).toThrow(LockLostError);
    const failure = new Error('no stock');
    end.reject(failure);
    await clock.advance(0);
    expect(result.error).toMatchObject({ code: 'LOCK_LOST', cause: failure });
    expect(await stranger.leave(KEY)).toBe(true);
  });

  it("returns the work's result with onLost: 'ignore'", async () => {
    const { clock, end, result, running } = await losing({ onLost: 'ignore' }, {});
    expect(running.signal.aborted).toBe(true);
    end.resolve('sold');
    await clock.advance(0);
    expect(result.value).toBe('sold');
  });

  it("does not count if all its uses had onLost: 'ignore'", async () => {
    const { clock, end, result, running } = await losing({}, { onLost: 'ignore' }, { onLost: 'ignore' });
    expect(running.signal.aborted).toBe(false);
    running.assertHeld();
    end.resolve('sold');
    await clock.advance(0);
    expect(result.value).toBe('sold');
  });

  it("counts if one of its uses had onLost: 'throw'", async () => {
    const { clock, end, result, running } = await losing({}, { onLost: 'ignore' }, {}, { onLost: 'ignore' });
    expect(running.signal.aborted).toBe(true);
    end.resolve('sold');
    await clock.advance(0);
    expect(result.error).toBeInstanceOf(LockLostError);
  });

  it('is acquired again by the next request, and the scope still rejects', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const [first, second] = [deferred(), deferred()];
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', () => undefined);
        await first.promise;
        await locks.using('goods:300', () => undefined);
        await second.promise;
      }),
    );
    await clock.advance(0);
    await stranger.remove(KEY);
    await clock.advance(1_000);
    first.resolve();
    await clock.advance(0);
    expect(await stranger.take(KEY)).toBe(false);
    second.resolve();
    await clock.advance(0);
    expect(result.error).toBeInstanceOf(LockLostError);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('runs its listeners outside of the scope', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const end = deferred();
    let got: Lock | null | undefined;
    const scope = locks.scope({ onLost: 'ignore' }, async ({ signal }) => {
      await locks.using('goods:300', () => undefined);
      await locks.using('goods:301', () => undefined);
      signal.addEventListener('abort', () => void locks.tryAcquire('goods:301').then((lock) => (got = lock)));
      await end.promise;
    });
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    expect(got).toBeNull();
    end.resolve();
    await scope;
  });

  it.each([
    ['maxHoldMs', { maxHoldMs: 5_000 }, /maxHoldMs \(5000\) has elapsed/],
    ['a lease without renewal', { renew: false, ttlMs: 5_000 }, /its lease ran out/],
  ])('ends by %s, although its use has ended', async (_what, options, message) => {
    const { clock, locks, stranger } = faultyLocks();
    const end = deferred();
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', options, () => undefined);
        await end.promise;
      }),
    );
    await clock.advance(4_900);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(101);
    end.resolve();
    await clock.advance(0);
    expect(result.error).toMatchObject({ code: 'LOCK_LOST', message: expect.stringMatching(message) });
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('is not declared after a blocked event loop if its renewal has arrived', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    const end = deferred();
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', () => undefined);
        await end.promise;
        return 'sold';
      }),
    );
    await clock.advance(0);
    store.hold('extend');
    await clock.advance(1_000);
    expect(store.extendBatches).toHaveLength(1);
    clock.jump(2_500);
    store.deliver('extend');
    end.resolve();
    await clock.advance(0);
    expect(result).toEqual({ value: 'sold' });
  });
});

describe('the end of a scope', () => {
  it('keeps a lock closed until minHoldMs after its grant', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await locks.scope(() => locks.using('goods:300', { minHoldMs: 400 }, () => undefined));
    await clock.advance(390);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(11);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('waits for the reply to a release for requestTimeoutMs at most', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    store.hold('release');
    const result = outcome(locks.scope(() => locks.using(['goods:300', 'goods:301'], () => 'sold')));
    await clock.advance(990);
    expect(result).toEqual({});
    await clock.advance(11);
    expect(result).toEqual({ value: 'sold' });
    store.deliver('release');
  });

  it('hides neither a result nor an error if the release fails', async () => {
    const { locks, store } = faultyLocks();
    store.fail('release', new LockUnavailableError('down'));
    const use = (): Promise<string> => locks.using('goods:300', () => 'sold');
    await expect(locks.scope(use)).resolves.toBe('sold');
    const failure = new Error('no stock');
    await expect(locks.scope(() => use().then(() => Promise.reject(failure)))).rejects.toBe(failure);
  });

  it('makes assertHeld() of the scope throw', async () => {
    const scope = await runInLockScope((running) => running);
    expect(() => scope.assertHeld()).toThrow('The lock scope has ended');
  });
});

describe('a shutdown', () => {
  it('lets a scope finish that keeps a lock, and the locks that it requests', async () => {
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', () => undefined);
        await work.promise;
        return locks.using('goods:301', () => 'finished');
      }),
    );
    await clock.advance(0);
    const closing = outcome(locks.engine.close(5_000));
    await clock.advance(1_000);
    expect(closing).toStrictEqual({});
    work.resolve();
    await clock.advance(0);
    expect(result.value).toBe('finished');
    // The engine looks at the end of the tick.
    await clock.advance(0);
    expect(closing).toStrictEqual({ value: undefined });
  });

  it('aborts the signal of a scope after the grace period, and releases its locks', async () => {
    const { clock, locks, memory } = faultyLocks();
    const end = deferred();
    let running!: LockScope;
    const result = outcome(
      locks.scope(async (scope) => {
        running = scope;
        await locks.using('goods:300', () => undefined);
        await end.promise;
      }),
    );
    await clock.advance(0);
    const closing = locks.engine.close(5_000);
    await clock.advance(5_000);
    await closing;
    expect(running.signal.reason).toMatchObject({ code: 'LOCK_LOST', cause: expect.any(LockClosedError) });
    expect(await memory.inspect(KEY)).toBeNull();
    end.resolve();
    await clock.advance(0);
    expect(result.error).toBeInstanceOf(LockLostError);
  });
});

describe('runInLockScope()', () => {
  it('keeps the locks of several module instances', async () => {
    const [one, other] = [faultyLocks(), faultyLocks()];
    await runInLockScope(async () => {
      await one.locks.using('goods:300', () => undefined);
      await other.locks.using('goods:300', () => undefined);
      expect([await one.stranger.take(KEY), await other.stranger.take(KEY)]).toEqual([false, false]);
    });
    expect([await one.stranger.take(KEY), await other.stranger.take(KEY)]).toEqual([true, true]);
  });

  it('keeps a lock whose use began before the scope and is used inside', async () => {
    const { locks, store } = faultyLocks();
    const end = deferred();
    let scope!: Promise<void>;
    await locks.using('goods:300', () => {
      scope = runInLockScope(async () => {
        await locks.using('goods:300', () => undefined);
        await end.promise;
      });
    });
    expect(store.releases).toHaveLength(0);
    end.resolve();
    await scope;
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
  });

  it('refuses work that is not a function, and options that are not allowed', async () => {
    const { locks } = faultyLocks();
    const fn = (): void => undefined;
    for (const run of [runInLockScope, locks.scope.bind(locks)] as (typeof runInLockScope)[]) {
      await expect(run('work' as never)).rejects.toThrow(LockConfigError);
      await expect(run({ onlost: 'ignore' } as never, fn)).rejects.toThrow('there is no option onlost');
      await expect(run({ onLost: 'no' } as never, fn)).rejects.toThrow(LockConfigError);
      await expect(run(undefined, fn)).resolves.toBeUndefined();
    }
  });

  it('has the onLost of the module if LockService.scope() is given none', async () => {
    const { clock, locks } = faultyLocks({ onLost: 'ignore' });
    const end = deferred();
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', { maxHoldMs: 100, onLost: 'throw' }, () => undefined);
        await end.promise;
      }),
    );
    await clock.advance(200);
    end.resolve();
    await clock.advance(0);
    expect(result).toStrictEqual({ value: undefined });
  });
});
