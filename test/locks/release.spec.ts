import { asked } from '../support/asked.js';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { type LockOptions, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { ScopeHold } from '../../lib/engine/lock-scope.js';
import { outcome } from '../support/async.js';
import { faultyLocks, KEY } from '../support/locks.js';

type Work = (locks: LockService, options: LockOptions) => Promise<string>;

const WAYS: readonly [string, Work][] = [
  ['using', (locks, options) => locks.using('goods:300', options, () => 'sold')],
  ['using for several locks', (locks, options) => locks.using(['goods:300', 'goods:301'], options, () => 'sold')],
  [
    'await using',
    async (locks, options) => {
      await using lock = await locks.acquire('goods:300', options);
      return lock.held ? 'sold' : 'lost';
    },
  ],
  [
    'await using of several locks',
    async (locks, options) => {
      await using all = await locks.acquire(['goods:300', 'goods:301'], options);
      return all.loss === undefined ? 'sold' : 'lost';
    },
  ],
];

afterEach(() => {
  jest.restoreAllMocks();
});

describe.each(WAYS)('the result of %s', (_name, work) => {
  it('waits for the reply to the release', async () => {
    const { clock, locks, store, memory } = faultyLocks();
    store.hold('release');
    const result = outcome(work(locks, {}));
    await clock.advance(10);
    expect(await memory.inspect(KEY)).toBeNull();
    expect(result).toEqual({});
    store.deliver('release');
    await clock.advance(0);
    expect(result).toEqual({ value: 'sold' });
  });

  it.each<[string, LockOptions, LockOptions]>([
    ['the call', {}, { awaitRelease: false }],
    ['the module', { awaitRelease: false }, {}],
  ])('is passed on when the release is sent, with awaitRelease: false of %s', async (_of, module, call) => {
    const { locks, store, memory } = faultyLocks(module);
    store.hold('release');
    expect(await work(locks, call)).toBe('sold');
    expect(await memory.inspect(KEY)).toBeNull();
  });
});

describe('with awaitRelease: false', () => {
  const options = { awaitRelease: false };

  it('a release that fails is repeated, and nothing is left locked', async () => {
    const { clock, locks, store, memory } = faultyLocks(options);
    store.lose('release', new Error('the connection ended'));
    expect(await locks.using('goods:300', () => 'sold')).toBe('sold');
    expect(await memory.inspect(KEY)).not.toBeNull();
    store.lose('release');
    await clock.advance(1_000);
    expect(await memory.inspect(KEY)).toBeNull();
    expect(store.releases.length).toBeGreaterThan(1);
  });

  it('the shutdown waits for the reply to the release', async () => {
    const { clock, locks, store } = faultyLocks(options);
    store.hold('release');
    await locks.using('goods:300', () => undefined);
    const closed = outcome(locks.engine.close(5_000).then(() => 'closed'));
    await clock.advance(100);
    expect(closed).toEqual({});
    store.deliver('release');
    await clock.advance(0);
    // The engine looks at the end of the tick.
    await clock.advance(0);
    expect(closed).toEqual({ value: 'closed' });
  });

  it('the next caller of the instance gets the lock, even in the same tick', async () => {
    const { locks, store } = faultyLocks(options);
    store.hold('release');
    for (let i = 0; i < 3; i++) expect(await locks.using('goods:300', { waitMs: 0 }, () => i)).toBe(i);
  });

  it('a lock scope waits for its releases', async () => {
    const { clock, locks, store } = faultyLocks(options);
    store.hold('release');
    const result = outcome(locks.scope(() => locks.using('goods:300', () => 'sold')));
    await clock.advance(10);
    expect(result).toEqual({});
    store.deliver('release');
    await clock.advance(0);
    expect(result).toEqual({ value: 'sold' });
  });
});

it("the scope of a handler that does not wait for its own release waits for its work's locks", async () => {
  const { clock, locks, store } = faultyLocks();
  const scope = new ScopeHold();
  const own = await locks.acquire('goods:300');
  scope.keepAll(own, { awaitRelease: false });
  await scope.run(() => locks.using('goods:301', () => undefined));
  await own.release();
  store.hold('release');
  const ended = outcome(scope.end().then(() => 'ended'));
  await clock.advance(10);
  expect(ended).toEqual({});
  store.deliver('release');
  await clock.advance(0);
  expect(ended).toEqual({ value: 'ended' });
});

describe('a failed release', () => {
  it("does not hide the caller's result or error, and is repeated until there is a reply", async () => {
    const { clock, locks, store } = faultyLocks();
    store.fail('release', new LockUnavailableError('down'));
    const soldOut = (): Promise<never> => Promise.reject(new Error('sold out'));
    await expect(locks.using('goods:301', soldOut)).rejects.toThrow('sold out');
    store.releases.length = 0;
    await expect(locks.using('goods:300', () => 'sold')).resolves.toBe('sold');
    await clock.advance(2_000);
    const tries = store.releases.length;
    expect(tries).toBeGreaterThan(2);
    store.fail('release');
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(tries + 2);
    expect(new Set(store.releases.map(({ owner }) => owner)).size).toBe(2);
  });

  it('is repeated after pauses that double from 100 ms to 1 s', async () => {
    const { clock, locks, store } = faultyLocks();
    store.fail('release', new LockUnavailableError('down'));
    await locks.using('goods:300', () => undefined);
    for (const [i, pauseMs] of [100, 200, 400, 800, 1_000, 1_000].entries()) {
      await clock.advance(pauseMs - 1);
      expect(store.releases).toHaveLength(i + 1);
      await clock.advance(1);
      expect(store.releases).toHaveLength(i + 2);
    }
  });

  it('is not repeated after the lease', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 3_000 });
    store.fail('release', new LockUnavailableError('down'));
    await locks.using('goods:300', () => undefined);
    await clock.advance(8_000);
    const tries = store.releases.length;
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(tries);
    expect(clock.pending).toBe(0);
  });

  it('does not end the process if it is not awaited', async () => {
    const { locks, store } = faultyLocks();
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const lock = await locks.acquire('goods:300');
    store.fail('release', new LockUnavailableError('down'));
    void lock.release();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('is logged if Redis refused it', async () => {
    const logged: string[] = [];
    for (const level of ['warn', 'log'] as const)
      jest.spyOn(Logger.prototype, level).mockImplementation((line: string) => void logged.push(line));
    const { locks, store } = faultyLocks();
    const refusal = new LockUnavailableError('NOPERM', { refusal: 'NOPERM', permanent: true });
    store.fail('release', refusal);
    await locks.using('goods:300', () => undefined);
    store.fail('release');
    await locks.using('goods:300', () => undefined);
    expect(logged).toEqual([`Redis refuses requests to release locks, first for ${KEY}: NOPERM`]);
  });
});

