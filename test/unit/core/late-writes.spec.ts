import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../../lib/stores/memory/memory.store.js';
import type { AcquireOptions } from '../../../lib/core/acquire/acquire-options.js';
import { LockEngine } from '../../../lib/core/lock-engine.js';
import { deferred, outcome } from '../../support/async.js';
import { FaultyStore } from '../../support/faulty-store.js';

const OPTIONS: AcquireOptions = {
  mode: 'exclusive',
  ttlMs: 30_000,
  renew: true,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  waitMs: 5_000,
  signal: undefined,
};

// node-redis writes a request after the tick that makes it.
it('several locks are given when the renewal that is due is written', async () => {
  const clock = new ManualClock();
  const store = new FaultyStore(new MemoryStore(clock));
  const written = deferred();
  const nothing = (): void => undefined;
  const engine = new LockEngine({
    store,
    clock,
    instance: 'default',
    requestTimeoutMs: 20_000,
    lockDelayMs: 0,
    passing: { maxLocalPasses: 16, maxLocalHoldMs: 50 },
    checkTtl: nothing,
    warn: nothing,
    written: () => written.promise,
  });
  store.hold('acquire');
  const targets = ['goods:1', 'goods:2'].map((resource) => ({ resource, key: `{lock_goods}:${resource}` }));
  const waiting = outcome(engine.acquireAll(targets, OPTIONS));
  // A third of the lease is over when the reply arrives.
  await clock.advance(11_000);
  store.deliver('acquire');
  await clock.advance(0);
  expect(store.extendBatches).toHaveLength(1);
  expect(waiting.value).toBeUndefined();
  written.resolve();
  await clock.advance(0);
  waiting.value?.assertHeld();
  expect(await waiting.value?.release()).toBe(true);
});
