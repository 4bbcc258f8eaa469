import { describe, expect, it } from '@jest/globals';
import { type Lock } from 'nestjs-redis-lock';
import { deferred, outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

const BLOCKED = /^The lock on goods:300 was lost after (\d+) ms: (.*)\.$/;

/** Returns why a lock was lost, as its error says it. */
const whyLost = (error: unknown): string | undefined => BLOCKED.exec((error as Error).message)?.[2];

describe('a lock that was handed off', () => {
  it('is asked for in the tick of its message, however many there are', async () => {
    const { clock, locks, neighbour, store } = faultyLocks();
    const other = neighbour().locks;
    const resources = Array.from({ length: 300 }, (_, i) => `goods:${i}`);
    const held = await Promise.all(resources.map((resource) => other.acquire(resource)));
    const waiting = resources.map((resource) => outcome(locks.acquire(resource, { waitMs: 600_000 })));
    await clock.advance(0);
    store.hold('wake');
    await Promise.all(held.map((lock) => lock.release()));
    expect(store.acquires).toHaveLength(300);
    store.deliver('wake');
    expect(store.acquires).toHaveLength(600);
    await clock.advance(0);
    for (const { value } of waiting) expect((value as Lock).expiresInMs).toBeGreaterThan(29_000);
  });
});

describe('a lock that is passed on while its renewals fail', () => {
  it('is renewed before the first line of the work, in the pause between renewals as well', async () => {
    const { clock, locks, store } = faultyLocks({ passing: { maxLocalHoldMs: 60_000 } });
    const first = await locks.acquire('goods:300');
    store.fail('extend', new Error('no connection'));
    const sent = deferred<number>();
    const next = outcome(locks.using('goods:300', { waitMs: 60_000 }, () => sent.resolve(store.extendBatches.length)));
    await clock.advance(12_500);
    const before = store.extendBatches.length;
    await first.release();
    expect(await sent.promise).toBe(before + 1);
    await clock.advance(0);
    expect(next).toStrictEqual({ value: undefined });
  });
});

describe('a lock whose renewal arrives while the event loop is blocked', () => {
  /** Returns a lock whose renewal has been sent 500 ms ago. The reply waits at the socket. */
  const renewing = async () => {
    const all = faultyLocks();
    const held = await all.locks.acquire('goods:300');
    all.store.hold('extend');
    await all.clock.advance(9_500);
    expect(all.store.extendBatches).toHaveLength(1);
    return { ...all, held };
  };

  it('is held when the loop has read the reply, which it does after its timers', async () => {
    const { clock, store, held } = await renewing();
    clock.jump(20_500);
    // The timers run first. The reply is read before those that they schedule.
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    held.assertHeld();
    expect(held.signal.aborted).toBe(false);
    expect(held.expiresInMs).toBeGreaterThan(8_000);
  });

  it('is lost to assertHeld() before the loop has turned, which names the reason', async () => {
    const { clock, held } = await renewing();
    clock.jump(20_500);
    expect(() => held.assertHeld()).toThrow(
      /the event loop was blocked for 20\.4 s, and its renewal could not be sent/,
    );
  });

  it('is not lost to extend() before the loop has turned', async () => {
    const { clock, store, held } = await renewing();
    clock.jump(20_500);
    const extended = outcome(held.extend());
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(extended).toHaveProperty('value');
    held.assertHeld();
  });

  it('is held at the end of the work', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('extend');
    const begun = deferred();
    const using = outcome(
      locks.using('goods:300', async () => {
        await begun.promise;
        clock.jump(20_500);
        clock.schedule(0, () => store.deliver('extend'));
        return 'done';
      }),
    );
    await clock.advance(9_500);
    begun.resolve();
    await clock.advance(0);
    await clock.advance(1);
    expect(using).toEqual({ value: 'done' });
    expect(store.releases).toHaveLength(1);
  });

  it('is lost if the renewed lease is over, too', async () => {
    const { clock, store, held } = await renewing();
    clock.jump(30_000);
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(whyLost(held.signal.reason)).toMatch(/^the event loop was blocked for 29\.9 s/);
  });

  it('is lost if an acquire request of its owner may have run after the lease', async () => {
    const { clock, locks, store } = faultyLocks();
    // The first request is silent for too long, and may still run. The same owner gets the lock by the second one.
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(1_100);
    store.drop('acquire');
    store.hold('extend');
    await clock.advance(100);
    const held = waiting.value as Lock;
    expect(store.acquires.map(({ owner }) => owner)).toEqual([store.acquires[0].owner, store.acquires[0].owner]);
    while (store.extendBatches.length === 0) await clock.advance(100);
    held.assertHeld();
    clock.jump(21_000);
    clock.schedule(0, () => store.deliver('extend'));
    await clock.advance(1);
    expect(held.signal.aborted).toBe(true);
  });
});

describe('work that blocks the event loop for less than two thirds of ttlMs', () => {
  it.each([0, 5_000, 9_000, 9_697, 9_699])('keeps its lock if it begins %d ms after the grant', async (at) => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(at);
    clock.jump(19_990);
    lock.assertHeld();
    await clock.advance(1);
    lock.assertHeld();
    expect(lock.expiresInMs).toBeGreaterThan(0);
  });

  it.each([9_000, 9_600, 12_000])('keeps a lock that was passed to it %d ms after the grant', async (at) => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000, passing: { maxLocalHoldMs: 60_000 } });
    const first = await locks.acquire('goods:300');
    // No renewal succeeds before.
    store.lose('extend', new Error('no connection'));
    const end = deferred();
    const next = outcome(
      locks.using('goods:300', { waitMs: 60_000 }, async (lock) => {
        clock.jump(19_990);
        await end.promise;
        lock.assertHeld();
      }),
    );
    await clock.advance(at);
    store.lose('extend');
    await first.release();
    await clock.advance(1);
    end.resolve();
    await clock.advance(0);
    expect(next).toStrictEqual({ value: undefined });
  });
});

describe('the error of a lost lock', () => {
  it('says how long the event loop was blocked, after the loop has turned', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const lock = await locks.acquire('goods:300');
    const { signal } = lock;
    await clock.advance(100);
    clock.jump(6_912);
    await clock.advance(0);
    expect((signal.reason as Error).message).toBe(
      'The lock on goods:300 was lost after 7012 ms: ' +
        'the event loop was blocked for 6.8 s, and its renewal could not be sent.',
    );
  });

  it('says so at the end of the work, before any timer has fired', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const using = locks.using('goods:300', () => clock.jump(7_000));
    await expect(using).rejects.toThrow(/the event loop was blocked for 6\.9 s, and its renewal could not be sent\.$/);
  });

  it.each([0, 1_000])('does not say so after renewals without a reply and a delay of %i ms', async (delayMs) => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 5_000 });
    const { signal } = await locks.acquire('goods:300');
    store.lose('extend', new Error('no connection'));
    await clock.advance(4_900 - delayMs);
    clock.jump(delayMs);
    await clock.advance(200);
    expect(whyLost(signal.reason)).toBe('its lease ran out');
  });

  it('does not say so after maxHoldMs, even if the loop was blocked', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 5_000 });
    const lock = await locks.acquire('goods:300', { maxHoldMs: 6_000 });
    clock.jump(7_000);
    expect(() => lock.assertHeld()).toThrow(/maxHoldMs \(6000\) has elapsed/);
  });
});
