import { describe, expect, it } from '@jest/globals';
import { type LockService, MemoryStore } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { FaultyStore } from '../../../support/faulty-store.js';
import { faultyLocks } from '../../../support/locks.js';

describe('Watchdog', () => {
  const bucketsOf = (locks: LockService): number => locks.engine.watchdog.bucketCount;

  it.each([{ renew: false }, { maxHoldMs: 20_000 }])(
    'keeps no bucket of thousands of released holds with %j',
    async (options) => {
      const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
      for (let i = 0; i < 3_000; i += 1) {
        const lock = await locks.acquire(`goods:${i}`, options);
        clock.jump(1);
        await lock.release();
      }
      expect(bucketsOf(locks)).toBeLessThan(5);
    },
  );

  it('keeps one bucket of a hold that is extended again and again', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300');
    for (let ttlMs = 30_000; ttlMs < 80_000; ttlMs += 1_000) {
      await lock.extend(ttlMs);
      clock.jump(10);
    }
    expect(bucketsOf(locks)).toBe(1);
  });

  it('renews the held ones of a thousand locks in batches of 250', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    const all = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    expect(bucketsOf(locks)).toBe(1);
    await Promise.all(all.slice(0, 400).map((lock) => lock.release()));
    await clock.advance(10_001);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([250, 250, 100]);
    expect(all.slice(400).every((lock) => lock.expiresInMs > 28_000)).toBe(true);
    expect(bucketsOf(locks)).toBe(1);
  });

  it.each([{}, { lockDelayMs: 1_000 }])('sends one batch to each server, with %j', async (options) => {
    const clock = new ManualClock();
    const store = new FaultyStore(new MemoryStore(clock));
    store.serverOf = (key) => (key.endsWith('9') ? undefined : `server${Number(key.at(-1)) % 2}`);
    const locks = createTestLocks({ clock, store, ttlMs: 30_000, ...options });
    for (const id of [1, 2, 3, 4, 9]) await locks.acquire(`goods:${id}`);
    await clock.advance(10_001);
    const ids = store.extendBatches.map((batch) => batch.map(({ keys: [key] }) => Number(key.at(-1))));
    expect(ids).toEqual([[1, 3], [2, 4], [9]]);
  });

  it('renews a lock that joins an emptied bucket', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    await (await locks.acquire('goods:300')).release();
    const lock = await locks.acquire('goods:301');
    await clock.advance(60_000);
    lock.assertHeld();
    expect(store.extendBatches.length).toBeGreaterThan(4);
  });
});
