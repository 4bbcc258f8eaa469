import { describe, expect, it } from '@jest/globals';
import { type LockOptions, LockUnavailableError } from 'nestjs-redis-lock';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

/** Returns an instance that holds the lock, and its callers that wait behind that. Counts the probes of the store. */
async function behindOwn(options: LockOptions, callers = 1, servers?: (key: string) => string) {
  const all = faultyLocks({ unavailableAfterMs: 500 }, undefined, servers);
  const { clock, store, locks } = all;
  let probes = 0;
  const inspect = store.inspect.bind(store);
  store.inspect = (key) => {
    probes += 1;
    return inspect(key);
  };
  const held = await locks.acquire('goods:300', { ...options, waitMs: 0 });
  if (typeof options.permits === 'number')
    for (let i = 1; i < options.permits; i += 1) await locks.acquire('goods:300', { ...options, waitMs: 0 });
  const acquire = () => outcome(locks.acquire('goods:300', { ...options, waitMs: 9_000 }));
  const waiting = Array.from({ length: callers }, acquire);
  await clock.advance(0);
  return { ...all, held, waiting, probes: () => probes };
}

/** Stops Redis: nothing comes back from it. */
function hang({ store }: Pick<Awaited<ReturnType<typeof behindOwn>>, 'store'>): void {
  for (const verb of ['acquire', 'release', 'extend', 'inspect'] as const) store.hold(verb);
}

describe('a caller behind a holder of its own instance', () => {
  it.each<[how: string, options: LockOptions]>([
    ['the lock exclusively', {}],
    ['a permit', { permits: 2 }],
  ])('that wants %s learns within 3 s that Redis hangs', async (_how, options) => {
    const all = await behindOwn(options, 3);
    await all.clock.advance(20_300);
    for (const { error } of all.waiting) expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
    const late = Array.from({ length: 3 }, () =>
      outcome(all.locks.acquire('goods:300', { ...options, waitMs: 9_000 })),
    );
    hang(all);
    await all.clock.advance(3_000);
    for (const { error } of late) expect(error).toBeInstanceOf(LockUnavailableError);
  });

  it('learns it if it was not the first one to wait', async () => {
    const all = await behindOwn({ minHoldMs: 0 }, 3);
    await all.held.release();
    await all.clock.advance(0);
    expect(all.waiting.map(({ value }) => value !== undefined)).toEqual([true, false, false]);
    hang(all);
    await all.clock.advance(3_000);
    for (const { error } of all.waiting.slice(1)) expect(error).toBeInstanceOf(LockUnavailableError);
  });

  it('costs one probe a second, whatever the number of callers, and none when nobody waits', async () => {
    const { clock, waiting, probes } = await behindOwn({}, 500);
    await clock.advance(8_000);
    expect(probes()).toBe(8);
    await clock.advance(60_000);
    expect(waiting.every(({ error }) => error !== undefined)).toBe(true);
    expect(probes()).toBeLessThanOrEqual(10);
  });

  it('costs one probe a second for each server', async () => {
    const serverOf = (key: string): string => (key.endsWith('1') ? 'one' : 'two');
    const { clock, locks, probes } = await behindOwn({}, 1, serverOf);
    for (const resource of ['goods:1', 'goods:21', 'goods:22']) {
      await locks.acquire(resource);
      void outcome(locks.acquire(resource, { waitMs: 9_000 }));
    }
    await clock.advance(5_000);
    expect(probes()).toBe(10);
  });

  it('waits for as long as it allows', async () => {
    const { clock, store, locks } = faultyLocks({ unavailableAfterMs: 5_000 });
    await locks.acquire('goods:300');
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    hang({ store });
    await clock.advance(4_900);
    expect(waiting).toEqual({});
    await clock.advance(2_200);
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
  });
});

it('a caller behind another instance sends no probes', async () => {
  const { clock, store, stranger, locks } = faultyLocks();
  await stranger.take(KEY);
  let probes = 0;
  store.inspect = () => {
    probes += 1;
    return Promise.resolve(null);
  };
  void outcome(locks.acquire('goods:300', { waitMs: 9_000 }));
  await clock.advance(9_000);
  expect(probes).toBe(0);
});

it('callers in the queue learn within 3 s that Redis hangs, also behind eight others', async () => {
  const { clock, neighbour, stranger } = faultyLocks({ unavailableAfterMs: 500 });
  await stranger.take(KEY);
  const callers = Array.from({ length: 12 }, () => {
    const { store, locks } = neighbour();
    return { store, waiting: outcome(locks.acquire('goods:300', { waitMs: 60_000 })) };
  });
  await clock.advance(5_000);
  for (const caller of callers) hang(caller);
  await clock.advance(2_000);
  for (const { waiting } of callers.slice(0, 8)) expect(waiting.error).toBeInstanceOf(LockUnavailableError);
  await clock.advance(1_000);
  for (const { waiting } of callers) expect(waiting.error).toBeInstanceOf(LockUnavailableError);
});
