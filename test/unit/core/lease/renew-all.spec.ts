import { describe, expect, it } from '@jest/globals';
import { type Lock, LockLostError } from 'nestjs-redis-lock';
import { faultyLocks, KEY } from '../../../support/locks.js';

const lockKey = (id: number): string => `{lock_goods}:${id}`;

describe('all locks', () => {
  const heldLocks = async (count: number) => {
    const all = faultyLocks({ ttlMs: 30_000 });
    const held: Lock[] = [];
    for (let id = 0; id < count; id += 1) held.push(await all.locks.acquire(`goods:${id}`));
    return { ...all, held, signals: held.map(({ signal }) => signal) };
  };

  it('are renewed at once after a reconnect, and lost ones are known', async () => {
    const { clock, stranger, store, signals, held } = await heldLocks(3);
    await clock.advance(1_000);
    await stranger.steal(lockKey(1));
    store.reconnect();
    await clock.advance(0);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true, false]);
    expect(signals[1].reason).toBeInstanceOf(LockLostError);
    expect(held[0].expiresInMs).toBeGreaterThan(29_600);
  });

  it('are renewed after a reconnect, although a renewal is in flight', async () => {
    const { clock, stranger, store, signals } = await heldLocks(1);
    store.hold('extend');
    await clock.advance(10_000);
    await stranger.steal(lockKey(0));
    store.disconnect();
    // What is held back was lost with the connection.
    store.fail('extend');
    store.reconnect();
    expect(store.extendBatches).toHaveLength(2);
    store.deliver('extend');
    await clock.advance(0);
    expect(signals[0].aborted).toBe(true);
  });

  it('are renewed in batches of 250, one a turn of the event loop', async () => {
    const { clock, store } = await heldLocks(1_010);
    store.reconnect();
    const sizes = (): readonly number[] => store.extendBatches.map((batch) => batch.length);
    expect(sizes()).toEqual([250]);
    await clock.advance(0);
    expect(sizes()).toEqual([250, 250, 250, 250, 10]);
  });

  it('of other servers are not renewed', async () => {
    const { clock, store } = await heldLocks(3);
    store.reconnect((key) => key !== lockKey(1));
    await clock.advance(0);
    expect(store.extendBatches.flat().map(({ keys: [key] }) => key)).toEqual([lockKey(0), lockKey(2)]);
  });

  it('are renewed if the wall clock is set forward, as after a snapshot', async () => {
    const { clock, stranger, signals } = await heldLocks(2);
    await clock.advance(1_000);
    // The leases ended while the clocks of this machine stood still.
    await stranger.steal(lockKey(0));
    clock.setWallTime(clock.wallTime() + 60_000);
    await clock.advance(100);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('are not renewed if the wall clock is set back', async () => {
    const { clock, store } = await heldLocks(2);
    clock.setWallTime(clock.wallTime() - 60_000);
    await clock.advance(1_000);
    expect(store.extendBatches).toEqual([]);
  });
});

describe('a lock with renew: false', () => {
  it('is checked after a reconnect, and its lease does not grow', async () => {
    const { clock, locks, memory, store } = faultyLocks({ ttlMs: 30_000, renew: false });
    const lock = await locks.acquire('goods:300');
    await clock.advance(10_000);
    const before = [lock.expiresInMs, (await memory.inspect(KEY))?.remainingMs];
    store.reconnect();
    await clock.advance(0);
    expect(store.extendBatches).toHaveLength(1);
    expect([lock.expiresInMs, (await memory.inspect(KEY))?.remainingMs]).toEqual(before);
  });

  it('is known to be lost after a reconnect', async () => {
    const { clock, locks, stranger, store } = faultyLocks({ ttlMs: 30_000, renew: false });
    const { signal } = await locks.acquire('goods:300');
    await stranger.steal(KEY);
    store.reconnect();
    await clock.advance(0);
    expect(signal.aborted).toBe(true);
  });
});
