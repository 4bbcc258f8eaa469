import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type Lock,
  lockChannels,
  LockLostError,
  LockReentryError,
  LockTimeoutError,
  type RefusedEvent,
  runInLockScope,
} from 'nestjs-redis-lock';
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
    expect(events.filter((name) => name !== 'extended')).toEqual(['requested', 'granted']);
    await Promise.all((scope.value as Lock[]).map((lock) => lock.release()));
    await clock.advance(0);
    expect(events.at(-1)).toBe('released');
    expect(await stranger.take(KEY)).toBe(true);
    store.deliver('acquire');
  });

  it('return nested holds to callers that do not wait', async () => {
    const { locks } = faultyLocks();
    const got = await locks.scope(() => Promise.all([1, 2].map(() => locks.tryAcquire('goods:300'))));
    expect(got[0]?.fencingToken).toBeGreaterThan(0);
    expect(got[1]?.fencingToken).toBe(got[0]?.fencingToken);
  });

  it('of a list that the scope does not keep yet are one request', async () => {
    const { locks, store } = faultyLocks();
    await locks.scope(async () => {
      await locks.using('shop:1', () => undefined);
      await locks.using(['goods:300', 'goods:301'], () => undefined);
    });
    expect(store.acquires.map(({ keys }) => keys)).toEqual([['{lock_shop}:1'], [KEY, '{lock_goods}:301']]);
  });

  it('return nested holds to callers that do not wait, beside a list', async () => {
    const { locks } = faultyLocks();
    const [both, one] = await locks.scope(() =>
      Promise.all([locks.tryAcquire(['goods:300', 'goods:301']), locks.tryAcquire('goods:300')]),
    );
    expect(one?.fencingToken).toBe(both?.of('goods:300').fencingToken);
  });

  it('wait no longer than their own waitMs', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const events = record();
    await stranger.take(KEY);
    const end = deferred();
    const results = [60_000, 1_000, 0].map((waitMs) => ({ waitMs }));
    let outcomes!: ReturnType<typeof outcome<Lock>>[];
    const scope = locks.scope(async () => {
      outcomes = results.map((options) => outcome(locks.acquire('goods:300', options)));
      await end.promise;
    });
    await clock.advance(900);
    expect(outcomes.map(({ error }) => error instanceof LockTimeoutError)).toEqual([false, false, true]);
    await clock.advance(200);
    expect(outcomes.map(({ error }) => error instanceof LockTimeoutError)).toEqual([false, true, true]);
    await stranger.leave(KEY);
    await clock.advance(1_000);
    expect(outcomes[0].value).toBeDefined();
    expect(events.filter((name) => name === 'requested')).toHaveLength(3);
    expect(events.filter((name) => name === 'refused: LockTimeoutError')).toHaveLength(2);
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
    expect(events.filter((name) => name !== 'extended')).toEqual([
      'requested',
      'refused: Error',
      'requested',
      'granted',
    ]);
    end.resolve();
    await scope;
  });

  it('of several locks and of one of them do not wait for each other', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:301');
    const scope = outcome(
      locks.scope(() =>
        Promise.all([locks.acquire(['goods:300', 'goods:301'], { waitMs: 60_000 }), locks.acquire('goods:300')]),
      ),
    );
    await clock.advance(1_000);
    await stranger.leave('{lock_goods}:301');
    await clock.advance(1_000);
    const [both, one] = scope.value as [{ of(resource: string): Lock }, Lock];
    expect(both.of('goods:300').fencingToken).toBe(one.fencingToken);
  });

  it('of overlapping lists do not wait for each other', async () => {
    const { clock, locks, store } = faultyLocks();
    const lists = [
      ['goods:1', 'goods:2'],
      ['goods:2', 'goods:3'],
      ['goods:3', 'goods:1'],
    ];
    store.hold('acquire');
    const scope = outcome(locks.scope(() => Promise.all(lists.map((list) => locks.using(list, () => list.length)))));
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(1_000);
    expect(scope.value).toEqual([2, 2, 2]);
    await clock.advance(1_000);
    expect(store.releases.length).toBeGreaterThanOrEqual(3);
  });

  it('make an exclusive request fail that waits beside a shared one', async () => {
    const { clock, locks, memory, neighbour } = faultyLocks();
    const readers = neighbour();
    const reader = await readers.locks.acquire('goods:300', { mode: 'shared' });
    const scope = outcome(
      locks.scope(async () => {
        const writing = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
        const reading = outcome(locks.acquire('goods:300', { mode: 'shared', waitMs: 60_000 }));
        await clock.advance(2_000);
        await reader.release();
        await clock.advance(5_000);
        return [writing, reading];
      }),
    );
    await clock.advance(8_000);
    for (let turns = 0; scope.value === undefined && turns < 20; turns += 1) await clock.advance(1_000);
    const [writing, reading] = scope.value as ReturnType<typeof outcome<Lock>>[];
    // The exclusive request came first, so the shared one is a nested hold of it.
    expect(writing.value?.fencingToken).toBe(reading.value?.fencingToken);
    await writing.value?.release();
    await reading.value?.release();
    expect(await memory.inspect(KEY)).toBeNull();
  });
});

describe('a request in a scope', () => {
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

  it('with reentrant: false gets a lock whose uses have ended', async () => {
    const { locks, store } = faultyLocks({ reentrant: false });
    await locks.scope(async () => {
      for (let turn = 0; turn < 3; turn += 1) await locks.using('goods:300', () => undefined);
      await locks.using('goods:300', async () => {
        await expect(locks.acquire('goods:300')).rejects.toThrow(LockReentryError);
      });
      const lock = await locks.acquire('goods:300');
      await expect(locks.acquire(['goods:300'])).rejects.toThrow(/another use has not ended, and `reentrant` is false/);
      await lock.release();
      await locks.using('goods:300', () => undefined);
    });
    expect(store.acquires).toHaveLength(1);
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

  it('gets a hold of its own if its request was waiting when the scope ended', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    let stray!: ReturnType<typeof outcome<Lock>>;
    await locks.scope(() => {
      stray = outcome(locks.acquire('goods:300'));
    });
    await stranger.leave(KEY);
    await clock.advance(1_000);
    expect(await stranger.take(KEY)).toBe(false);
    expect(await stray.value?.release()).toBe(true);
    expect(await stranger.take(KEY)).toBe(true);
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

describe('work that starts its successor inside', () => {
  it.each(['a scope', 'a hold'])('does not run inside more and more of %s', async (what) => {
    const { locks } = faultyLocks();
    let turns = 0;
    let around = 0;
    const turn = async (): Promise<void> => {
      await (what === 'a scope' ? runInLockScope(work) : locks.using('goods:300', work));
    };
    const next = deferred();
    const work = (): void => {
      around = contextsAround();
      turns += 1;
      // In the context of this work, and after its end.
      setImmediate(() => void (turns < 5 ? turn() : next.resolve()));
    };
    await turn();
    await next.promise;
    expect(around).toBe(1);
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
