import { describe, expect, it } from '@jest/globals';
import { LockConfigError, Locked, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';
import { keptBy } from '../support/inside.js';

const timeoutOf = async (call: Promise<unknown>): Promise<LockTimeoutError> => {
  const error: unknown = await call.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LockTimeoutError);
  return error as LockTimeoutError;
};

describe('maxWaiting', () => {
  it('refuses the caller beyond 1,000 at once, and serves all others', async () => {
    const { clock, locks } = faultyLocks();
    const holder = await locks.acquire('goods:300');
    const served: number[] = [];
    const using = Array.from({ length: 1_000 }, (_, i) =>
      locks.using('goods:300', { waitMs: 60_000 }, () => void served.push(i)),
    );
    const error = await timeoutOf(locks.acquire('goods:300', { waitMs: 60_000 }));
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', isQueueFull: true, waitingHere: 1_000, elapsedMs: 0 });
    expect(error.message).toContain('1000 callers of this instance (maxWaiting: 1000) wait.');
    expect(error.publicMessage).toBe(
      'goods:300 is locked by others: refused at once, because too many callers wait for it.',
    );
    await holder.release();
    await clock.advance(1_000);
    await Promise.all(using);
    expect(served).toHaveLength(1_000);
    expect(keptBy(locks)).toBe(0);
  });

  it('keeps nothing of a reader whose signal fails', async () => {
    const { locks } = faultyLocks();
    const fail = (): never => {
      throw new Error('closed');
    };
    const signal = { aborted: false, addEventListener: fail, removeEventListener: fail } as unknown as AbortSignal;
    await expect(locks.acquire('goods:300', { mode: 'shared', signal })).rejects.toThrow('closed');
    expect(keptBy(locks)).toBe(0);
  });

  it('is an option of the module and of a call, and Infinity means no limit', async () => {
    const { locks } = faultyLocks({ maxWaiting: 2 });
    await locks.acquire('goods:300');
    const waiting = [1, 2].map(() => outcome(locks.acquire('goods:300')));
    expect((await timeoutOf(locks.acquire('goods:300'))).waitingHere).toBe(2);
    expect((await timeoutOf(locks.acquire('goods:300', { maxWaiting: 1 }))).message).toContain('(maxWaiting: 1)');
    const more = [3, Infinity].map((maxWaiting) => outcome(locks.acquire('goods:300', { maxWaiting })));
    await Promise.resolve();
    expect([...waiting, ...more].map(({ error }) => error)).toEqual([undefined, undefined, undefined, undefined]);
    expect(locks.local().waiting).toHaveLength(4);
  });

  it('is at least 1, and a whole number', async () => {
    const { locks } = faultyLocks();
    for (const maxWaiting of [0, 1.5, -1, NaN]) {
      await expect(locks.acquire('goods:300', { maxWaiting })).rejects.toThrow(LockConfigError);
    }
  });

  it('makes tryAcquire return null, and refuses lists of locks', async () => {
    const { locks, store } = faultyLocks({ maxWaiting: 1 });
    const holder = await locks.acquire('goods:300');
    const waiter = outcome(locks.acquire('goods:300'));
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect((await timeoutOf(locks.acquire(['goods:300', 'goods:301']))).isQueueFull).toBe(true);
    await holder.release();
    await waiter.value?.release();
    expect(store.acquires.map(({ keys }) => keys).flat()).not.toContain('{lock_goods}:301');
  });

  it('counts permits of a key together, whatever their leases', async () => {
    const { locks } = faultyLocks({ maxWaiting: 2 });
    await locks.acquire('goods:300', { permits: 1 });
    const waiting = [1_000, 2_000].map((ttlMs) => outcome(locks.acquire('goods:300', { permits: 1, ttlMs })));
    expect((await timeoutOf(locks.acquire('goods:300', { permits: 1 }))).isQueueFull).toBe(true);
    expect((await timeoutOf(locks.acquire('goods:300'))).isQueueFull).toBe(true);
    expect(waiting.map(({ error }) => error)).toEqual([undefined, undefined]);
  });

  it('names all callers that count, including those of another mode', async () => {
    const { locks } = faultyLocks({ maxWaiting: 2 });
    await locks.acquire('goods:300');
    for (const permits of [3, 4]) outcome(locks.acquire('goods:300', { permits }));
    expect(await timeoutOf(locks.acquire('goods:300'))).toMatchObject({ isQueueFull: true, waitingHere: 2 });
  });

  it('counts 50 readers as one caller, because they are served together', async () => {
    const { clock, locks } = faultyLocks({ maxWaiting: 2 });
    const writer = await locks.acquire('goods:300');
    const readers = Array.from({ length: 100 }, () => outcome(locks.acquire('goods:300', { mode: 'shared' })));
    expect((await timeoutOf(locks.acquire('goods:300', { mode: 'shared' }))).waitingHere).toBe(100);
    const next = outcome(locks.acquire('goods:300'));
    await writer.release();
    await clock.advance(1_000);
    expect(readers.every(({ value }) => value !== undefined)).toBe(true);
    await Promise.all(readers.flatMap(({ value }) => value?.release() ?? []));
    await clock.advance(1_000);
    await next.value?.release();
    expect(keptBy(locks)).toBe(0);
  });

  it('counts each reader in strict order, because each has a place of its own', async () => {
    const { clock, locks } = faultyLocks({ maxWaiting: 2, fairness: 'strict' });
    const writer = await locks.acquire('goods:300');
    const readers = [1, 2].map(() => outcome(locks.acquire('goods:300', { mode: 'shared' })));
    expect((await timeoutOf(locks.acquire('goods:300', { mode: 'shared' }))).isQueueFull).toBe(true);
    await writer.release();
    await clock.advance(5_000);
    await Promise.all(readers.flatMap(({ value }) => value?.release() ?? []));
    expect(readers.every(({ value }) => value !== undefined)).toBe(true);
    expect(keptBy(locks)).toBe(0);
  });

  it('does not make an unavailable store busy', async () => {
    const { clock, locks, store } = faultyLocks({ maxWaiting: 1 });
    store.hold('acquire');
    const first = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(2_500);
    await expect(locks.tryAcquire('goods:300')).rejects.toThrow(LockUnavailableError);
    expect(first.error).toBeUndefined();
  });

  it('names the resource if the store has sent no reply yet', async () => {
    const { clock, locks, store } = faultyLocks({ maxWaiting: 1, unavailableAfterMs: 60_000 });
    store.hold('acquire');
    const first = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(0);
    store.reportUnreachable(new Error('connect ECONNREFUSED'));
    const message = expect.stringContaining('goods:300 could not be locked: the store has sent no reply yet');
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE', message });
    expect(first.error).toBeUndefined();
  });
});

