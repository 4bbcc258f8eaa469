import { describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockClosedError,
  LockLostError,
  type LockOptions,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY, queuedLocks as queued } from '../support/locks.js';
import { RecordingClock } from '../support/recording-clock.js';

describe('a handoff', () => {
  it('grants the full lease as soon as it is received, by one more request of the same owner', async () => {
    const { clock, stranger, store, memory, lock, owners } = await queued();
    await clock.advance(400);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
    expect(store.acquires).toHaveLength(2);
    expect(owners().size).toBe(1);
    for (const request of store.acquires)
      expect(request).toMatchObject({ wait: true, leaseMs: 30_000, handoffMs: 250 });
    expect(lock().expiresInMs).toBeGreaterThan(29_000);
    expect((await memory.inspect(KEY))?.remainingMs).toBe(30_000);
    await clock.advance(5_000);
    expect(store.extendBatches).toHaveLength(0);
  });

  it('grants nothing before the store replies, however often the message comes', async () => {
    const { clock, stranger, store, lock, waiting } = await queued();
    store.hold('acquire');
    await stranger.leave(KEY);
    await clock.advance(0);
    for (let i = 0; i < 100; i += 1) store.reportWake(store.wakes[0].owner, KEY);
    await clock.advance(500);
    expect(waiting).toEqual({});
    expect(store.acquires).toHaveLength(2);
    store.deliver('acquire');
    await clock.advance(0);
    lock().assertHeld();
  });
});

describe('a waiter', () => {
  it('finds a handoff whose message was lost within the handoff lease', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('wake');
    await stranger.leave(KEY);
    await clock.advance(3_000);
    lock().assertHeld();
    expect(owners().size).toBe(1);
    expect(lock().expiresInMs).toBeGreaterThan(26_000);
  });

  it('requests at once when it is subscribed again', async () => {
    const { clock, stranger, store, lock, owners } = await queued();
    store.hold('wake');
    await stranger.leave(KEY);
    store.reportSubscribed();
    await clock.advance(0);
    lock().assertHeld();
    expect(owners().size).toBe(1);
  });
});

describe('leaving the queue', () => {
  it.each(['a timeout', 'an abort', 'a shutdown'])('by %s leaves no entry', async (how) => {
    const { clock, stranger, waiting, abort, locks, holder } = await queued(how === 'a timeout' ? { waitMs: 500 } : {});
    if (how === 'an abort') abort.abort(new Error('gone home'));
    if (how === 'a shutdown') await locks.engine.close(0);
    await clock.advance(500);
    const expected = { 'a timeout': LockTimeoutError, 'an abort': Error, 'a shutdown': LockClosedError }[how];
    expect(waiting.error).toBeInstanceOf(expected);
    await stranger.leave(KEY);
    expect(await holder()).toBeUndefined();
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  it('hands a lock that was granted meanwhile to the next waiter', async () => {
    const { clock, stranger, store, abort, neighbour } = await queued();
    store.hold('wake');
    const next = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    expect(() => (next.value as Lock).assertHeld()).not.toThrow();
    store.deliver('wake');
    await clock.advance(0);
    expect(() => (next.value as Lock).assertHeld()).not.toThrow();
  });
});

describe('a caller with waitMs: 0', () => {
  it('is refused at once beside local waiters, without a request', async () => {
    const { locks, store, stranger, clock, lock } = await queued();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(store.acquires).toHaveLength(1);
    await stranger.leave(KEY);
    await clock.advance(0);
    lock().assertHeld();
  });

  it('does not keep a later caller that waits out of the queue', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const [trying, waiting] = [outcome(locks.tryAcquire('goods:300')), outcome(locks.acquire('goods:300'))];
    await clock.advance(0);
    expect(trying.value).toBeNull();
    expect(store.acquires.map(({ wait }) => wait)).toEqual([false, true]);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
  });
});

describe('minHoldMs and maxHoldMs', () => {
  it('hand off after a minHoldMs that began after the waiters joined', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const lock = await locks.acquire('goods:300', { minHoldMs: 400 });
    const waiting = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(1);
    await lock.release();
    await clock.advance(398);
    expect(waiting).toEqual({});
    await clock.advance(20);
    (waiting.value as Lock).assertHeld();
  });

  it('keep no process alive until the end of minHoldMs', async () => {
    const clock = new RecordingClock();
    const { locks } = faultyLocks({}, undefined, undefined, clock);
    await locks.using('goods:300', { minHoldMs: 86_400_000 }, () => undefined);
    expect(clock.scheduled.filter(({ delayMs }) => delayMs > 86_000_000)).toEqual([]);
  });

  it('count maxHoldMs from the handoff', async () => {
    const { clock, stranger, lock } = await queued({ maxHoldMs: 5_000, ttlMs: 1_000 });
    await clock.advance(20_000);
    await stranger.leave(KEY);
    await clock.advance(4_900);
    const { signal } = lock();
    expect(signal.aborted).toBe(false);
    await clock.advance(100);
    expect((signal.reason as Error).message).toContain('maxHoldMs');
    expect(await stranger.take(KEY)).toBe(true);
  });
});

