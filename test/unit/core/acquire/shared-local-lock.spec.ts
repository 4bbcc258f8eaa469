// How the callers of one instance have a shared lock, or permits, with few requests.
import { describe, expect, it } from '@jest/globals';
import { type Lock, LockLostError, type LockOptions, type LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

const shared = { mode: 'shared' } as const;

type Outcome<T> = ReturnType<typeof outcome<T>>;

/** Lets that many callers request the lock. */
function request(locks: LockService, count: number, options: LockOptions = shared): Outcome<Lock>[] {
  return Array.from({ length: count }, () => outcome(locks.acquire('goods:300', { waitMs: 60_000, ...options })));
}

const granted = (callers: readonly Outcome<Lock>[]): number => callers.filter(({ value }) => value).length;

async function release(callers: readonly Outcome<Lock>[]): Promise<(boolean | undefined)[]> {
  return Promise.all(callers.map(async ({ value }) => value?.release()));
}

describe('the readers of one instance', () => {
  it('get the lock by one request and end it by one release if they come together', async () => {
    const { locks, store, clock } = faultyLocks();
    const readers = request(locks, 100);
    await clock.advance(0);
    expect([granted(readers), store.acquires.length]).toEqual([100, 1]);
    const [last, ...others] = readers;
    expect(await release(others)).toEqual(others.map(() => true));
    expect(store.releases).toHaveLength(0);
    expect(await release([last])).toEqual([true]);
    expect(store.releases).toHaveLength(1);
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('have one place in the queue behind a writer, and get the lock together', async () => {
    const { locks, neighbour, memory, store, clock } = faultyLocks();
    const writer = await neighbour().locks.acquire('goods:300');
    const readers = request(locks, 50);
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await writer.release();
    await clock.advance(0);
    expect([granted(readers), store.acquires.length]).toEqual([50, 1]);
    // The handoff had a short lease, which one request extends for all.
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([1]);
    for (const { value } of readers) expect(value?.expiresInMs).toBeGreaterThan(29_000);
  });

  it('join those that have the lock, as often as maxLocalPasses allows', async () => {
    const { locks, store, clock } = faultyLocks({ passing: { maxLocalPasses: 3 } });
    await locks.acquire('goods:300', shared);
    const later = request(locks, 3);
    await clock.advance(0);
    expect([granted(later), store.acquires.length]).toEqual([3, 1]);
    const last = request(locks, 1);
    await clock.advance(0);
    expect([granted(last), store.acquires.length]).toEqual([1, 2]);
  });

  it('join them for as long as maxLocalHoldMs allows', async () => {
    const { locks, store, clock } = faultyLocks();
    await locks.acquire('goods:300', shared);
    await clock.advance(49);
    const [early] = request(locks, 1);
    await clock.advance(1);
    const [late] = request(locks, 1);
    await clock.advance(0);
    expect([granted([early, late]), store.acquires.length]).toEqual([2, 2]);
  });

  it('let a writer of another instance in, although further ones come all the time', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    let readers = request(locks, 2);
    await clock.advance(0);
    const writer = outcome(neighbour().locks.acquire('goods:300'));
    for (let ms = 0; ms < 200 && writer.value === undefined; ms += 5) {
      const next = request(locks, 2);
      await clock.advance(5);
      await release(readers);
      readers = next;
    }
    expect(writer.value).toBeDefined();
    expect(granted(readers)).toBe(0);
    await writer.value?.release();
    await clock.advance(0);
    expect(await release(readers)).toEqual([true, true]);
  });

  it('each have a place of their own in strict order', async () => {
    const { locks, memory, neighbour, store, clock } = faultyLocks({ fairness: 'strict' });
    const writer = await neighbour().locks.acquire('goods:300');
    const readers = request(locks, 3);
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(3);
    await writer.release();
    await clock.advance(0);
    expect([granted(readers), store.acquires.length]).toEqual([3, 3]);
  });

  it('have shares of their own if they want other leases', async () => {
    const { locks, store, clock } = faultyLocks();
    request(locks, 3);
    request(locks, 3, { ...shared, ttlMs: 60_000 });
    await clock.advance(0);
    expect(store.acquires.map(({ leaseMs }) => leaseMs)).toEqual([30_000, 60_000]);
  });

  it('are renewed by one request', async () => {
    const { locks, store, clock } = faultyLocks();
    const readers = request(locks, 1_000);
    await clock.advance(10_000);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([1]);
    expect(granted(readers)).toBe(1_000);
    for (const { value } of readers) expect(value?.expiresInMs).toBeGreaterThan(28_000);
  });

  it('keep the lock if one of them loses it', async () => {
    const { locks, store, clock } = faultyLocks();
    const [one, other] = [
      await locks.acquire('goods:300', { ...shared, renew: false }),
      await locks.acquire('goods:300', shared),
    ];
    await clock.advance(30_000);
    expect(one.signal.reason).toBeInstanceOf(LockLostError);
    other.assertHeld();
    expect([await one.release(), store.releases.length]).toEqual([false, 0]);
    expect([await other.release(), store.releases.length]).toEqual([true, 1]);
  });

  it('do not join a lock that the store has lost', async () => {
    const { locks, memory, store, clock } = faultyLocks();
    const one = await locks.acquire('goods:300', shared);
    memory.table.delete(KEY);
    store.reconnect();
    await clock.advance(0);
    expect(one.signal.aborted).toBe(true);
    await locks.acquire('goods:300', shared);
    expect(store.acquires).toHaveLength(2);
  });

  it('do not join a lock after one of them has learned of its loss', async () => {
    const { locks, memory, store, clock } = faultyLocks();
    const [one, other] = await Promise.all([locks.acquire('goods:300', shared), locks.acquire('goods:300', shared)]);
    memory.table.delete(KEY);
    await expect(one.extend()).rejects.toThrow(LockLostError);
    other.assertHeld();
    request(locks, 1);
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
  });

  it('repeat a failed release for as long as the longest of their leases', async () => {
    const { locks, store, clock } = faultyLocks();
    const [one, other] = await Promise.all([locks.acquire('goods:300', shared), locks.acquire('goods:300', shared)]);
    await one.extend(300_000);
    await one.release();
    store.lose('release', new Error('no connection'));
    await expect(other.release()).rejects.toThrow('no connection');
    await clock.advance(200_000);
    const { length } = store.releases;
    await clock.advance(10_000);
    expect(store.releases.length).toBeGreaterThan(length);
  });

  it('keep the lock closed for minHoldMs, in any order of their ends', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    const [long, short] = [
      await locks.acquire('goods:300', { ...shared, minHoldMs: 1_000 }),
      await locks.acquire('goods:300', shared),
    ];
    await long.release();
    await short.release();
    const writer = outcome(neighbour().locks.acquire('goods:300'));
    await clock.advance(999);
    expect(writer.value).toBeUndefined();
    await clock.advance(1);
    expect(await writer.value?.release()).toBe(true);
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('that leave take nothing from those that stay', async () => {
    const { locks, memory, neighbour, clock } = faultyLocks();
    const writer = await neighbour().locks.acquire('goods:300');
    const brief = request(locks, 2, { ...shared, waitMs: 100 });
    const patient = request(locks, 2);
    await clock.advance(100);
    expect(brief.map(({ error }) => error)).toEqual([expect.any(LockTimeoutError), expect.any(LockTimeoutError)]);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await writer.release();
    await clock.advance(0);
    expect(await release(patient)).toEqual([true, true]);
  });

  it('leave the queue when the last of them leaves', async () => {
    const { locks, memory, neighbour, clock } = faultyLocks();
    await neighbour().locks.acquire('goods:300');
    request(locks, 3, { ...shared, waitMs: 100 });
    await clock.advance(100);
    expect((await memory.inspect(KEY))?.waiting).toEqual([]);
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('that do not wait are refused by the reply, not before', async () => {
    const { locks, store, clock } = faultyLocks();
    await locks.acquire('goods:300', shared);
    await clock.advance(50);
    store.hold('acquire');
    const trying = outcome(locks.tryAcquire('goods:300', shared));
    await clock.advance(100);
    expect(trying).toEqual({});
    store.deliver('acquire');
    await clock.advance(0);
    expect(trying.value).toBeDefined();
  });

  it('give up a request without a reply, and ask again after it', async () => {
    const { locks, store, clock } = faultyLocks();
    store.hold('acquire');
    const brief = request(locks, 1, { ...shared, waitMs: 100 });
    await clock.advance(1_100);
    expect(brief[0].error).toBeDefined();
    const { length } = store.acquires;
    const later = request(locks, 2);
    await clock.advance(0);
    expect(store.acquires).toHaveLength(length);
    store.deliver('acquire');
    await clock.advance(500);
    expect(await release(later)).toEqual([true, true]);
    expect(await locks.inspect('goods:300')).toBeNull();
    expect(locks.engine.localLocks.size).toBe(0);
  });
});

describe('the permits of one instance', () => {
  const permits = { permits: 3 };

  it('are requested all at once, and no more than there are', async () => {
    const { locks, store, clock } = faultyLocks();
    const callers = request(locks, 10, permits);
    await clock.advance(0);
    expect([granted(callers), store.acquires.length]).toEqual([3, 3]);
  });

  it('are passed on to waiting callers without a request, within the limits', async () => {
    const { locks, store, clock } = faultyLocks({ passing: { maxLocalPasses: 2 } });
    const callers = request(locks, 9, permits);
    await clock.advance(0);
    for (let i = 0; i < 9; i += 3) {
      expect(granted(callers)).toBe(i + 3);
      expect(await release(callers.slice(i, i + 3))).toEqual([true, true, true]);
      await clock.advance(0);
    }
    expect([store.acquires.length, store.releases.length]).toEqual([3, 3]);
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('have one place in the queue if others hold the rest', async () => {
    const { locks, memory, neighbour, clock } = faultyLocks();
    const others = request(neighbour().locks, 3, permits);
    await clock.advance(0);
    const callers = request(locks, 1, permits);
    await clock.advance(0);
    callers.push(...request(locks, 9, permits));
    await clock.advance(0);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await release(others);
    await clock.advance(0);
    for (let i = 0; i < 10; i += 1) {
      expect(granted(callers)).toBeGreaterThan(i);
      await callers[i].value?.release();
      await clock.advance(0);
    }
    expect(await locks.inspect('goods:300')).toBeNull();
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('are never held by more callers than there are', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    let [now, most] = [0, 0];
    const done: LockService[] = [];
    const visit = (one: LockService) => async (): Promise<void> => {
      await one.using('goods:300', { ...permits, waitMs: 60_000 }, async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise<void>((resolve) => clock.schedule(3, resolve));
        now -= 1;
      });
      done.push(one);
    };
    const instances = [locks, neighbour().locks, neighbour().locks];
    const visits = instances.flatMap((one) => Array.from({ length: 20 }, () => visit(one)()));
    for (let ms = 0; done.length < 60 && ms < 2_000; ms += 1) await clock.advance(1);
    await Promise.all(visits);
    expect([most, done.length]).toEqual([3, 60]);
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('name this instance in the error if it holds all of them', async () => {
    const { locks, clock } = faultyLocks();
    request(locks, 3, permits);
    await clock.advance(0);
    const [late] = request(locks, 1, { ...permits, waitMs: 100 });
    await clock.advance(100);
    expect(late.error).toMatchObject({ code: 'LOCK_TIMEOUT', isOwn: true, holderCount: 3 });
  });
});
