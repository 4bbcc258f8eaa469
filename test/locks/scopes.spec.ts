import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockClosedError,
  LockConfigError,
  LockLostError,
  type LockOptions,
  LockReentryError,
  type LockScope,
  type LockScopeOptions,
  LockTimeoutError,
  LockUnavailableError,
  runInLockScope,
} from 'nestjs-redis-lock';
import { lockChannels, type RefusedEvent } from 'nestjs-redis-lock/events';
import { deferred, outcome } from '../support/async.js';
import { contextsAround } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

const stops: (() => void)[] = [];
afterEach(() => stops.splice(0).forEach((stop) => stop()));

/** Returns the names of all events from now on, until the end of the test. */
function record(): string[] {
  const names: string[] = [];
  for (const [name, channel] of Object.entries(lockChannels)) {
    const listener = (event: unknown): void => {
      const { reason } = event as Partial<RefusedEvent>;
      names.push(reason === undefined ? name : `${name}: ${(reason as Error).name}`);
    };
    channel.subscribe(listener);
    stops.push(() => channel.unsubscribe(listener));
  }
  return names;
}

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
    ['failed work', (locks) => locks.using('goods:300', () => Promise.reject(new Error())).catch(() => undefined)],
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

  it('releases its locks if the work fails', async () => {
    const { locks, stranger } = faultyLocks();
    const fail = (): never => {
      throw new Error('no stock');
    };
    await expect(runInLockScope(fail)).rejects.toThrow('no stock');
    await expect(locks.scope(() => locks.using('goods:300', () => 1).then(fail))).rejects.toThrow('no stock');
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

  const ignore = { onLost: 'ignore' } as const;

  it.each<[string, LockScopeOptions, LockOptions[], { aborts: boolean; ends: string }]>([
    ["has onLost: 'ignore'", ignore, [{}], { aborts: true, ends: 'sold' }],
    ["is kept by uses with onLost: 'ignore' only", {}, [ignore, ignore], { aborts: false, ends: 'sold' }],
    ["is kept by a use with onLost: 'throw'", {}, [ignore, {}, ignore], { aborts: true, ends: 'LOCK_LOST' }],
  ])('ends the scope as asked if it %s', async (_what, options, uses, { aborts, ends }) => {
    const { clock, end, result, running } = await losing(options, ...uses);
    expect(running.signal.aborted).toBe(aborts);
    end.resolve('sold');
    await clock.advance(0);
    expect(result.value ?? (result.error as LockLostError).code).toBe(ends);
  });

  it('is acquired again by the next request, and the scope still rejects', async () => {
    const { clock, locks, memory, stranger } = faultyLocks({ ttlMs: 3_000 });
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
    memory.table.rows.delete(KEY);
    await clock.advance(1_000);
    first.resolve();
    await clock.advance(0);
    expect(await stranger.take(KEY)).toBe(false);
    second.resolve();
    await clock.advance(0);
    expect(result.error).toBeInstanceOf(LockLostError);
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('ends by maxHoldMs, although its use has ended', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const end = deferred();
    const result = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', { maxHoldMs: 5_000 }, () => undefined);
        await end.promise;
      }),
    );
    await clock.advance(4_900);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(101);
    end.resolve();
    await clock.advance(0);
    const message = expect.stringContaining('maxHoldMs (5000) has elapsed');
    expect(result.error).toMatchObject({ code: 'LOCK_LOST', message });
    expect(await stranger.take(KEY)).toBe(true);
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
      await expect(run({ onlost: 'ignore' } as never, fn)).rejects.toThrow('unknown option onlost');
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

describe('parallel uses of a scope', () => {
  it.each([
    ['while the scope does not keep the lock yet', []],
    ['while the scope keeps the lock', ['goods:300']],
    ['while the scope keeps one lock of a list', ['goods:301']],
  ])('are nested holds that run together, %s', async (_when, kept) => {
    const { clock, locks, store } = faultyLocks();
    const end = deferred();
    let running = 0;
    const work = (): Promise<void> => ((running += 1), end.promise);
    const scope = outcome(
      locks.scope(async () => {
        for (const resource of kept) await locks.using(resource, () => undefined);
        const lists = ['goods:300', ['goods:300', 'goods:301'], ['goods:301', 'goods:300'], 'goods:300'];
        await Promise.all(lists.map((list) => locks.using(list as string, work)));
      }),
    );
    await clock.advance(1_000);
    expect(running).toBe(4);
    expect(store.acquires.flatMap(({ key }) => key).toSorted()).toEqual([KEY, '{lock_goods}:301']);
    end.resolve();
    await clock.advance(0);
    expect('value' in scope).toBe(true);
    expect(await locks.inspect('goods:300')).toBeNull();
  });
});

describe('parallel requests of a scope', () => {
  it.each([{}, { mode: 'shared' as const }, { permits: 2 }])('share the grant of the first (%j)', async (options) => {
    const { clock, locks, store, stranger } = faultyLocks();
    const events = record();
    await stranger.take(KEY);
    const scope = outcome(locks.scope(() => Promise.all([1, 2, 3].map(() => locks.acquire('goods:300', options)))));
    await clock.advance(1_000);
    await stranger.leave(KEY);
    await clock.advance(2_000);
    expect(new Set((scope.value as Lock[]).map(({ fencingToken }) => fencingToken)).size).toBe(1);
    // Every request is published, and the nested ones end as refused, with the outcome `nested`.
    const asked = ['requested', 'requested', 'requested'];
    const nested = ['refused: LockReentryError', 'refused: LockReentryError'];
    expect(events.filter((name) => name !== 'extended')).toEqual([...asked, 'granted', ...nested]);
    await Promise.all((scope.value as Lock[]).map((lock) => lock.release()));
    await clock.advance(0);
    expect(events.at(-1)).toBe('released');
    expect(await stranger.take(KEY)).toBe(true);
    store.deliver('acquire');
  });

  it('wait no longer than their own waitMs', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const events = record();
    await stranger.take(KEY);
    const end = deferred();
    let outcomes!: ReturnType<typeof outcome<Lock>>[];
    const scope = locks.scope(async () => {
      outcomes = [60_000, 1_000, 0].map((waitMs) => outcome(locks.acquire('goods:300', { waitMs })));
      await end.promise;
    });
    await clock.advance(900);
    expect(outcomes.map(({ error }) => error instanceof LockTimeoutError)).toEqual([false, false, true]);
    await clock.advance(200);
    expect(outcomes.map(({ error }) => error instanceof LockTimeoutError)).toEqual([false, true, true]);
    await stranger.leave(KEY);
    await clock.advance(1_000);
    expect(outcomes[0].value).toBeDefined();
    const refused = 'refused: LockTimeoutError';
    expect(events).toEqual(['requested', 'requested', 'requested', refused, refused, 'granted']);
    end.resolve();
    await scope;
  });

  it('go on if the first fails, with the rest of their own waitMs', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const events = record();
    await stranger.take(KEY);
    const end = deferred();
    let outcomes!: ReturnType<typeof outcome<Lock>>[];
    const abort = new AbortController();
    const scope = locks.scope(async () => {
      const first = { signal: abort.signal, waitMs: 60_000 };
      outcomes = [first, { waitMs: 5_000 }].map((options) => outcome(locks.acquire('goods:300', options)));
      await end.promise;
    });
    await clock.advance(1_000);
    abort.abort(new Error('gone'));
    await clock.advance(1_000);
    expect(outcomes[0].error).toMatchObject({ message: 'gone' });
    await stranger.leave(KEY);
    await clock.advance(1_000);
    expect(outcomes[1].value).toBeDefined();
    expect(events).toEqual(['requested', 'requested', 'refused: Error', 'granted']);
    end.resolve();
    await scope;
  });
});