describe('the error of a busy lock', () => {
  it('names the others that wait here and the places before them', async () => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    const far = neighbour().locks;
    const ahead = outcome(far.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    const patient = [1, 2].map(() => outcome(locks.acquire('goods:300', { waitMs: 600_000 })));
    const error = timeoutOf(locks.acquire('goods:300', { waitMs: 3_000 }));
    await clock.advance(4_000);
    expect(await error).toMatchObject({ isQueueFull: false, waitingHere: 2, queuedAhead: 1 });
    expect((await error).message).toContain('2 callers of this instance wait, behind 1 other in the queue.');
    expect([ahead, ...patient].map(({ error: refused }) => refused)).toEqual([undefined, undefined, undefined]);
  });

  it.each([
    [1, '1 waits in the queue.'],
    [2, '2 wait in the queue.'],
  ])('counts those of other instances in the queue: %d', async (count, sentence) => {
    const { clock, locks, neighbour, stranger } = faultyLocks();
    await stranger.take(KEY);
    for (let i = 0; i < count; i += 1) outcome(neighbour().locks.acquire('goods:300', { waitMs: 600_000 }));
    await clock.advance(0);
    const error = timeoutOf(locks.acquire('goods:300', { waitMs: 3_000 }));
    await clock.advance(4_000);
    expect((await error).message).toContain(sentence);
  });

  it('says nothing of a line that is empty', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    const refused = await timeoutOf(locks.acquire('goods:300', { waitMs: 0 }));
    expect(refused).toMatchObject({ waitingHere: 0 });
    expect(refused.message).toMatch(/\(waitMs: 0\)\.$/);
    expect(locks.engine.waitingAt(KEY)).toBe(0);
  });
});

class Shop {
  @Locked('goods:<id>', { maxWaiting: 1, onBusy: (error: LockTimeoutError) => `${error.waitingHere} waits` })
  async buy(id: number, work: () => Promise<string>): Promise<string> {
    return `${id}: ${await work()}`;
  }
}

it('maxWaiting of a @Locked method calls its onBusy', async () => {
  const shop = withLocks(new Shop());
  const sold = deferred<string>();
  const first = shop.buy(300, () => sold.promise);
  await new Promise(setImmediate);
  const second = shop.buy(300, () => Promise.resolve('second'));
  expect(await shop.buy(300, () => Promise.resolve('third'))).toBe('1 waits');
  sold.resolve('first');
  expect(await Promise.all([first, second])).toEqual(['300: first', '300: second']);
});
