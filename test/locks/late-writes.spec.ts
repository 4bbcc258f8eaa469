// A client that writes requests later than in the tick that makes them: work that blocks would come before a renewal.
import { expect, it } from '@jest/globals';
import { type Lock, MemoryStore } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { runInLockScope } from '../../lib/core/hold/lock-scope.js';
import { LockEngine } from '../../lib/core/lock-engine.js';
import { deferred, outcome } from '../support/async.js';
import { FaultyStore } from '../support/faulty-store.js';

const TARGET = { resource: 'goods:300', key: 'goods:300' };
const HOLD = { mode: 'exclusive', ttlMs: 30_000, renew: true, maxHoldMs: Infinity, minHoldMs: 0 } as const;
const OPTIONS = { ...HOLD, waitMs: 600_000, reentrant: true, signal: undefined };

/** Makes two instances. The requests of the second one are written when `written` resolves. */
function twoInstances() {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const written = deferred();
  const engineOn = (on: FaultyStore, later?: () => Promise<void>): LockEngine =>
    new LockEngine({
      store: on,
      clock,
      instance: 'test',
      requestTimeoutMs: 1_000,
      lockDelayMs: 0,
      passing: { maxLocalPasses: 16, maxLocalHoldMs: 50 },
      checkTtl: () => undefined,
      warn: () => undefined,
      written: later,
    });
  const other = engineOn(new FaultyStore(memory));
  return { clock, store, memory, written, other, engine: engineOn(store, () => written.promise) };
}

/** Hands a lock to the second instance. */
async function handOff() {
  const instances = twoInstances();
  const { clock, other, engine } = instances;
  const first = await other.acquire(TARGET, OPTIONS);
  const waiting = outcome(engine.acquire(TARGET, OPTIONS));
  await clock.advance(0);
  await first.release();
  await clock.advance(0);
  return { ...instances, waiting, lock: () => waiting.value as Lock };
}

it('a caller gets a handed-off lock when its renewal is written', async () => {
  const { clock, store, waiting, written, lock } = await handOff();
  expect(store.extendBatches).toHaveLength(1);
  expect(waiting).toEqual({});
  written.resolve();
  await clock.advance(0);
  expect(lock().expiresInMs).toBeGreaterThan(20_000);
});

it('a lock that is lost before its renewal is written reaches its caller as lost', async () => {
  const { clock, memory, engine, waiting, written, lock } = await handOff();
  await engine.forceRelease(TARGET, 30_000);
  await clock.advance(0);
  expect(waiting).toEqual({});
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
  expect(await lock().release()).toBe(false);
  expect(await memory.inspect(TARGET.key)).toBeNull();
});

it('a shutdown releases a lock whose renewal is not written yet', async () => {
  const { clock, memory, engine, written, lock } = await handOff();
  const closed = outcome(engine.close(0));
  await clock.advance(2_000);
  expect(closed).toHaveProperty('value');
  expect(await memory.inspect(TARGET.key)).toBeNull();
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
});

it.each(['exclusive', 'shared'] as const)('no request of a lock scope gets it before: %s', async (mode) => {
  const { clock, other, engine, written } = twoInstances();
  const options = { ...OPTIONS, mode };
  const first = await other.acquire(TARGET, OPTIONS);
  await runInLockScope(async () => {
    const side = [1, 2].map(() => outcome(engine.acquire(TARGET, options)));
    await clock.advance(0);
    await first.release();
    await clock.advance(0);
    const later = [outcome(engine.acquire(TARGET, options)), outcome(engine.acquireAll([TARGET], options))];
    await clock.advance(0);
    expect([...side, ...later]).toEqual([{}, {}, {}, {}]);
    written.resolve();
    await clock.advance(0);
    expect([...side, ...later].every(({ value }) => value !== undefined)).toBe(true);
  });
});

it('the renewals of 300 locks that were handed off in one tick leave in that tick', async () => {
  const { clock, other, engine, store } = twoInstances();
  const targets = Array.from({ length: 300 }, (_, i) => ({ resource: `goods:${i}`, key: `goods:${i}` }));
  const held = await Promise.all(targets.map((target) => other.acquire(target, OPTIONS)));
  for (const target of targets) void outcome(engine.acquire(target, OPTIONS));
  await clock.advance(0);
  store.hold('handoff');
  await Promise.all(held.map((lock) => lock.release()));
  store.deliver('handoff');
  await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined))));
  expect(store.extendBatches.map(({ length }) => length)).toEqual([250, 50]);
});
