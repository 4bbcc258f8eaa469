import { Observable, of } from 'rxjs';
import { describe, expect, it } from '@jest/globals';
import { type CommonLockOptions, Locked, LockConfigError, LockTimeoutError, type OnceOptions } from 'nestjs-redis-lock';
import { lockChannels, type RefusedEvent } from 'nestjs-redis-lock/events';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { deferred, outcome } from '../support/async.js';

const ONCE: OnceOptions = { onceMs: 30_000 };

/** Two module instances on the same locks. */
function two(options: CommonLockOptions & { lockDelayMs?: number } = {}) {
  const clock = new ManualClock();
  const store = new MemoryStore(clock);
  const start = () => createTestLocks({ clock, store: () => store, ...options });
  return { clock, store, one: start(), other: start() };
}

/** Returns whether a call has ended, even without a result. */
const isOver = (call: object): boolean => 'value' in call || 'error' in call;

/** Works for that long. */
const work = (clock: ManualClock, ms: number): Promise<void> =>
  new Promise((resolve) => void clock.schedule(ms, resolve));

const fail = (): never => {
  throw new Error('the disk is full');
};

describe('work that runs once', () => {
  it('is done for all instances, counted from the grant of its run', async () => {
    const { clock, one, other } = two();
    const run = outcome(one.using('report', ONCE, () => work(clock, 10_000)));
    await clock.advance(10_000);
    expect(isOver(run)).toBe(true);
    for (const locks of [one, other]) expect(await locks.using('report', ONCE, () => 'again')).toBeUndefined();
    await clock.advance(19_999);
    expect(await other.using('report', ONCE, () => 'again')).toBeUndefined();
    await clock.advance(2);
    expect(await other.using('report', ONCE, () => 'next')).toBe('next');
  });

  it('runs again at once after an error, also for a caller that waits', async () => {
    const { clock, one, other } = two();
    const end = deferred();
    const first = outcome(one.using('report', ONCE, () => end.promise.then(fail)));
    const second = outcome(other.using('report', ONCE, () => 'second'));
    await clock.advance(1_000);
    expect(isOver(second)).toBe(false);
    end.resolve();
    await clock.advance(0);
    expect([first.error, second.value]).toEqual([new Error('the disk is full'), 'second']);
  });

  it('is done for those that wait for its run, in its own instance and in others', async () => {
    const { clock, store, one, other } = two();
    const end = deferred();
    const calls: string[] = [];
    const run = outcome(one.using('report', ONCE, () => end.promise));
    await clock.advance(0);
    const waiting = [one, other].map((locks) => outcome(locks.using('report', ONCE, () => calls.push('again'))));
    await clock.advance(1_000);
    expect(waiting.map(isOver)).toEqual([false, false]);
    end.resolve();
    await clock.advance(0);
    expect([run, ...waiting].map(isOver)).toEqual([true, true, true]);
    expect(calls).toEqual([]);
    expect((await store.inspect('{lock_report}'))?.waiting).toEqual([]);
  });

  it('keeps callers out that do not run once, as a lock that is held', async () => {
    const { clock, one, other } = two();
    await one.using('report', ONCE, () => undefined);
    expect(await other.tryAcquire('report')).toBeNull();
    const waiting = outcome(other.using('report', { waitMs: 60_000 }, () => 'plain'));
    await clock.advance(29_000);
    expect([isOver(waiting), await one.using('report', ONCE, () => 1)]).toEqual([false, undefined]);
    await clock.advance(1_100);
    expect(waiting.value).toBe('plain');
  });

  it('is not done because of the minHoldMs of another call', async () => {
    const { one, other } = two();
    await one.using('report', { minHoldMs: 5_000 }, () => undefined);
    await expect(other.using('report', { ...ONCE, waitMs: 0 }, () => 1)).rejects.toThrow(LockTimeoutError);
  });

  it('is not done while lockDelayMs keeps a lost lock closed', async () => {
    const { clock, one, other } = two({ lockDelayMs: 60_000 });
    const run = outcome(one.using('report', { ...ONCE, maxHoldMs: 1_000 }, () => work(clock, 2_000)));
    await clock.advance(2_000);
    expect(run.error).toMatchObject({ code: 'LOCK_LOST' });
    await expect(other.using('report', { ...ONCE, waitMs: 0 }, () => 1)).rejects.toThrow(LockTimeoutError);
  });

  it('is not closed by the minHoldMs of the module after an error', async () => {
    const { one, other } = two({ minHoldMs: 5_000 });
    await expect(one.using('report', ONCE, fail)).rejects.toThrow('the disk is full');
    expect(await other.using('report', ONCE, () => 'next')).toBe('next');
  });

  it('frees the key if it took longer than onceMs', async () => {
    const { clock, one, other } = two();
    const run = outcome(one.using('report', ONCE, () => work(clock, 31_000)));
    await clock.advance(31_000);
    expect(isOver(run)).toBe(true);
    expect(await other.using('report', ONCE, () => 'next')).toBe('next');
  });

  it('is done inside a lock scope, unless the scope fails', async () => {
    const { one, other } = two();
    const inScope = async (): Promise<unknown[]> => [
      await one.using('report', ONCE, () => 'first'),
      await one.using('report', ONCE, () => 'again'),
    ];
    await expect(one.scope(() => inScope().then(fail))).rejects.toThrow('the disk is full');
    expect(await one.scope(inScope)).toEqual(['first', undefined]);
    expect(await other.using('report', ONCE, () => 1)).toBeUndefined();
  });

  it('is not done if a nested call succeeds and the outer work fails', async () => {
    const { one, other } = two();
    const outer = one.using('report', ONCE, () => one.using('report', ONCE, () => 1).then(fail));
    await expect(outer).rejects.toThrow('the disk is full');
    expect(await other.using('report', ONCE, () => 'next')).toBe('next');
  });

  it('is shown as done until it is due again, and then no longer', async () => {
    const { clock, one, other } = two();
    const shown = async () => {
      const listed = [];
      for await (const lock of one.list()) listed.push(lock);
      return [await other.inspect('report'), ...listed];
    };
    await one.using('report', { ...ONCE, label: 'invoice 12' }, async () => {
      for (const lock of await shown()) expect(lock).toEqual(expect.not.objectContaining({ isDone: true }));
    });
    await clock.advance(10_000);
    const done = { isDone: true, expiresInMs: 20_000, label: 'invoice 12' };
    expect(await shown()).toEqual([expect.objectContaining(done), expect.objectContaining(done)]);
    await clock.advance(20_001);
    expect(await shown()).toEqual([null]);
    await one.using('report', { minHoldMs: 5_000 }, () => undefined);
    for (const lock of await shown()) expect(lock).toEqual(expect.not.objectContaining({ isDone: true }));
  });

  it('publishes an outcome of its own, and no reason', async () => {
    const { one } = two();
    const events: RefusedEvent[] = [];
    const listener = (event: unknown): void => void events.push(event as RefusedEvent);
    lockChannels.refused.subscribe(listener);
    await one.using('report', ONCE, () => undefined);
    await one.using('report', ONCE, () => undefined);
    lockChannels.refused.unsubscribe(listener);
    expect(events).toMatchObject([{ resource: 'report', outcome: 'done', reason: undefined }]);
  });

  it.each([
    ['minHoldMs', { minHoldMs: 10 }, 'onceMs and minHoldMs are both set; use only one of them'],
    ['mode', { mode: 'shared' }, "onceMs is set with mode: 'shared'; expected an exclusive lock"],
    ['permits', { permits: 2 }, 'onceMs is set with permits: 2; expected an exclusive lock'],
    ['no time', { onceMs: 0 }, 'onceMs'],
  ])('refuses %s', async (_what, options, message) => {
    const { one } = two();
    const given = { ...ONCE, ...options } as OnceOptions;
    await expect(one.using('report', given, () => 1)).rejects.toThrow(message);
  });

  it('refuses lists, and calls that do not say how work ends', async () => {
    const { one } = two();
    // The types refuse these, too.
    const once = ONCE as object;
    await expect(one.using(['report', 'bill'], once, () => 1)).rejects.toThrow('expected one resource, not a list');
    await expect(one.acquire('report', once)).rejects.toThrow('acquire() does not know whether work succeeded');
    await expect(one.tryAcquire('report', once)).rejects.toThrow('tryAcquire() does not know whether work succeeded');
    expect(await one.inspect('report')).toBeNull();
  });
});

