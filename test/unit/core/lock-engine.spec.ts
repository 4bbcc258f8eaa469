import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUnavailableError, MemoryStore } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { outcome } from '../../support/async.js';
import { exitTimeOf } from '../../support/exit-time.js';
import { faultyLocks } from '../../support/locks.js';
import { RecordingClock } from '../../support/recording-clock.js';

describe('a closed engine', () => {
  it('rejects inspect requests without a reply, also later ones', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    const lock = await locks.acquire('goods:300');
    await lock.release();
    store.hold('inspect');
    const looks = [1, 2, 3].map(() => outcome(locks.inspect('goods:300')));
    await locks.engine.close(0);
    await clock.advance(0);
    for (const { error } of looks) expect(error).toBeInstanceOf(LockUnavailableError);
    const late = outcome(locks.inspect('goods:300'));
    await clock.advance(1_000);
    expect(late.error).toBeInstanceOf(LockUnavailableError);
    const message = 'The inspection of goods:300 got no reply within 1000 ms.';
    expect(late.error).toMatchObject({ message, resource: 'goods:300' });
    expect(clock.pending).toBe(0);
  });

  it('is not needed for a process to end after its last release', async () => {
    const done = `
      const { service } = LockRuntime.start({ store: memory() }, undefined, { requestTimeoutMs: 8_000 });
      await (await service.acquire('goods:300')).release();
    `;
    expect(await exitTimeOf(done)).toBeLessThan(3_000);
  });
});

describe('the rest of minHoldMs', () => {
  it('is the remainingMs of a LockTimeoutError in the same instance', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { minHoldMs: 5_000 });
    await clock.advance(1_000);
    await lock.release();
    await clock.advance(500);
    const refused = { code: 'LOCK_TIMEOUT', remainingMs: 3_500 };
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toMatchObject(refused);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(1_500);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ remainingMs: 2_000 });
  });
});

describe('a queue of thousands of local waiters', () => {
  const LENGTH = 2_000;

  /**
   * Returns how often the clock is read for each of `length` callers, with as many callers of a rival if there is one.
   */
  async function readings(length: number, withRival: boolean): Promise<number> {
    const clock = new RecordingClock();
    const store = new MemoryStore(clock);
    const options = { clock, store, fairness: 'strict' as const, waitMs: 600_000, maxWaiting: Infinity };
    const [locks, rival] = [createTestLocks(options), createTestLocks(options)];
    const first = await rival.acquire('goods:300');
    const all = Array.from({ length }, () => locks.using('goods:300', () => undefined));
    if (withRival) all.push(...Array.from({ length }, () => rival.using('goods:300', () => undefined)));
    await clock.advance(0);
    clock.reads = 0;
    await first.release();
    await Promise.all(all);
    return clock.reads / all.length;
  }

  it.each([false, true])('is not scanned for each grant (another instance in the queue: %j)', async (withRival) => {
    expect(await readings(LENGTH, withRival)).toBeLessThan(LENGTH / 20);
  });
});

describe('a caller behind an unanswered request of callers that have left', () => {
  it.each([1, 3])('waits no longer than its waitMs (%i callers)', async (count) => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    store.hold('acquire');
    const left = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(5_000);
    expect(left.error).toBeInstanceOf(LockUnavailableError);
    const later = Array.from({ length: count }, () => outcome(locks.acquire('goods:300', { waitMs: 1_500 })));
    await clock.advance(5_000);
    for (const { error } of later) expect(error).toBeInstanceOf(LockUnavailableError);
  });
});
