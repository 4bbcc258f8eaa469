import { describe, expect, it } from '@jest/globals';
import { type Lock } from 'nestjs-redis-lock';
import { deferred } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

describe('a nested hold', () => {
  it('shares the grant, without a request', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', async (outer) => {
      await locks.using('goods:300', (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(locks.current('goods:300')).toBe(inner);
      });
      outer.assertHeld();
    });
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(1);
  });

  it('keeps the grant until the last hold ends', async () => {
    const { locks, store } = faultyLocks();
    const inner = await locks.using('goods:300', () => locks.acquire('goods:300'));
    expect(store.releases).toHaveLength(0);
    inner.assertHeld();
    expect(await inner.release()).toBe(true);
    expect(store.releases).toHaveLength(1);
  });

  it('is not created by a task that outlives the hold', async () => {
    const { clock, locks, store } = faultyLocks();
    const later = deferred();
    let stray!: Promise<Lock>;
    await locks.using('goods:300', () => {
      stray = later.promise.then(() => locks.acquire('goods:300'));
    });
    later.resolve();
    const lock = await stray;
    await clock.advance(0);
    expect(store.acquires).toHaveLength(2);
    await lock.release();
  });

  it('is not created after acquire(), which does not enter the context', async () => {
    const { locks } = faultyLocks();
    await locks.acquire('goods:300');
    expect(locks.current()).toBeUndefined();
    expect(await locks.tryAcquire('goods:300')).toBeNull();
  });

  it('is not created for another module instance', async () => {
    const { locks } = faultyLocks();
    const other = faultyLocks();
    await locks.using('goods:300', () => other.locks.using('goods:300', () => undefined));
    expect(other.store.acquires).toHaveLength(1);
  });
});