/** Returns an instance whose release is on its way and gets no reply. */
async function releasing() {
  const all = faultyLocks();
  const lock = await all.locks.acquire('goods:300');
  all.store.delay('release');
  return { ...all, released: outcome(lock.release()) };
}

it('a release that has failed is repeated at once after a reconnect', async () => {
  const { locks, store, clock } = faultyLocks();
  const lock = await locks.acquire('goods:300');
  store.fail('release', new LockUnavailableError('Connection is closed.'));
  await expect(lock.release()).rejects.toThrow(LockUnavailableError);
  // The pauses double, to 1 s.
  await clock.advance(2_000);
  const { length } = store.releases;
  store.fail('release');
  store.reconnect();
  await clock.advance(0);
  expect(store.releases).toHaveLength(length + 1);
  await clock.advance(60_000);
  expect(store.releases).toHaveLength(length + 1);
});

describe('a release without a reply', () => {
  it('is repeated soon after its connection has ended', async () => {
    const { store, memory, clock, released } = await releasing();
    store.disconnect();
    await clock.advance(99);
    expect(released.error).toBeInstanceOf(LockUnavailableError);
    expect(store.releases).toHaveLength(1);
    await clock.advance(1);
    expect(store.releases).toHaveLength(2);
    store.arrive('release');
    await clock.advance(0);
    expect(await memory.inspect(KEY)).toBeNull();
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it('is repeated soon after its server has fallen silent, and not before', async () => {
    const { store, clock, released } = await releasing();
    await clock.advance(999);
    expect(released).toEqual({});
    await clock.advance(1);
    expect(released.error).toBeInstanceOf(LockUnavailableError);
    expect(released.error).toHaveProperty('message', 'The release of goods:300 failed: no reply within 1000 ms.');
    await clock.advance(99);
    expect(store.releases).toHaveLength(1);
    await clock.advance(1);
    expect(store.releases).toHaveLength(2);
  });
});

describe('the release of an owner whose request has failed', () => {
  /** Returns an instance that has released what a failed request may have left. */
  async function releasedAfterFailure(options: LockOptions = {}) {
    const all = faultyLocks();
    all.store.fail('acquire', new LockUnavailableError('the connection ended'));
    await expect(all.locks.acquire('goods:300', { waitMs: 0, ...options })).rejects.toThrow(LockUnavailableError);
    return all;
  }

  it('is sent again after 1, 3 and 9 s, because the request may still arrive', async () => {
    const { clock, store, memory } = await releasedAfterFailure();
    expect(store.releases).toHaveLength(1);
    // The bytes of the dead connection arrive.
    await asked(memory).acquire(store.acquires[0]);
    for (const [i, at] of [1_000, 3_000, 9_000].entries()) {
      await clock.advance(at - 1 - clock.now());
      expect(store.releases).toHaveLength(i + 1);
      await clock.advance(1);
      expect(store.releases).toHaveLength(i + 2);
      expect(await memory.inspect(KEY)).toBeNull();
    }
    expect(new Set(store.releases.map(({ owner }) => owner))).toEqual(new Set([store.acquires[0].owner]));
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(4);
    expect(clock.pending).toBe(0);
  });

  it('is sent again after a lease that is over by then, because the request may still join the queue', async () => {
    const { clock, locks, store, memory, stranger } = faultyLocks();
    await stranger.take(KEY);
    store.lose('acquire', new LockUnavailableError('the connection ended'));
    const refused = outcome(locks.acquire('goods:300', { waitMs: 50, ttlMs: 100 }));
    await clock.advance(50);
    expect(refused.error).toBeInstanceOf(LockUnavailableError);
    await clock.advance(2_000);
    // The bytes of the dead connection arrive.
    await asked(memory).acquire(store.acquires[0]);
    expect((await memory.inspect(KEY))?.waiting).toHaveLength(1);
    await clock.advance(1_000);
    expect((await memory.inspect(KEY))?.waiting).toEqual([]);
  });

  it('is not sent again after the shutdown', async () => {
    const { clock, store, locks } = await releasedAfterFailure();
    await locks.engine.close(0);
    expect(clock.pending).toBe(0);
    expect(store.releases).toHaveLength(1);
  });
});