describe('a request in a scope', () => {
  it('is refused at the grant of another mode to the same scope, as a later one would be', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const scope = outcome(
      locks.scope(async () => {
        const shared = locks.acquire('goods:300', { mode: 'shared' });
        await expect(locks.acquire('goods:300')).rejects.toThrow(LockReentryError);
        return shared;
      }),
    );
    await clock.advance(1_000);
    await stranger.leave(KEY);
    await clock.advance(2_000);
    expect(scope.value?.held).toBe(true);
    await scope.value?.release();
  });

  it('refuses an upgrade of a lock that the scope keeps', async () => {
    const { locks } = faultyLocks();
    await locks.scope(async () => {
      await locks.using('goods:300', { mode: 'shared' }, () => undefined);
      await expect(locks.acquire('goods:300')).rejects.toThrow(LockReentryError);
      await expect(locks.acquire('goods:300', { permits: 2 })).rejects.toThrow(LockReentryError);
      await locks.using('goods:301', () => undefined);
      await locks.using('goods:301', { mode: 'shared' }, () => undefined);
    });
  });

  it('releases the locks of a list at once if the list cannot be acquired', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:301');
    await locks.scope(async () => {
      const list = outcome(locks.acquire(['goods:300', 'goods:301'], { waitMs: 1_000, minHoldMs: 5_000 }));
      await clock.advance(500);
      expect(await locks.inspect('goods:300')).not.toBeNull();
      await clock.advance(1_000);
      expect(list.error).toBeInstanceOf(LockTimeoutError);
      expect(await stranger.take(KEY)).toBe(true);
    });
    expect(store.acquires.length).toBeGreaterThan(1);
  });

  it('keeps a lock of a list that cannot be acquired if the scope has used it', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:301');
    await locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      const list = outcome(locks.acquire(['goods:300', 'goods:301'], { waitMs: 1_000 }));
      await clock.advance(1_500);
      expect(list.error).toBeInstanceOf(LockTimeoutError);
      expect(await stranger.take(KEY)).toBe(false);
    });
    expect(await stranger.take(KEY)).toBe(true);
  });

  it('cannot release a lock that the scope keeps by current()', async () => {
    const { locks, stranger } = faultyLocks();
    await locks.scope(async () => {
      expect(locks.current()).toBeUndefined();
      await locks.using('goods:300', () => undefined);
      expect(await locks.current()?.release()).toBe(true);
      locks.current('goods:300')?.assertHeld();
      expect(await stranger.take(KEY)).toBe(false);
      await locks.using('goods:301', (lock) => expect(locks.current()).toBe(lock));
    });
    expect(await stranger.take(KEY)).toBe(true);
  });
});

