import { describe, expect, it, jest } from '@jest/globals';
import { type LockOptions, LockReentryError, LockTimeoutError, type MultiLock } from 'nestjs-redis-lock';
import type { AcquireReply } from 'nestjs-redis-lock/store';
import { type Deferred, deferred, outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

type Outcome = ReturnType<typeof outcome<unknown>>;

/** One instance, and uses that the test ends one by one. */
function setUp(defaults: LockOptions) {
  const all = faultyLocks(defaults);
  const { clock, locks } = all;
  /** The names of the uses that run. */
  const running: string[] = [];
  const began: string[] = [];
  const ends = new Map<string, Deferred<void>>();
  const work = async (name: string): Promise<string> => {
    running.push(name);
    began.push(name);
    const over = deferred();
    ends.set(name, over);
    await over.promise;
    running.splice(running.indexOf(name), 1);
    return name;
  };
  const use = (name: string, options: LockOptions = {}, resources: string | string[] = 'goods:300'): Outcome =>
    outcome(locks.using(resources as string, options, () => work(name)));
  const finish = async (name: string): Promise<void> => {
    ends.get(name)?.resolve();
    await clock.advance(0);
  };
  return { ...all, running, began, use, work, finish };
}

/** Runs a test inside of a scope. */
async function inScope(test: (here: ReturnType<typeof setUp>) => Promise<void>, defaults: LockOptions = {}) {
  const here = setUp(defaults);
  await here.locks.scope(() => test(here));
  await here.clock.advance(20_000);
  expect(here.clock.pending).toBe(0);
  const { watchdog, lines } = here.locks.engine;
  expect(watchdog.size + lines.size).toBe(0);
}

describe('parallel uses in a scope', () => {
  it.each([
    ['while the scope does not keep the lock yet', false],
    ['while the scope keeps the lock', true],
  ])('run one after the other, in order of arrival, %s', (_when, isKept) =>
    inScope(async ({ clock, locks, store, use, running, began, finish }) => {
      if (isKept) await locks.using('goods:300', () => undefined);
      const uses = ['a', 'b', 'c'].map((name) => use(name));
      await clock.advance(100);
      for (const name of ['a', 'b', 'c']) {
        expect(running).toEqual([name]);
        await finish(name);
      }
      expect(uses.map(({ value }) => value)).toEqual(['a', 'b', 'c']);
      expect(began).toEqual(['a', 'b', 'c']);
      expect(store.acquires).toHaveLength(1);
    }),
  );

  it('do not lose an update', () =>
    inScope(async ({ locks }) => {
      let stock = 10;
      const sell = (): Promise<void> =>
        locks.using('goods:300', async () => {
          const left = stock;
          for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
          stock = left - 1;
        });
      await Promise.all([sell(), sell()]);
      expect(stock).toBe(8);
      await Promise.all(Array.from({ length: 8 }, sell));
      expect(stock).toBe(0);
    }));

  it('keep a newcomer behind those that wait', () =>
    inScope(async ({ clock, locks, use, running, began, work, finish }) => {
      await locks.using('goods:300', () => undefined);
      const first = locks.using('goods:300', () => work('a'));
      use('b');
      await clock.advance(0);
      // Runs right after the end of the first use.
      const newcomer = first.then(() => outcome(locks.using('goods:300', () => work('c'))));
      await finish('a');
      await newcomer;
      expect(running).toEqual(['b']);
      await finish('b');
      await finish('c');
      expect(began).toEqual(['a', 'b', 'c']);
    }));

  it('that fail let the next one in', () =>
    inScope(async ({ clock, locks, use, finish }) => {
      const fails = outcome(locks.using('goods:300', () => Promise.reject(new Error('no stock'))));
      const next = use('b');
      await clock.advance(0);
      await finish('b');
      expect(fails.error).toMatchObject({ message: 'no stock' });
      expect(next.value).toBe('b');
    }));

  it('nest in a use around them without waiting for it', () =>
    inScope(async ({ clock, locks, use, running, finish }) => {
      await locks.using('goods:300', () => undefined);
      const outer = outcome(locks.using('goods:300', async () => [use('a'), use('b')]));
      const other = use('c');
      await clock.advance(0);
      expect(outer.value).toBeDefined();
      // Both were nested in the first use, and the third waits for both.
      expect(running).toEqual(['a', 'b']);
      await finish('a');
      expect(running).toEqual(['b']);
      await finish('b');
      expect(running).toEqual(['c']);
      await finish('c');
      expect(other.value).toBe('c');
    }));

  it('nest in a use around them, although others wait', () =>
    inScope(async ({ clock, locks, use, running, finish }) => {
      const inner = deferred();
      const outer = outcome(
        locks.using('goods:300', async () => {
          await inner.promise;
          return locks.scope(() => locks.using('goods:300', () => 'nested'));
        }),
      );
      use('b');
      await clock.advance(0);
      inner.resolve();
      await clock.advance(0);
      expect(outer.value).toBe('nested');
      expect(running).toEqual(['b']);
      await finish('b');
    }));

  it('wait in an inner scope for a use in the outer one', () =>
    inScope(async ({ clock, locks, use, running, work, finish }) => {
      use('a');
      const inner = outcome(locks.scope(() => locks.using('goods:300', () => work('b'))));
      await clock.advance(0);
      expect(running).toEqual(['a']);
      await finish('a');
      expect(running).toEqual(['b']);
      await finish('b');
      expect(inner.value).toBe('b');
    }));

  it('do not wait for a hold by acquire()', () =>
    inScope(async ({ clock, locks, use, finish }) => {
      const lock = await locks.acquire('goods:300');
      const used = use('a');
      await clock.advance(0);
      await finish('a');
      expect(used.value).toBe('a');
      await lock.release();
    }));

  it.each([{ mode: 'shared' as const }, { permits: 2 }])('run together with %j', (options) =>
    inScope(async ({ clock, use, running, finish }) => {
      use('a', options);
      use('b', options);
      await clock.advance(100);
      expect(running.toSorted()).toEqual(['a', 'b']);
      await finish('a');
      await finish('b');
    }),
  );

  it('wait with reentrant: false, and throw if the caller or an acquire() has the lock', () =>
    inScope(
      async ({ clock, locks, use, running, finish }) => {
        use('a');
        const second = use('b');
        await clock.advance(0);
        expect(running).toEqual(['a']);
        await finish('a');
        expect(running).toEqual(['b']);
        await finish('b');
        expect(second.value).toBe('b');
        await locks.using('goods:300', () => expect(locks.acquire('goods:300')).rejects.toThrow(LockReentryError));
        use('c');
        const third = use('d', { reentrant: true });
        const fourth = use('e');
        await clock.advance(0);
        const lock = outcome(locks.acquire('goods:300', { reentrant: true }));
        await finish('c');
        await finish('d');
        await finish('e');
        expect([third.value, fourth.value]).toEqual(['d', 'e']);
        expect(lock.value).toBeDefined();
        await expect(locks.using('goods:300', () => undefined)).rejects.toThrow(LockReentryError);
        await (lock.value as { release(): Promise<boolean> }).release();
      },
      { reentrant: false },
    ));
});

describe('a request in a scope that waits for another use', () => {
  it('waits for what is left of waitMs', () =>
    inScope(async ({ clock, locks, use, finish }) => {
      use('a');
      await clock.advance(0);
      const [used, acquired] = [use('b', { waitMs: 1_000 }), outcome(locks.acquire('goods:300', { waitMs: 2_000 }))];
      await clock.advance(990);
      expect(used).toEqual({});
      await clock.advance(11);
      expect(used.error).toBeInstanceOf(LockTimeoutError);
      expect(used.error).toMatchObject({
        message: "goods:300 is held by another use in the caller's lock scope: refused after 1000 ms (waitMs: 1000).",
        resource: 'goods:300',
        elapsedMs: 1_000,
        isOwn: true,
      });
      expect(acquired).toEqual({});
      await clock.advance(1_000);
      expect(acquired.error).toBeInstanceOf(LockTimeoutError);
      await finish('a');
    }));

  it('counts the time for which it waited for other holders', () =>
    inScope(async ({ clock, stranger, use, running, finish }) => {
      await stranger.take(KEY);
      use('a', { waitMs: 10_000 });
      const second = use('b', { waitMs: 2_000 });
      await clock.advance(1_000);
      await stranger.leave(KEY);
      await clock.advance(900);
      expect(running).toEqual(['a']);
      expect(second).toEqual({});
      await clock.advance(101);
      expect(second.error).toBeInstanceOf(LockTimeoutError);
      await finish('a');
    }));

  it('is refused at once with waitMs: 0', () =>
    inScope(async ({ clock, locks, use, finish }) => {
      use('a');
      await clock.advance(0);
      expect(await locks.tryAcquire('goods:300')).toBeNull();
      expect(await locks.tryAcquire(['goods:300', 'goods:301'])).toBeNull();
      await expect(locks.using('goods:300', { waitMs: 0 }, () => undefined)).rejects.toThrow(LockTimeoutError);
      await finish('a');
      await (await locks.tryAcquire('goods:300'))?.release();
    }));

  it('ends with the reason of its signal', () =>
    inScope(async ({ clock, use, running, finish }) => {
      const abort = new AbortController();
      use('a');
      const second = use('b', { signal: abort.signal });
      const third = use('c');
      await clock.advance(0);
      abort.abort(new Error('gone'));
      await clock.advance(0);
      expect(second.error).toMatchObject({ message: 'gone' });
      expect(running).toEqual(['a']);
      await finish('a');
      await finish('c');
      expect(third.value).toBe('c');
    }));

  it('requests the lock if it is lost meanwhile', async () => {
    const { clock, locks, store, stranger } = faultyLocks({ ttlMs: 3_000 });
    const [first, second] = [deferred(), deferred()];
    let inside = '';
    const scope = outcome(
      locks.scope(async () => {
        const uses = [first, second].map(({ promise }, i) =>
          outcome(locks.using('goods:300', () => ((inside += String(i)), promise))),
        );
        await first.promise;
        await second.promise;
        return uses;
      }),
    );
    await clock.advance(0);
    await stranger.remove(KEY);
    await clock.advance(2_000);
    expect(inside).toBe('01');
    expect(store.acquires).toHaveLength(2);
    first.resolve();
    second.resolve();
    await clock.advance(5_000);
    expect(scope.error).toMatchObject({ code: 'LOCK_LOST' });
    expect(clock.pending).toBe(0);
  });

  it('requests the lock if it finds the lease over when it comes next', async () => {
    const { clock, locks, store, stranger } = faultyLocks({ ttlMs: 3_000, onLost: 'ignore' });
    await stranger.take('{lock_goods}:301');
    const abort = new AbortController();
    const second = await locks.scope(async () => {
      await locks.using('goods:300', () => undefined);
      const list = outcome(locks.using(['goods:300', 'goods:301'], { signal: abort.signal }, () => undefined));
      const next = outcome(locks.using('goods:300', { waitMs: Infinity }, () => 'served'));
      await clock.advance(10);
      expect(next).toEqual({});
      // The event loop is blocked for longer than the lease. Then the list is given up before any timer fires.
      clock.jump(3_000);
      abort.abort(new Error('gone'));
      await clock.advance(10);
      expect(list.error).toMatchObject({ message: 'gone' });
      return next;
    });
    expect(second.value).toBe('served');
    expect(store.acquires.filter(({ keys }) => keys.includes(KEY))).toHaveLength(2);
  });

  it('comes before a later one, even if that began to wait for the use first', () =>
    inScope(async ({ clock, locks, store, use, running, began, finish }) => {
      const reply = deferred<AcquireReply>();
      jest.spyOn(store, 'acquire').mockReturnValueOnce(reply.promise);
      use('first', { mode: 'shared' });
      await locks.scope(async () => {
        use('granted');
        use('last');
        await clock.advance(0);
        expect(running).toEqual(['granted']);
        for (const name of ['granted', 'first', 'last']) await finish(name);
      });
      expect(began).toEqual(['granted', 'first', 'last']);
      reply.resolve({ status: 'expired' });
    }));

  it('goes on like any other caller if the scope ends meanwhile', async () => {
    const { clock, locks, store } = faultyLocks();
    const first = deferred();
    let uses: Outcome[] = [];
    await locks.scope(async () => {
      uses = [outcome(locks.using('goods:300', () => first.promise)), outcome(locks.using('goods:300', () => 'b'))];
      await clock.advance(0);
    });
    await clock.advance(100);
    expect(uses[1]).toEqual({});
    first.resolve();
    await clock.advance(1_000);
    expect(uses[1].value).toBe('b');
    expect(store.acquires.length).toBeGreaterThan(0);
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it('is refused by a shutdown at the end of its grace period', () =>
    inScope(async ({ clock, locks, use, finish }) => {
      use('a', { onLost: 'ignore' });
      const second = use('b', { onLost: 'ignore', waitMs: Infinity });
      await clock.advance(0);
      const closing = locks.engine.close(1_000);
      await clock.advance(1_001);
      await closing;
      expect(second.error).toMatchObject({ code: 'LOCK_CLOSED' });
      await finish('a');
    }));
});

describe('lists in a scope', () => {
  const lists = [
    ['goods:1', 'goods:2', 'shop:1'],
    ['shop:1', 'goods:2'],
    ['goods:2', 'goods:1'],
    ['shop:1', 'goods:1'],
  ];

  it.each([
    ['none', []],
    ['all', ['goods:1', 'goods:2', 'shop:1']],
    ['the last', ['shop:1']],
    ['the first', ['goods:1']],
  ])('do not overlap and do not deadlock if the scope keeps %s of them', (_what, kept) =>
    inScope(async ({ clock, locks }) => {
      for (const resource of kept) await locks.using(resource, () => undefined);
      const inUse = new Set<string>();
      let overlaps = 0;
      const use = (list: string[]): Promise<void> =>
        locks.using(list, { waitMs: 60_000 }, async ({ resources }: MultiLock) => {
          for (const each of resources) overlaps += inUse.has(each) ? 1 : 0;
          for (const each of resources) inUse.add(each);
          await new Promise<void>((resolve) => clock.schedule(100, resolve));
          for (const each of resources) inUse.delete(each);
        });
      const all = outcome(Promise.all([...lists, ...lists, ...lists.toReversed()].map(use)));
      await clock.advance(3_000);
      expect('value' in all).toBe(true);
      expect(overlaps).toBe(0);
    }),
  );

  it('take a free lock in lock order, so that two lists do not wait for each other', () =>
    inScope(async ({ clock, locks, use, running, finish }) => {
      for (const resource of ['goods:1', 'goods:2']) await locks.using(resource, () => undefined);
      use('one', {}, 'goods:1');
      use('two', {}, 'goods:2');
      await clock.advance(0);
      use('first', {}, ['goods:1', 'goods:2']);
      await finish('two');
      use('second', {}, ['goods:1', 'goods:2']);
      await clock.advance(0);
      await finish('one');
      expect(running).toEqual(['first']);
      await finish('first');
      expect(running).toEqual(['second']);
      await finish('second');
    }));

  it('that cannot be acquired let the others in', () =>
    inScope(async ({ clock, locks, use, running, finish }) => {
      for (const resource of ['goods:1', 'goods:2']) await locks.using(resource, () => undefined);
      use('two', {}, 'goods:2');
      await clock.advance(0);
      const list = use('list', { waitMs: 500 }, ['goods:1', 'goods:2']);
      const one = use('one', {}, 'goods:1');
      await clock.advance(0);
      expect(running).toEqual(['two']);
      await clock.advance(501);
      expect(list.error).toBeInstanceOf(LockTimeoutError);
      expect(running).toEqual(['two', 'one']);
      await finish('one');
      await finish('two');
      expect(one.value).toBe('one');
    }));
});