describe('a handoff in the queue', () => {
  it('is not missed before the acquire reply: the same owner asks again at once when the reply has come', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(store.wakes).toHaveLength(1);
    expect(waiting).toEqual({});
    expect(store.acquires).toHaveLength(1);
    store.deliver('acquire');
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(store.acquires.map(({ owner }) => owner)).toEqual([store.wakes[0].owner, store.wakes[0].owner]);
    expect(store.releases).toHaveLength(0);
  });

  it('is not used after its lease, and the same owner requests and waits on', async () => {
    const { clock, stranger, store, waiting, holder, owners } = await queued();
    store.hold('wake');
    await stranger.leave(KEY);
    await clock.advance(0);
    // The process was suspended for longer than its lease.
    clock.jump(3_001);
    await stranger.take(KEY);
    store.deliver('wake');
    await clock.advance(100);
    expect(waiting).toEqual({});
    expect(await holder()).toBe('stranger');
    expect(store.acquires).toHaveLength(2);
    await stranger.leave(KEY);
    await clock.advance(0);
    (waiting.value as Lock).assertHeld();
    expect(owners().size).toBe(1);
  });
});

describe('a handoff to a line that has left the queue', () => {
  it('is released, even if the release that left the queue was lost', async () => {
    const { clock, stranger, store, abort, holder, locks } = await queued({ ttlMs: 1_000 });
    store.hold('wake');
    store.lose('release', new LockUnavailableError('down'));
    abort.abort(new Error('gone home'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(2_500);
    expect(await holder()).toBe(locks.engine.instanceId);
    store.lose('release');
    store.deliver('wake');
    await clock.advance(0);
    expect(await holder()).toBeUndefined();
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  it('is released, and does not disturb a newer attempt', async () => {
    const { clock, locks, store, stranger, neighbour } = faultyLocks();
    await stranger.take(KEY);
    store.hold('acquire');
    store.hold('wake');
    const abort = new AbortController();
    const leaving = outcome(locks.acquire('goods:300', { waitMs: 60_000, signal: abort.signal }));
    await clock.advance(500);
    // The handoff goes to the first attempt, whose mode nobody wants now.
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 60_000, mode: 'shared' }));
    abort.abort(new Error('gone home'));
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(leaving.error).toEqual(new Error('gone home'));
    expect(store.releases).toHaveLength(0);
    store.deliver('acquire');
    await clock.advance(0);
    const [first, second] = store.acquires.map(({ owner }) => owner);
    expect(second).not.toBe(first);
    expect(store.releases.map(({ owner }) => owner)).toEqual([first]);
    (waiting.value as Lock).assertHeld();
    store.deliver('wake');
    await clock.advance(0);
    expect(store.releases.map(({ owner }) => owner)).toEqual([first, first]);
    expect([store.acquires.length, store.extendBatches.length]).toEqual([2, 0]);
    (waiting.value as Lock).assertHeld();
    expect(await neighbour().locks.tryAcquire('goods:300')).toBeNull();
    expect(await waiting.value?.release()).toBe(true);
  });
});

describe('a late duplicate of a handoff', () => {
  it('is ignored during the hold, but for one renewal', async () => {
    const { clock, stranger, store, lock } = await queued();
    await stranger.leave(KEY);
    await clock.advance(0);
    const { owner } = store.wakes[0];
    store.reportWake(owner, KEY);
    await clock.advance(1_000);
    lock().assertHeld();
    expect(store.extendBatches).toMatchObject([[{ owner }]]);
    expect([store.acquires.length, store.releases.length]).toEqual([2, 0]);
    expect(await lock().release()).toBe(true);
  });
});

/** Callers of several instances, queued in the order of their names. Records which of them have held the lock. */
class Line {
  readonly entered: string[] = [];
  readonly tokens: number[] = [];

  /** @param hold runs while a caller holds the lock. */
  constructor(private readonly hold: () => Promise<void> = () => Promise.resolve()) {}

  join(locks: LockService, names: readonly string[], options: LockOptions = {}): void {
    for (const name of names) {
      const work = async (lock: Lock): Promise<void> => {
        this.entered.push(name);
        this.tokens.push(lock.fencingToken);
        await this.hold();
      };
      void locks.using('goods:300', { waitMs: 600_000, ...options }, work);
    }
  }
}

interface Terms {
  readonly holdMs: number;
  readonly maxLocalHoldMs?: number;
  readonly ttlMs?: number;
  readonly losesRenewals?: boolean;
  /** How many callers here get the lock before another instance does. */
  readonly before: number;
}

const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

describe('a local handoff', () => {
  it('costs one acquire request and one release for all waiters', async () => {
    const { clock, locks, store } = faultyLocks();
    const first = await locks.acquire('goods:300');
    const second = new Line();
    second.join(locks, names('a', 10));
    await first.release();
    await clock.advance(0);
    expect(second.entered).toEqual(names('a', 10));
    // Every grant reserves tokens, also that of a caller that was alone when its request was sent.
    expect(second.tokens).toEqual(names('a', 10).map((_, i) => first.fencingToken + i + 1));
    expect([store.acquires.length, store.releases.length]).toEqual([1, 1]);
  });

  it('yields to another instance after maxLocalPasses, 16 by default', async () => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    const line = new Line();
    line.join(locks, names('a', 20));
    await clock.advance(0);
    line.join(neighbour().locks, ['b']);
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(10);
    expect(line.entered).toEqual([...names('a', 20).slice(0, 17), 'b', ...names('a', 20).slice(17)]);
    expect(line.tokens).toEqual(line.tokens.toSorted((a, b) => a - b));
  });

  it('is off with fairness: strict', async () => {
    const { clock, locks, store } = faultyLocks({ fairness: 'strict' });
    const line = new Line();
    line.join(locks, names('a', 5));
    await clock.advance(0);
    expect(line.entered).toEqual(names('a', 5));
    expect([store.acquires.length, store.releases.length]).toEqual([5, 5]);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(5);
    expect(line.tokens).toEqual([...new Set(line.tokens)].toSorted((a, b) => a - b));
  });
});

