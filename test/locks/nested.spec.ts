import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  type Lock,
  LockConfigError,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  type LockService,
} from 'nestjs-redis-lock';
import { lockChannels, type LockEvent } from 'nestjs-redis-lock/events';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { deferred } from '../support/async.js';
import { loseAllOf } from '../support/inside.js';
import { faultyLocks } from '../support/locks.js';

describe('a nested hold', () => {
  it('shares the grant, without a request', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', async (outer) => {
      await locks.using('goods:300', (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(locks.current('goods:300')).toBe(inner);
      });
      outer.assertHeld();
    });
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
  });

  it('keeps the grant until the last hold ends', async () => {
    const { locks, store } = faultyLocks();
    const inner = await locks.using('goods:300', () => locks.acquire('goods:300'));
    expect(store.releases).toHaveLength(0);
    inner.assertHeld();
    expect(await inner.release()).toBe(true);
    expect(store.releases).toHaveLength(1);
  });

  it('is not created by a task that outlives the hold', async () => {
    const { clock, locks, store } = faultyLocks();
    const later = deferred();
    let stray!: Promise<Lock>;
    await locks.using('goods:300', () => {
      stray = later.promise.then(() => locks.acquire('goods:300'));
    });
    later.resolve();
    const lock = await stray;
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    await lock.release();
  });

  it('is not created inside a lock that was lost: the call acquires it again, with a higher token', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', { onLost: 'ignore' }, async (outer) => {
      loseAllOf(locks);
      await locks.using('goods:300', (inner) => {
        expect(inner.fencingToken).toBeGreaterThan(outer.fencingToken);
        expect(() => outer.assertHeld()).toThrow(LockLostError);
      });
    });
    expect(store.acquires).toHaveLength(2);
  });

  it('is not created after acquire(), which does not enter the context', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    expect(locks.current()).toBeUndefined();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
  });

  it('is not created for another module instance', async () => {
    const { locks } = faultyLocks();
    const other = faultyLocks();
    await locks.using('goods:300', () => other.locks.using('goods:300', () => undefined));
    expect(other.store.acquires).toHaveLength(1);
  });
});

describe('a query that runs when it is awaited', () => {
  const query = (run: () => Promise<string>): Promise<string> =>
    // oxlint-disable-next-line unicorn/no-thenable -- as the queries of Knex, Prisma and Mongoose
    ({ then: (...listeners: Parameters<Promise<string>['then']>) => run().then(...listeners) }) as never;

  it.each<[string, (locks: LockService, work: () => Promise<string>) => Promise<unknown>]>([
    ['using()', (locks, work) => locks.using('goods:300', work)],
    ['using() with onceMs', (locks, work) => locks.using('goods:300', { onceMs: 1_000 }, work)],
    ['wrap()', (locks, work) => locks.wrap(() => 'goods:300', work)()],
    ['a lock scope', (locks, work) => locks.scope(async () => locks.using('goods:300', work))],
  ])('runs inside the hold of %s', async (_how, run) => {
    const locks = createTestLocks();
    const nested = (): Promise<string> => locks.using('goods:300', { waitMs: 0 }, () => 'nested');
    expect(await run(locks, () => query(nested))).toBe('nested');
  });

  it('runs inside a scope that returns it', async () => {
    const locks = createTestLocks();
    const kept = await locks.scope(() =>
      query(async () => {
        await locks.using('goods:300', () => undefined);
        return String(locks.current('goods:300')?.resource);
      }),
    );
    expect(kept).toBe('goods:300');
  });
});

