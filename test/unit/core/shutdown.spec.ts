import { describe, expect, it } from '@jest/globals';
import { LockClosedError, LockLostError } from 'nestjs-redis-lock';
import { outcome } from '../../support/async.js';
import { faultyLocks, KEY } from '../../support/locks.js';

describe('a shutdown that settles', () => {
  it('waits for the calls and holds so far, and not for later ones', async () => {
    const { clock, locks } = faultyLocks();
    const held = await locks.acquire('goods:300');
    const waiting = outcome(locks.acquire('goods:300'));
    const settled = outcome(locks.engine.settle(5_000));
    const late = await locks.acquire('goods:301');
    await held.release();
    await clock.advance(0);
    expect([waiting.value, settled]).toEqual([expect.anything(), {}]);
    await waiting.value?.release();
    await clock.advance(0);
    expect(settled).toEqual({ value: undefined });
    late.assertHeld();
    await late.release();
    await locks.engine.close(5_000);
    expect(clock.pending).toBe(0);
  });

  it.each([['one lock', 'goods:300'] as const, ['several locks', ['goods:300', 'goods:301']] as const])(
    'waits no longer for a caller that has given up (%s)',
    async (_, resource) => {
      const { clock, locks, stranger } = faultyLocks();
      await stranger.take(KEY);
      const stop = new AbortController();
      const waiting = outcome(locks.acquire(resource as string, { signal: stop.signal }));
      await clock.advance(0);
      const settled = outcome(locks.engine.settle(5_000));
      await clock.advance(10);
      expect(settled).toEqual({});
      stop.abort();
      await clock.advance(0);
      expect(waiting.error).toBe(stop.signal.reason);
      expect(settled).toEqual({ value: undefined });
      await locks.engine.close(5_000);
      expect(clock.pending).toBe(0);
    },
  );

  it('ends at once if there is nothing to wait for', async () => {
    const { locks } = faultyLocks();
    await locks.engine.settle(5_000);
    expect(locks.isShuttingDown).toBe(true);
    await locks.engine.close(5_000);
  });

  it('rejects waiters and ends holds after its time, also those of later calls', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    await locks.engine.settle(5_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    const lock = await locks.acquire('goods:301');
    await clock.advance(4_999);
    expect([waiting, lock.signal.aborted]).toEqual([{}, false]);
    await clock.advance(1);
    expect(waiting.error).toBeInstanceOf(LockClosedError);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    await expect(locks.acquire('goods:302')).rejects.toBeInstanceOf(LockClosedError);
    await locks.engine.close(5_000);
    expect(clock.pending).toBe(0);
  });

  it('leaves the rest of its time to holds after the end of the settling', async () => {
    const { clock, locks } = faultyLocks();
    await locks.engine.settle(5_000);
    const lock = await locks.acquire('goods:301');
    await clock.advance(3_000);
    const closed = outcome(locks.engine.close(5_000));
    await clock.advance(1_999);
    expect([closed, lock.signal.aborted]).toEqual([{}, false]);
    await clock.advance(1);
    expect([closed, lock.signal.aborted]).toEqual([{ value: undefined }, true]);
    expect(clock.pending).toBe(0);
  });

  it('can be asked for twice, and after the end', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    const settled = [outcome(locks.engine.settle(5_000)), outcome(locks.engine.settle(1))];
    await clock.advance(10);
    expect(settled).toEqual([{}, {}]);
    await lock.release();
    await locks.engine.close(5_000);
    await locks.engine.settle(5_000);
    expect(settled).toEqual([{ value: undefined }, { value: undefined }]);
  });
});