describe('local handoffs, with ten callers here that hold the lock for holdMs each,', () => {
  it.each([
    ["50 ms after the store's grant by default", { holdMs: 20, before: 3 }],
    ['after a hold of 50 ms', { holdMs: 50, before: 1 }],
    ["maxLocalHoldMs after the store's grant", { holdMs: 20, maxLocalHoldMs: 100, before: 5 }],
    ['at once with maxLocalHoldMs: 0', { holdMs: 1, maxLocalHoldMs: 0, before: 1 }],
    [
      'after half of a lease that is not renewed',
      { holdMs: 20, maxLocalHoldMs: 1_000, ttlMs: 100, losesRenewals: true, before: 3 },
    ],
    ['in the second half of a lease that is renewed', { holdMs: 20, maxLocalHoldMs: 110, ttlMs: 100, before: 6 }],
  ] as [string, Terms][])(
    'end %s: %j',
    async (_when, { holdMs, maxLocalHoldMs = 50, losesRenewals, before, ttlMs }) => {
      const terms = { ttlMs };
      const { clock, locks, neighbour, store, stranger } = faultyLocks({ passing: { maxLocalHoldMs } });
      if (losesRenewals) store.lose('extend', new Error('no connection'));
      await stranger.take(KEY);
      const line = new Line(() => new Promise((resolve) => void clock.schedule(holdMs, resolve)));
      line.join(locks, names('a', 10), terms);
      await clock.advance(0);
      line.join(neighbour().locks, ['b'], terms);
      await clock.advance(0);
      await stranger.leave(KEY);
      await clock.advance(holdMs * 12);
      expect(line.entered.indexOf('b')).toBe(before);
    },
  );
});