describe('work that outlives its scope', () => {
  it('acquires locks like any other caller', async () => {
    const { clock, locks, store } = faultyLocks();
    const later = deferred();
    let stray!: Promise<string>;
    await locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      stray = later.promise.then(() => locks.using('goods:300', () => 'free'));
    });
    expect(store.releases).toHaveLength(1);
    later.resolve();
    expect(await stray).toBe('free');
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    expect(store.releases).toHaveLength(2);
  });

  it('keeps a lock that it has used since before the end, until it ends it', async () => {
    const { locks, stranger } = faultyLocks();
    let stray!: Promise<Lock>;
    await locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      stray = locks.acquire('goods:300');
      await stray;
    });
    expect(await stranger.take(KEY)).toBe(false);
    expect(await (await stray).release()).toBe(true);
    expect(await stranger.take(KEY)).toBe(true);
  });
});

describe('work that starts its successor inside', () => {});

describe('work that starts its successor inside, after its own end', () => {
  it.each(['scopes', 'holds'])('does not run inside more and more %s', async (what) => {
    const { locks } = faultyLocks();
    let around = 0;
    let inside = (fn: () => Promise<void>): Promise<void> => fn();
    const work = (): void => {
      around = contextsAround();
      inside = AsyncLocalStorage.snapshot();
    };
    const turn = (): Promise<void> => (what === 'scopes' ? runInLockScope(work) : locks.using('goods:300', work));
    for (let turns = 0; turns < 5; turns += 1) await inside(turn);
    expect(around).toBe(1);
  });
});

describe('work that starts its successor inside, before its own end', () => {
  it.each(['scopes', 'holds'])('runs inside two %s at most, and still gets a lock', async (what) => {
    const { locks } = faultyLocks();
    const last = deferred<unknown>();
    let around = 0;
    const step = async (turn: number, before: Promise<unknown>): Promise<void> => {
      const me = deferred();
      const work = async (): Promise<void> => {
        await before;
        around = Math.max(around, contextsAround());
        if (turn === 3_000) last.resolve(locks.using('goods:300', () => 'worked'));
        else void step(turn + 1, me.promise);
      };
      await (what === 'scopes' ? runInLockScope(work) : locks.using(`job:${turn}`, work));
      me.resolve();
    };
    await step(1, Promise.resolve());
    expect(await last.promise).toBe('worked');
    expect(around).toBeLessThanOrEqual(2);
  });
});

describe('a scope in a scope', () => {
  it('leaves its locks to the outermost scope', async () => {
    const { locks, store, stranger } = faultyLocks();
    await locks.scope(async () => {
      await runInLockScope(async () => {
        await runInLockScope(() => locks.using('goods:300', () => undefined));
        expect(await stranger.take(KEY)).toBe(false);
      });
      expect(await stranger.take(KEY)).toBe(false);
      await locks.using('goods:300', () => undefined);
    });
    expect(await stranger.take(KEY)).toBe(true);
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
  });

  it('keeps its locks if it outlives the outer scope', async () => {
    const { locks, stranger } = faultyLocks();
    const end = deferred();
    let inner!: Promise<void>;
    const used = deferred();
    await locks.scope(async () => {
      inner = runInLockScope(async () => {
        await locks.using('goods:300', () => undefined);
        used.resolve();
        await end.promise;
        await locks.using('goods:301', () => undefined);
        expect(await stranger.take('{lock_goods}:301')).toBe(false);
      });
      await used.promise;
      await locks.using('goods:302', () => undefined);
    });
    expect(await stranger.take('{lock_goods}:302')).toBe(true);
    expect(await stranger.take(KEY)).toBe(false);
    end.resolve();
    await inner;
    expect(await stranger.take(KEY)).toBe(true);
    expect(await stranger.take('{lock_goods}:301')).toBe(true);
  });

  it('learns that a lock of the outer scope is lost', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    const end = deferred();
    let reason: unknown;
    const outer = outcome(
      locks.scope(async () => {
        await locks.using('goods:300', () => undefined);
        await runInLockScope(async (inner) => {
          await end.promise;
          reason = inner.signal.reason;
          expect(() => inner.assertHeld()).toThrow(LockLostError);
        });
      }),
    );
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_000);
    end.resolve();
    await clock.advance(0);
    expect(outer.error).toMatchObject({ code: 'LOCK_LOST' });
    expect(reason).toMatchObject({ code: 'LOCK_LOST' });
  });
});
