// A lock that an instance keeps, and that it must not give to its next caller.
import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError } from 'nestjs-redis-lock';
import type { ManualClock } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

describe('a kept lock that cannot be given to the next caller', () => {
  it.each([
    ['its lease is over', (clock: ManualClock) => clock.jump(1_000)],
    ['the clock has jumped', (clock: ManualClock) => clock.setWallTime(clock.wallTime() + 5_000)],
  ])('leaves that caller its waitMs: %s', async (_, happen) => {
    const { locks, clock, memory, stranger } = faultyLocks({ keepMs: 1_000 });
    await locks.using('goods:300', () => undefined);
    happen(clock);
    memory.table.delete(KEY);
    expect(await stranger.take(KEY)).toBe(true);
    const next = outcome(locks.acquire('goods:300', { waitMs: 1_000 }));
    await clock.advance(0);
    await clock.advance(2_000);
    expect(next.error).toBeInstanceOf(LockTimeoutError);
  });

  it('is acquired anew for a caller whose lease nobody renews', async () => {
    const { locks, clock } = faultyLocks({ keepMs: 1_000 });
    await locks.using('goods:300', () => undefined);
    await clock.advance(700);
    const lock = await locks.acquire('goods:300', { renew: false, ttlMs: 1_000 });
    await clock.advance(900);
    lock.assertHeld();
  });

  it('goes to another instance after its lease, although the request of that instance is not reported', async () => {
    const { locks, neighbour, store, clock } = faultyLocks({ keepMs: 8_000 });
    const first = await locks.acquire('goods:300');
    store.hold('wanted');
    const waiting = outcome(neighbour({}).locks.acquire('goods:300', { waitMs: 100_000 }));
    await clock.advance(0);
    const over = new AbortController();
    const use = async (): Promise<void> => {
      while (!over.signal.aborted) {
        await locks.using('goods:300', { waitMs: 100_000 }, async () => {
          const worked = deferred();
          clock.schedule(500, () => worked.resolve());
          await worked.promise;
        });
      }
    };
    const uses = [use(), use()];
    await first.release();
    for (let i = 0; i < 20 && waiting.value === undefined; i += 1) await clock.advance(1_000);
    expect(waiting.value).toBeDefined();
    over.abort();
    await waiting.value?.release();
    await clock.advance(2_000);
    await Promise.all(uses);
  });
});