describe('minHoldMs of a nested hold', () => {
  it('counts from its grant, and the lock stays closed for that long', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    await locks.using('goods:300', () => locks.using('goods:300', { minHoldMs: 10_000 }, () => undefined));
    await clock.advance(9_999);
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    await clock.advance(2);
    expect(await neighbour().locks.tryAcquire('goods:300')).not.toBeNull();
  });
});

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

  it('throws outside of the lock, under another one, and after acquire()', async () => {
    expect(() => locks.assertHeld('goods:300')).toThrow(LockNotHeldError);
    await using lock = await locks.acquire('goods:300');
    lock.assertHeld();
    expect(() => locks.assertHeld('goods:300')).toThrow('A lock from acquire() has an assertHeld() of its own');
    await locks.using('goods:301', async () => {
      expect(() => locks.assertHeld('goods:300')).toThrow('goods:300 is not held here; call this inside');
    });
    expect(() => locks.assertHeld('goods:300')).toThrow(expect.objectContaining({ code: 'LOCK_NOT_HELD' }));
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

/** A context of the application, one for each of its requests. */
const request = new AsyncLocalStorage<string>();

/** The context of the caller: its request, and its innermost hold. */
const contextIn = (locks: LockService) => [request.getStore(), locks.current()?.resource];

/** Runs a hold of outer:1 inside request A until `leave` is called. */
async function insideOfA(options = {}) {
  const all = faultyLocks({ ttlMs: 30_000, ...options });
  const end = deferred();
  const entered = deferred<<T>(fn: () => T) => T>();
  const over = request.run('A', () =>
    all.locks.using('outer:1', async () => {
      entered.resolve(AsyncLocalStorage.snapshot());
      await end.promise;
    }),
  );
  const runInA = await entered.promise;
  const leave = async (): Promise<void> => {
    end.resolve();
    await over;
  };
  return { ...all, runInA, leave };
}

it("a loss is reported outside of every caller's context, even if another hold has started the timer", async () => {
  const { clock, locks, runInA, leave } = await insideOfA();
  const reported: unknown[] = [];
  const triedThere: Promise<Lock | null>[] = [];
  const see = (what: string): void => void reported.push([what, ...contextIn(locks)]);
  const onLost = (event: unknown): void => {
    // Instances of other files that ran in this process publish in the same channels.
    if ((event as LockEvent).resource !== 'b:1') return;
    see('lost');
    triedThere.push(locks.tryAcquire('outer:1'));
  };
  lockChannels.lost.subscribe(onLost);
  Logger.overrideLogger({ log: () => undefined, error: () => undefined, warn: () => see('warning') });
  // This lock is due first, so that it starts the timer again.
  await runInA(() => locks.using('inner:1', { maxHoldMs: 400 }, () => clock.advance(100)));
  const lock = await request.run('B', () => locks.acquire('b:1', { maxHoldMs: 500 }));
  await clock.advance(600);
  lockChannels.lost.unsubscribe(onLost);
  Logger.overrideLogger(false);
  expect(lock.signal.aborted).toBe(true);
  expect(reported).toEqual([
    ['warning', undefined, undefined],
    ['lost', undefined, undefined],
  ]);
  expect(await Promise.all(triedThere)).toEqual([null]);
  await leave();
});

describe("a caller's context", () => {
  // The lock is always released inside a hold of outer:1 and request A.
  it.each([
    ['in the same instance, with a local handoff', {}, false],
    ['in the same instance, with a new request', { fairness: 'strict' }, false],
    ['in another instance, with a handoff', {}, true],
  ])('is its own after a grant, if the releaser is %s', async (_where, options, elsewhere) => {
    const { clock, locks, runInA, leave, neighbour } = await insideOfA(options);
    const lock = await runInA(() => locks.acquire('goods:300'));
    const waiting = elsewhere ? neighbour().locks : locks;
    const granted = request.run('B', () =>
      waiting.using('goods:300', async () => [...contextIn(waiting), await waiting.tryAcquire('outer:1')]),
    );
    await clock.advance(10);
    await runInA(() => lock.release());
    expect(await granted).toEqual(['B', 'goods:300', null]);
    await leave();
  });

  it('is its own after a refusal', async () => {
    const { clock, locks, runInA, leave } = await insideOfA();
    await runInA(() => locks.acquire('goods:300'));
    const refused = request.run('B', async () => {
      await locks.acquire('goods:300', { waitMs: 700 }).catch(() => undefined);
      return contextIn(locks);
    });
    await clock.advance(800);
    expect(await refused).toEqual(['B', undefined]);
    await leave();
  });
});
