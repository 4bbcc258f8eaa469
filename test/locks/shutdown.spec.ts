import { describe, expect, it } from '@jest/globals';
import { LockClosedError, LockLostError, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome, deferred } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';
import { longestTimerAtEndOf } from '../support/ends-by-itself.js';

describe('a shutdown', () => {
  it('lets running holds finish, and the locks that they request inside', async () => {
    const { locks } = faultyLocks();
    const [begun, work] = [deferred(), deferred()];
    const using = locks.using('goods:300', async () => {
      begun.resolve();
      await work.promise;
      return locks.using('goods:301', () => 'finished');
    });
    await begun.promise;
    const closing = locks.engine.close(5_000);
    work.resolve();
    await expect(using).resolves.toBe('finished');
    await closing;
  });

  it('keeps a lock that outlasts it closed for the rest of its minHoldMs', async () => {
    const { clock, locks, store } = faultyLocks();
    const work = deferred();
    const used = outcome(locks.using('goods:300', { minHoldMs: 60_000 }, () => work.promise));
    await clock.advance(10);
    const closing = locks.engine.close(1_000);
    await clock.advance(2_000);
    await closing;
    expect(store.releases).toEqual([expect.objectContaining({ closedForMs: 60_000 - 1_010 })]);
    work.resolve();
    await clock.advance(0);
    expect(used.error).toBeInstanceOf(LockLostError);
  });

  it('refuses new callers, and callers that wait inside a hold', async () => {
    const { clock, locks, memory } = faultyLocks();
    const hang = deferred();
    let entered = false;
    const failure = (error: unknown): unknown => error;
    const one = locks.using('b', () => hang.promise).catch(failure);
    const inner = { waitMs: Infinity };
    const other = locks.using('a', () => locks.using('b', inner, () => void (entered = true))).catch(failure);
    await clock.advance(0);
    const closing = locks.engine.close(0);
    await clock.advance(0);
    await closing;
    expect(await other).toMatchObject({ code: 'LOCK_LOST', cause: expect.any(LockClosedError) });
    hang.resolve();
    expect(await one).toBeInstanceOf(LockLostError);
    expect(entered).toBe(false);
    expect(await memory.inspect('{lock_b}')).toBeNull();
  });

  it('aborts and releases all holds after the grace period', async () => {
    const { clock, locks, store } = faultyLocks();
    const held = await Promise.all([1, 2, 3].map((id) => locks.acquire(`goods:${id}`)));
    const signals = held.map(({ signal }) => signal);
    const closing = locks.engine.close(5_000);
    await clock.advance(4_999);
    expect(signals.some(({ aborted }) => aborted)).toBe(false);
    await clock.advance(1);
    await closing;
    for (const { reason } of signals) {
      expect(reason).toBeInstanceOf(LockLostError);
      expect((reason as LockLostError).cause).toBeInstanceOf(LockClosedError);
    }
    expect(store.releases).toHaveLength(3);
    expect(clock.pending).toBe(0);
  });
});

describe('a shutdown that settles', () => {
  it('waits for the calls and holds so far, and not for later ones', async () => {
    const { clock, locks } = faultyLocks();
    const held = await locks.acquire('goods:300');
    const waiting = outcome(locks.acquire('goods:300'));
    const settled = outcome(locks.engine.settle(5_000));
    const late = await locks.acquire('goods:301');
    await held.release();
    await clock.advance(0);
    expect([waiting.value, settled]).toStrictEqual([expect.anything(), {}]);
    await waiting.value?.release();
    await clock.advance(0);
    expect(settled).toStrictEqual({ value: undefined });
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
      expect(settled).toStrictEqual({});
      stop.abort();
      await clock.advance(0);
      expect(waiting.error).toBe(stop.signal.reason);
      // The engine looks at the end of the tick.
      await clock.advance(0);
      expect(settled).toStrictEqual({ value: undefined });
      await locks.engine.close(5_000);
      expect(clock.pending).toBe(0);
    },
  );

  it('ends holds after its time, and serves other calls', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    const lock = await locks.acquire('goods:301');
    const settled = outcome(locks.engine.settle(5_000));
    const later = await locks.acquire('goods:302');
    await clock.advance(4_999);
    expect([waiting, lock.signal.aborted, settled]).toStrictEqual([{}, false, {}]);
    await clock.advance(1);
    expect(waiting).toStrictEqual({});
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(settled).toStrictEqual({ value: undefined });
    later.assertHeld();
    await (await locks.acquire('goods:303')).release();
    await later.release();
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
    expect([closed, lock.signal.aborted]).toStrictEqual([{}, false]);
    await clock.advance(1);
    expect([closed, lock.signal.aborted]).toStrictEqual([{ value: undefined }, true]);
    expect(clock.pending).toBe(0);
  });
});

describe('a closed engine', () => {
  it('rejects inspect requests without a reply, also later ones', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    const lock = await locks.acquire('goods:300');
    await lock.release();
    store.hold('inspect');
    const looks = [1, 2, 3].map(() => outcome(locks.inspect('goods:300')));
    await locks.engine.close(0);
    await clock.advance(1_000);
    for (const { error } of looks) expect(error).toBeInstanceOf(LockUnavailableError);
    const late = outcome(locks.inspect('goods:300'));
    await clock.advance(1_000);
    expect(late.error).toBeInstanceOf(LockUnavailableError);
    const message = 'The inspection of goods:300 got no reply within 1000 ms.';
    expect(late.error).toMatchObject({ message, resource: 'goods:300' });
    expect(clock.pending).toBe(0);
  });

  it('releases an owner once whose request has no reply, and nothing when the reply comes', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    store.hold('acquire');
    const refused = outcome(locks.acquire('goods:300'));
    const closed = outcome(locks.engine.close(0));
    await clock.advance(1_000);
    expect([refused.error, closed]).toEqual([expect.any(LockClosedError), { value: undefined }]);
    const { releases } = store;
    store.deliver('acquire');
    await clock.advance(1_000);
    expect(releases).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it('is not needed for a process to end after its last release', async () => {
    const done = `
      const { service } = LockRuntime.start({ store: memory() }, undefined, { requestTimeoutMs: 8_000 });
      await (await service.acquire('goods:300')).release();
    `;
    expect(await longestTimerAtEndOf(done)).toBe(0);
  });
});