describe('the next local holder', () => {
  it('has its own minHoldMs, which delays the next holder', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const line = new Line();
    line.join(locks, ['a0']);
    line.join(locks, ['a1'], { minHoldMs: 400 });
    line.join(locks, ['a2']);
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(line.entered).toEqual(['a0', 'a1']);
    await clock.advance(398);
    expect(line.entered).toEqual(['a0', 'a1']);
    expect(await stranger.take(KEY)).toBe(false);
    await clock.advance(20);
    expect(line.entered).toEqual(['a0', 'a1', 'a2']);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(2);
  });

  it('has the rest of the lease, and one that wants a longer one gets it from the store', async () => {
    const { clock, locks, store, stranger } = faultyLocks({ passing: { maxLocalHoldMs: 600_000 } });
    await stranger.take(KEY);
    const waiting = [30_000, 400, 60_000].map((ttlMs) => outcome(locks.acquire('goods:300', { ttlMs })));
    await clock.advance(0);
    await stranger.leave(KEY);
    for (const [i, leaseMs] of [30_000, 30_000, 60_000].entries()) {
      await clock.advance(50);
      const lock = waiting[i].value as Lock;
      expect(lock.expiresInMs).toBeGreaterThan(leaseMs * 0.9);
      expect(lock.expiresInMs).toBeLessThanOrEqual(leaseMs);
      await lock.release();
    }
    expect(store.acquires.map(({ leaseMs }) => leaseMs)).toEqual([30_000, 30_000, 60_000]);
    expect(store.releases).toHaveLength(2);
  });
});

describe('a local handoff does not happen', () => {
  it('after a lost hold, and the next waiter requests', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const losing = outcome(locks.acquire('goods:300'));
    const next = outcome(locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(10);
    await stranger.steal(KEY);
    await expect((losing.value as Lock).extend()).rejects.toBeInstanceOf(LockLostError);
    await clock.advance(0);
    expect(next).toEqual({});
    expect(store.acquires).toHaveLength(3);
    expect(new Set(store.acquires.map(({ owner }) => owner)).size).toBe(2);
    await stranger.leave(KEY);
    await clock.advance(0);
    (next.value as Lock).assertHeld();
  });

  it('before the last nested hold has ended', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    let inner: Lock | undefined;
    const outer = locks.using('goods:300', async () => {
      inner = await locks.acquire('goods:300');
    });
    const line = new Line();
    line.join(locks, ['a1']);
    await clock.advance(0);
    await stranger.leave(KEY);
    await outer;
    await clock.advance(10);
    expect(line.entered).toEqual([]);
    await inner?.release();
    await clock.advance(0);
    expect(line.entered).toEqual(['a1']);
  });
});
