import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { eventually } from '../../support/redis-locks.js';

let here: ClusterContention;

beforeAll(async () => {
  here = await ClusterContention.start({ replicas: false });
});
afterEach(() => here.clear());
afterAll(() => here.close());

const lossOf = (lock: Lock): string => (lock.signal.reason as Error | undefined)?.message ?? '';

describe('a release by force in a cluster', () => {
  it('reaches a holder that has waited for the lock, by a message', async () => {
    const first = await here.instance().acquire('goods:300');
    const { granted } = await here.enqueue(here.instance({ ttlMs: 60_000 }));
    await first.release();
    const lock = await granted;
    const { granted: later } = await here.enqueue(here.instance());
    expect(await here.instance().forceRelease('goods:300')).toBe(true);
    await eventually('the signal aborts', () => lock.signal.aborted);
    expect(lossOf(lock)).toContain('released by force');
    const next = await later;
    expect(await lock.release()).toBe(false);
    next.assertHeld();
    expect(await next.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });

  it('reaches a holder that has not waited for locks, at its next renewal', async () => {
    const lock = await here.instance({ ttlMs: 1_000 }).acquire('goods:300');
    expect(await here.instance().forceRelease('goods:300')).toBe(true);
    await eventually('the signal aborts', () => lock.signal.aborted);
    expect(lossOf(lock)).toContain('its key is gone or belongs to someone else');
  });

  it('works after the slot has moved', async () => {
    const locks = here.instance();
    await locks.using('goods:300', () => undefined);
    const lock = await here.instance({ ttlMs: 60_000 }).acquire('goods:300');
    await here.cluster.migrate(here.key, await here.cluster.otherThan(here.key));
    expect(await locks.forceRelease('goods:300')).toBe(true);
    expect(await locks.inspect('goods:300')).toBeNull();
    expect(await lock.release()).toBe(false);
  });
});