describe('@Locked with onceMs', () => {
  class Reports {
    readonly runs: number[] = [];

    @Locked('mail:<id>', { onceMs: 86_400_000 })
    async mail(id: number): Promise<string | undefined> {
      this.runs.push(id);
      return `mail ${id}`;
    }

    @Locked((name: string) => (name === '' ? ['report', 'bill'] : name), { onceMs: 1_000 })
    async named(name: string): Promise<string | undefined> {
      return name;
    }
  }

  it('processes each value once', async () => {
    const { one, other } = two();
    const all = [withLocks(new Reports(), one), withLocks(new Reports(), other)];
    expect(await Promise.all(all.map((reports) => reports.mail(1)))).toEqual(['mail 1', undefined]);
    expect(await all[1].mail(2)).toBe('mail 2');
    expect(all.map(({ runs }) => runs)).toEqual([[1], [2]]);
  });

  it('refuses a method that returns an Observable', () => {
    const decorate = (): void => {
      class Streams {
        @Locked('report', { onceMs: 1_000 })
        run(): Observable<number | undefined> {
          return of(1);
        }
      }
      void Streams;
    };
    expect(decorate).toThrow('@Locked of Streams.run: onceMs is set for a method that returns an Observable');
  });

  it('refuses several resources, at the decoration if it can', async () => {
    const decorate = (resource: string | string[]) => (): void => {
      class Several {
        @Locked(resource, { onceMs: 1_000 })
        async run(..._ids: string[]): Promise<void> {
          // Never called.
        }
      }
      void Several;
    };
    const message = /^@Locked of Several\.run: onceMs is set for several resources; expected one\.$/;
    expect(decorate(['report', 'bill'])).toThrow(message);
    expect(decorate('report:<...0>')).toThrow(message);
    const reports = withLocks(new Reports(), two().one);
    expect(await reports.named('report')).toBe('report');
    await expect(reports.named('')).rejects.toThrow(LockConfigError);
  });

  it('compiles only above a method whose result may be undefined', () => {
    class Strict {
      // @ts-expect-error -- the call may return undefined
      @Locked('report', { onceMs: 1_000 })
      async run(): Promise<string> {
        return 'report';
      }
    }
    expect(Strict).toBeDefined();
  });
});
