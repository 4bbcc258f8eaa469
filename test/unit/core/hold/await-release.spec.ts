import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, type LockOptions, type LockService } from 'nestjs-redis-lock';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

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

  it('the error of the work is passed on at once, too', async () => {
    const { locks, store } = faultyLocks(options);
    store.hold('release');
    await expect(locks.using('goods:300', () => Promise.reject(new Error('sold out')))).rejects.toThrow('sold out');
  });

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
    expect(closed).toEqual({ value: 'closed' });
  });

  it('the next caller of the instance gets the lock, also in the same tick', async () => {
    const { locks, store } = faultyLocks(options);
    store.hold('release');
    for (let i = 0; i < 3; i++) expect(await locks.using('goods:300', { waitMs: 0 }, () => i)).toBe(i);
  });

  it('another instance may still find the lock held', async () => {
    const { clock, locks, store, neighbour } = faultyLocks(options);
    store.delay('release');
    await locks.using('goods:300', () => undefined);
    const refused = outcome(neighbour().locks.acquire('goods:300', { waitMs: 0 }));
    await clock.advance(0);
    expect(refused.error).toBeInstanceOf(LockTimeoutError);
  });

  it('a release that the caller awaits has its result', async () => {
    const { locks, memory } = faultyLocks(options);
    const lock = await locks.acquire('goods:300');
    expect(await lock.release()).toBe(true);
    const lost = await locks.acquire('goods:300');
    await memory.release({
      keys: [KEY],
      owner: lost.shared.owner,
      mode: 'exclusive',
      closedForMs: 0,
      handoffMs: 1,
      tokens: 1,
    });
    expect(await lost.release()).toBe(false);
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
