import { getEventListeners, getMaxListeners } from 'node:events';
import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockConfigError, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { outcome } from '../support/async.js';
import { keptBy } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

function two() {
  const clock = new ManualClock();
  const store = new MemoryStore(clock);
  const start = (identity?: string) => createTestLocks({ clock, store: () => store, identity, ttlMs: 60_000 });
  return { clock, start, one: start('api-7f9c-31'), other: start('api-1') };
}

describe('the error of a caller that gets no lock', () => {
  it('names the holder, and how long it has had the lock', async () => {
    const { clock, one, other } = two();
    await one.acquire('goods:300');
    await clock.advance(4_200);
    const waiting = outcome(other.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    const error = waiting.error as LockTimeoutError;
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ heldBy: 'api-7f9c-31', isOwn: false, holderCount: undefined });
    expect(error.heldForMs).toBeGreaterThanOrEqual(4_199);
    expect(error.heldForMs).toBeLessThanOrEqual(4_201);
    expect(error.message).toBe('goods:300 is locked, held by api-7f9c-31 for 4.2 s: refused after 0 ms (waitMs: 0).');
    expect(error.publicMessage).toBe('goods:300 is locked by others: refused after 0 ms (waitMs: 0).');
  });

  it('says that its own instance holds the lock, since its present caller has it', async () => {
    const { clock, one } = two();
    const first = await one.acquire('goods:300');
    const waiting = outcome(one.acquire('goods:300'));
    await clock.advance(10);
    await first.release();
    await clock.advance(1_500);
    const refused = outcome(one.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
    const error = refused.error as LockTimeoutError;
    expect(error).toMatchObject({ heldBy: 'api-7f9c-31', heldForMs: 1_500, isOwn: true });
    expect(error.message).toBe('goods:300 is locked, held by this instance for 1.5 s: refused after 0 ms (waitMs: 0).');
  });

  it('says that a lock rests after its own instance has held it', async () => {
    const { clock, one } = two();
    await one.using('goods:300', { minHoldMs: 5_000 }, () => undefined);
    await clock.advance(250);
    const refused = outcome(one.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    // Nobody owns it now.
    expect(refused.error).toMatchObject({ heldForMs: 250, isOwn: false });
  });

  it.each([{ mode: 'shared' } as const, { permits: 3 }])('names one of those that share it by %j', async (sharing) => {
    const { clock, start, one, other } = two();
    await one.acquire('goods:300', sharing);
    for (const locks of [start('api-2'), start('api-3')]) await locks.acquire('goods:300', sharing);
    const refused = outcome(other.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    const error = refused.error as LockTimeoutError;
    expect(error).toMatchObject({ holderCount: 3, heldForMs: undefined, isOwn: false });
    expect(error.message).toMatch(/^goods:300 is locked, held by 3, one of them api-7f9c-31: refused after/);
  });

  it('names nobody without an identity', async () => {
    const { clock, start, other } = two();
    await start('').acquire('goods:300');
    const refused = outcome(other.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    const error = refused.error as LockTimeoutError;
    expect(error.heldBy).toBeUndefined();
    expect(error.message).toBe(error.publicMessage);
  });
});

it('inspect shows the identities of holders and waiters', async () => {
  const { clock, one, other } = two();
  await one.acquire('goods:300');
  const waiting = outcome(other.acquire('goods:300'));
  await clock.advance(0);
  const info = await other.inspect('goods:300');
  expect(info).toMatchObject({ identity: 'api-7f9c-31', isOwn: false, waiting: [{ identity: 'api-1', isOwn: true }] });
  expect(waiting.value).toBeUndefined();
});

describe('the rest of minHoldMs', () => {
  it('is the remainingMs of a LockTimeoutError in the same instance', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { minHoldMs: 5_000 });
    await clock.advance(1_000);
    await lock.release();
    await clock.advance(500);
    const refused = { code: 'LOCK_TIMEOUT', remainingMs: 3_500 };
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toMatchObject(refused);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(1_500);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ remainingMs: 2_000 });
  });
});

const fail = (): never => {
  throw new Error('user code');
};

/** Returns an object with the shape of a signal, apart from what a test replaces. */
function signalWith(overrides: object): AbortSignal {
  const nothing = (): void => undefined;
  return { aborted: false, addEventListener: nothing, removeEventListener: nothing, ...overrides } as never;
}

describe('a call that fails on its way in leaves nobody in line', () => {
  it.each<[what: string, signal: unknown]>([
    ['that can only throw', { throwIfAborted: () => undefined }],
    ['without removeEventListener', signalWith({ removeEventListener: undefined })],
    ['whose `aborted` is not a boolean', signalWith({ aborted: 0 })],
    ['that is a controller', new AbortController()],
  ])('for a signal %s', async (_what, signal) => {
    const { clock, locks, memory } = faultyLocks();
    const first = await locks.acquire('goods:300');
    const failed = outcome(locks.acquire('goods:300', { signal: signal as AbortSignal }));
    await clock.advance(0);
    await first.release();
    await clock.advance(0);
    expect(await memory.inspect(KEY)).toBeNull();
    expect(keptBy(locks)).toBe(0);
    await (await locks.acquire('goods:300', { waitMs: 0 })).release();
    expect(failed.error).toBeInstanceOf(LockConfigError);
    const expected = /signal is an? .*; expected an AbortSignal: an object with a boolean/;
    expect((failed.error as Error).message).toMatch(expected);
  });
});

describe('a logger that throws', () => {
  it('does not keep an attempt without a reply from failing', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 0 }));
    const printed = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    Logger.overrideLogger({ log: fail, error: fail, warn: fail });
    await clock.advance(1_000);
    Logger.overrideLogger(false);
    expect(printed.mock.calls).toEqual([
      [expect.stringContaining('locks are unavailable until it replies'), 'RedisLockWarning'],
    ]);
    printed.mockRestore();
    expect(call.error).toBeInstanceOf(LockUnavailableError);
    store.deliver('acquire');
    await clock.advance(1_000);
    expect((await locks.acquire('goods:300', { waitMs: 0 })).key).toBe(KEY);
  });
});

describe('1,000 callers with one signal', () => {
  it('cause no warning, do not change the signal, and leave no listener', async () => {
    const { clock, locks, stranger } = faultyLocks();
    const warned: string[] = [];
    const onWarning = ({ name }: Error): void => void warned.push(name);
    process.on('warning', onWarning);
    const controller = new AbortController();
    const { signal } = controller;
    const limit = getMaxListeners(signal);
    await stranger.take(KEY);
    const calls = Array.from({ length: 500 }, () => outcome(locks.acquire('goods:300', { signal })));
    const lists = Array.from({ length: 500 }, () => outcome(locks.acquire(['goods:300', 'goods:301'], { signal })));
    await clock.advance(0);
    expect([getEventListeners(signal, 'abort').length, getMaxListeners(signal)]).toEqual([1, limit]);
    controller.abort('enough');
    await clock.advance(0);
    process.off('warning', onWarning);
    expect([...calls, ...lists].filter(({ error }) => error === 'enough')).toHaveLength(1_000);
    expect([warned, getEventListeners(signal, 'abort')]).toEqual([[], []]);
  });
});
