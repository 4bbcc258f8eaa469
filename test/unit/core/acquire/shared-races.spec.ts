// Shares of a lock whose replies, messages and callers come in an awkward order.
import { describe, expect, it, jest } from '@jest/globals';
import { type Lock, LockClosedError, LockError, LockTimeoutError } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

const shared = { mode: 'shared', waitMs: 60_000 } as const;
const permits = (count: number) => ({ permits: count, waitMs: 60_000 });

/** Returns a reader that a handoff has granted while its first request is unanswered. */
async function grantedBeforeReply(maxLocalHoldMs: number) {
  const all = faultyLocks({ passing: { maxLocalHoldMs } });
  await all.stranger.take(KEY);
  all.store.hold('acquire');
  const reader = outcome(all.locks.acquire('goods:300', shared));
  await all.clock.advance(0);
  await all.stranger.leave(KEY);
  await all.clock.advance(0);
  return { ...all, reader: reader.value as Lock };
}

describe('a reader that a handoff has granted before the reply', () => {
  it('keeps its share when the reply arrives, and the next reader has one of its own', async () => {
    const { locks, memory, store, clock, reader } = await grantedBeforeReply(1);
    store.deliver('acquire');
    await clock.advance(5);
    const next = await locks.acquire('goods:300', shared);
    expect([await reader.release(), await next.release()]).toEqual([true, true]);
    expect(await memory.inspect(KEY)).toBeNull();
    expect(locks.engine.localLocks.size).toBe(0);
  });

  it('keeps its share if the handoff is reported again after the reply', async () => {
    const { memory, store, clock, reader } = await grantedBeforeReply(50);
    store.deliver('acquire');
    await clock.advance(0);
    store.reportHandoff(store.handoffs[0]);
    await clock.advance(0);
    expect(await memory.inspect(KEY)).not.toBeNull();
    expect(await reader.release()).toBe(true);
  });

  it('keeps its share if the connection ends before the reply', async () => {
    const { locks, memory, store, clock, reader } = await grantedBeforeReply(1);
    store.disconnect();
    await clock.advance(5);
    store.deliver('acquire');
    const next = await locks.acquire('goods:300', shared);
    expect([await reader.release(), await next.release()]).toEqual([true, true]);
    expect(await memory.inspect(KEY)).toBeNull();
  });
});

describe('permits', () => {
  it('that others release all go to the callers that wait', async () => {
    const { locks, neighbour, clock } = faultyLocks();
    const other = neighbour().locks;
    const held = await Promise.all([1, 2, 3].map(() => other.acquire('goods:300', permits(3))));
    const first = outcome(locks.acquire('goods:300', permits(3)));
    await clock.advance(0);
    const later = [1, 2].map(() => outcome(locks.acquire('goods:300', permits(3))));
    await clock.advance(0);
    for (const lock of held) await lock.release();
    await clock.advance(0);
    expect([first, ...later].map(({ value }) => value?.expiresInMs)).toEqual([1, 1, 1].map(() => expect.any(Number)));
  });

  it('are requested again after an outage', async () => {
    const { locks, store, clock } = faultyLocks();
    await locks.acquire('goods:300', permits(3));
    store.lose('acquire', new Error('no connection'));
    const callers = [outcome(locks.acquire('goods:300', permits(3)))];
    await clock.advance(10);
    callers.push(outcome(locks.acquire('goods:300', permits(3))));
    store.lose('acquire');
    await clock.advance(1_000);
    expect(callers.map(({ value }) => value !== undefined)).toEqual([true, true]);
  });

  it('are refused to a caller that does not wait, also if another request was given up', async () => {
    const { locks, stranger, store, clock } = faultyLocks();
    await stranger.take(KEY);
    const abort = new AbortController();
    const waiting = outcome(locks.acquire('goods:300', { ...permits(2), signal: abort.signal }));
    store.delay('acquire');
    const trying = outcome(locks.tryAcquire('goods:300', { permits: 2 }));
    await clock.advance(10);
    abort.abort();
    await clock.advance(0);
    expect([waiting, trying]).toEqual([{ error: expect.anything() }, { value: null }]);
  });

  it('of a store without a queue leave each caller its number of requests', async () => {
    const { locks, stranger, store, clock } = faultyLocks();
    store.less.queue = false;
    store.less.retry = { pauseMs: 100, limit: 6 };
    await stranger.take(KEY);
    const callers = [1, 2, 3].map(() => outcome(locks.acquire('goods:300', permits(3))));
    await clock.advance(5_000);
    expect(store.acquires).toHaveLength(6);
    for (const { error } of callers) expect(error).toBeInstanceOf(LockTimeoutError);
  });
});

it('a reader far behind in the queue repeats its request as often as a writer with the same waitMs', async () => {
  const { locks, memory, store, clock } = faultyLocks();
  const request = {
    keys: [KEY],
    mode: 'exclusive',
    leaseMs: 600_000,
    queue: true,
    handoffMs: 1_000,
    tokens: 1,
  } as const;
  for (let i = 0; i < 80; i += 1) await memory.acquire({ ...request, owner: `other:${i}`, expiresAt: 1_000 });
  const counts: number[] = [];
  for (const mode of ['exclusive', 'shared'] as const) {
    const before = store.acquires.length;
    const waiting = outcome(locks.acquire('goods:300', { mode, waitMs: 10_000 }));
    await clock.advance(10_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    counts.push(store.acquires.length - before);
  }
  expect(counts[1]).toBe(counts[0]);
});

it('a reader that comes while a loss is reported does not join the lost share', async () => {
  const { locks, memory, store, clock } = faultyLocks();
  const lost = await locks.acquire('goods:300', shared);
  lost.signal.addEventListener('abort', () => void locks.acquire('goods:300', shared));
  memory.table.delete(KEY);
  store.reconnect();
  await clock.advance(0);
  expect(store.acquires).toHaveLength(2);
  expect(await memory.inspect(KEY)).not.toBeNull();
});

it('a shutdown refuses all callers, also behind one that leaves because of it', async () => {
  const { locks, store, clock, neighbour } = faultyLocks();
  let turn = 0;
  jest.spyOn(clock, 'random').mockImplementation(() => (turn += 0.15) % 1);
  const patiently = { permits: 3, waitMs: Infinity };
  await Promise.all([1, 2, 3].map(() => neighbour().locks.acquire('goods:300', patiently)));
  const first = [1, 2, 3].map(() => outcome(locks.acquire('goods:300', patiently)));
  await clock.advance(0);
  const last = store.acquires[2].owner;
  // The request of the last place alone is repeated and gets no reply.
  let repeated: readonly string[] = [];
  while (repeated.join() !== last) {
    store.deliver('acquire');
    store.hold('acquire');
    const { length } = store.acquires;
    await clock.advance(1);
    repeated = store.acquires.slice(length).map(({ owner }) => owner);
  }
  const impatient = outcome(locks.acquire('goods:300', { permits: 3, waitMs: 0 }));
  const patient = outcome(locks.acquire('goods:300', patiently));
  await clock.advance(0);
  expect([impatient, patient]).toEqual([{}, {}]);
  locks.engine.localLocks.close();
  await clock.advance(0);
  for (const { error } of [...first, patient]) expect(error).toBeInstanceOf(LockClosedError);
  expect(impatient.error).toBeInstanceOf(LockError);
});
