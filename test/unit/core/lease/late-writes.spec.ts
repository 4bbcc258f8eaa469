// A client that writes requests later than in the tick that makes them: work that blocks would come before a renewal.
import { expect, it } from '@jest/globals';
import { type Lock, MemoryStore } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { LockEngine } from '../../../../lib/core/lock-engine.js';
import { deferred, outcome } from '../../../support/async.js';
import { FaultyStore } from '../../../support/faulty-store.js';

const TARGET = { resource: 'goods:300', key: 'goods:300' };
const HOLD = { mode: 'exclusive', ttlMs: 30_000, renew: true, maxHoldMs: Infinity, minHoldMs: 0 } as const;
const OPTIONS = { ...HOLD, waitMs: 600_000, reentrant: true, signal: undefined };

/** Hands a lock to an instance whose requests are written when `written` resolves. */
async function handOff() {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const written = deferred();
  const engineOn = (on: FaultyStore | MemoryStore, later?: () => Promise<void>): LockEngine =>
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
  const first = await engineOn(new FaultyStore(memory)).acquire(TARGET, OPTIONS);
  const engine = engineOn(store, () => written.promise);
  const waiting = outcome(engine.acquire(TARGET, OPTIONS));
  await clock.advance(0);
  await first.release();
  await clock.advance(0);
  return { clock, store, memory, engine, waiting, written, lock: () => waiting.value as Lock };
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
