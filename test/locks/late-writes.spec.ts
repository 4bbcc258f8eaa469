// A client that writes requests later than in the tick that makes them: work that blocks would come before a renewal.
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Lock, LockService, StoreFactory } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { deferred, outcome } from '../support/async.js';
import { asPort } from '../support/client-port.js';
import { FaultyStore } from '../support/faulty-store.js';
import { KEY } from '../support/locks.js';

const OPTIONS = { waitMs: 600_000 };

/** Makes two instances. The requests of the second one are written when `written` resolves. */
function twoInstances() {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const written = deferred();
  const start = (factory: StoreFactory): LockService => {
    const options = { store: factory, checks: 'off' as const };
    return LockRuntime.start(options, undefined, { clock }).service;
  };
  // It is never connected.
  const client = Object.assign(asPort(new Redis({ lazyConnect: true })), { written: () => written.promise });
  const locks = start((context) => {
    context.open(client);
    return store;
  });
  return { clock, store, memory, written, other: start(() => new FaultyStore(memory)), locks };
}

/** Hands a lock to the second instance. */
async function handOff() {
  const instances = twoInstances();
  const { clock, other, locks } = instances;
  const first = await other.acquire('goods:300');
  const waiting = outcome(locks.acquire('goods:300', OPTIONS));
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
  const { clock, memory, locks, waiting, written, lock } = await handOff();
  await locks.forceRelease('goods:300');
  await clock.advance(0);
  expect(waiting).toEqual({});
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
  expect(await lock().release()).toBe(false);
  expect(await memory.inspect(KEY)).toBeNull();
});

it('a shutdown releases a lock whose renewal is not written yet', async () => {
  const { clock, memory, locks, written, lock } = await handOff();
  const closed = outcome(locks.engine.close(0));
  await clock.advance(2_000);
  expect(closed).toHaveProperty('value');
  expect(await memory.inspect(KEY)).toBeNull();
  written.resolve();
  await clock.advance(0);
  expect(lock().signal.aborted).toBe(true);
});

it.each(['exclusive', 'shared'] as const)('no request of a lock scope gets it before: %s', async (mode) => {
  const { clock, other, locks, written } = twoInstances();
  const options = { ...OPTIONS, mode };
  const first = await other.acquire('goods:300');
  await locks.scope(async () => {
    const side = [1, 2].map(() => outcome(locks.acquire('goods:300', options)));
    await clock.advance(0);
    await first.release();
    await clock.advance(0);
    const later = [outcome(locks.acquire('goods:300', options)), outcome(locks.acquire(['goods:300'], options))];
    await clock.advance(0);
    expect([...side, ...later]).toEqual([{}, {}, {}, {}]);
    written.resolve();
    await clock.advance(0);
    expect([...side, ...later].every(({ value }) => value !== undefined)).toBe(true);
    for (const { value } of [...side, ...later]) void value?.release();
  });
});

it('the renewals of 300 locks that were handed off in one tick leave in that tick', async () => {
  const { clock, other, locks, store } = twoInstances();
  const resources = Array.from({ length: 300 }, (_, i) => `goods:${i}`);
  const held = await Promise.all(resources.map((resource) => other.acquire(resource)));
  for (const resource of resources) void outcome(locks.acquire(resource, OPTIONS));
  await clock.advance(0);
  store.hold('handoff');
  await Promise.all(held.map((lock) => lock.release()));
  store.deliver('handoff');
  await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined))));
  expect(store.extendBatches.map(({ length }) => length)).toEqual([250, 50]);
});
