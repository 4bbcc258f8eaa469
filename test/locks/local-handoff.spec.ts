import { describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockLostError, type LockOptions, type LockService } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

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
    // The first caller was alone when its request was sent, so no tokens were reserved for the others.
    expect(store.acquires.map(({ tokens }) => tokens)).toEqual([1, 10]);
    expect(store.releases).toHaveLength(2);
  });

  it('gives each holder its own token from a reserved block', async () => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    const line = new Line();
    line.join(locks, names('a', 5));
    await clock.advance(0);
    const next = neighbour();
    line.join(next.locks, names('b', 5));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(10);
    expect(line.entered).toEqual([...names('a', 5), ...names('b', 5)]);
    expect(line.tokens).toEqual([...new Set(line.tokens)].toSorted((a, b) => a - b));
    expect(await next.locks.using('goods:300', (lock) => lock.fencingToken)).toBeGreaterThan(line.tokens[9]);
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

  it('ends with the reserved tokens', async () => {
    const { clock, locks, store } = faultyLocks();
    const line = new Line(() => Promise.resolve());
    store.delay('acquire');
    line.join(locks, names('a', 3));
    store.arrive('acquire');
    await clock.advance(0);
    expect(line.entered).toEqual(names('a', 3));
    expect(store.acquires.map(({ tokens }) => tokens)).toEqual([1, 2]);
  });

  it('is off with fairness: strict', async () => {
    const { clock, locks, store } = faultyLocks({ fairness: 'strict' });
    const line = new Line();
    line.join(locks, names('a', 5));
    await clock.advance(0);
    expect(line.entered).toEqual(names('a', 5));
    expect(store.acquires.map(({ tokens }) => tokens)).toEqual([1, 1, 1, 1, 1]);
    expect(store.releases).toHaveLength(5);
  });

  it('skips a waiter that has left', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const line = new Line();
    const abort = new AbortController();
    line.join(locks, ['a0']);
    const leaving = outcome(locks.acquire('goods:300', { signal: abort.signal }));
    line.join(locks, ['a1']);
    await clock.advance(0);
    abort.abort(new Error('gone home'));
    await stranger.leave(KEY);
    await clock.advance(0);
    expect(leaving.error).toEqual(new Error('gone home'));
    expect(line.entered).toEqual(['a0', 'a1']);
    expect(store.releases).toHaveLength(1);
  });
});

describe('local handoffs', () => {
  /** Twelve callers of one instance hold the lock for `holdMs` each, while another instance waits. */
  async function holdsOf(holdMs: number, options: LockOptions & { maxLocalHoldMs?: number } = {}) {
    const { maxLocalHoldMs = 50, ...terms } = options;
    const { clock, locks, neighbour, stranger } = faultyLocks({ passing: { maxLocalHoldMs } });
    await stranger.take(KEY);
    const line = new Line(() => new Promise((resolve) => void clock.schedule(holdMs, resolve)));
    line.join(locks, names('a', 10), terms);
    await clock.advance(0);
    line.join(neighbour().locks, ['b'], terms);
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(holdMs * 12);
    return line.entered;
  }

  it("end 50 ms after the store's grant by default", async () => {
    expect((await holdsOf(20)).indexOf('b')).toBe(3);
    expect((await holdsOf(50)).indexOf('b')).toBe(1);
  });

  it("end maxLocalHoldMs after the store's grant", async () => {
    expect((await holdsOf(20, { maxLocalHoldMs: 100 })).indexOf('b')).toBe(5);
    expect((await holdsOf(1, { maxLocalHoldMs: 0 })).indexOf('b')).toBe(1);
  });

  it('end after half of a lease that is not renewed', async () => {
    const options = { maxLocalHoldMs: 1_000, ttlMs: 100, renew: false };
    expect((await holdsOf(20, options)).indexOf('b')).toBe(3);
  });

  it('go on in the second half of a lease that is renewed', async () => {
    expect((await holdsOf(20, { maxLocalHoldMs: 110, ttlMs: 100 })).indexOf('b')).toBe(6);
  });
});

describe('the next local holder', () => {
  it('has its own maxHoldMs, from its own start', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const options = { maxHoldMs: 1_000, ttlMs: 300 };
    const first = outcome(locks.acquire('goods:300', options));
    const second = outcome(locks.acquire('goods:300', options));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(40);
    await (first.value as Lock).release();
    await clock.advance(980);
    (second.value as Lock).assertHeld();
    await clock.advance(20);
    expect(() => (second.value as Lock).assertHeld()).toThrow(/maxHoldMs/);
  });

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

  it('passes the lock at once if its minHoldMs is over', async () => {
    const { clock, locks, store, stranger } = faultyLocks();
    await stranger.take(KEY);
    const holding = outcome(locks.acquire('goods:300', { minHoldMs: 20 }));
    const line = new Line();
    line.join(locks, ['a1']);
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(20);
    await (holding.value as Lock).release();
    await clock.advance(0);
    expect(line.entered).toEqual(['a1']);
    expect(store.acquires).toHaveLength(1);
  });

  it('has its own lease: a shorter one ends earlier, a longer one is requested soon', async () => {
    const { clock, locks, stranger } = faultyLocks({ passing: { maxLocalHoldMs: 600_000 } });
    await stranger.take(KEY);
    const waiting = [30_000, 400, 60_000].map((ttlMs) => outcome(locks.acquire('goods:300', { ttlMs })));
    await clock.advance(0);
    await stranger.leave(KEY);
    for (const [i, ttlMs] of [30_000, 400, 60_000].entries()) {
      await clock.advance(50);
      const lock = waiting[i].value as Lock;
      expect(lock.expiresInMs).toBeGreaterThan(ttlMs * 0.6);
      expect(lock.expiresInMs).toBeLessThanOrEqual(ttlMs);
      await lock.release();
    }
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
    expect(store.acquires).toHaveLength(2);
    await stranger.leave(KEY);
    await clock.advance(0);
    (next.value as Lock).assertHeld();
  });

  it('after the deadline, even before a timer has fired', async () => {
    const { clock, locks, store, stranger } = faultyLocks({ passing: { maxLocalHoldMs: 600_000 } });
    await stranger.take(KEY);
    const holding = outcome(locks.acquire('goods:300', { ttlMs: 1_000 }));
    const next = outcome(locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(10);
    clock.jump(5_000);
    await stranger.take(KEY);
    await (holding.value as Lock).release();
    await clock.advance(10);
    expect(next).toEqual({});
    expect(store.acquires).toHaveLength(2);
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

  it('to waiters that a shutdown refuses', async () => {
    const { clock, locks, stranger, memory } = faultyLocks();
    await stranger.take(KEY);
    const holding = outcome(locks.acquire('goods:300'));
    const next = outcome(locks.acquire('goods:300'));
    await clock.advance(0);
    await stranger.leave(KEY);
    await clock.advance(0);
    const closing = locks.engine.close(5_000);
    expect(await (holding.value as Lock).release()).toBe(true);
    await closing;
    expect(next.error).toBeInstanceOf(LockClosedError);
    expect(next.error).not.toBeInstanceOf(LockLostError);
    expect(await memory.inspect(KEY)).toBeNull();
  });
});
