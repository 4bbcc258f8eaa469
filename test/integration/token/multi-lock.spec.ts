import { describe, expect, it } from '@jest/globals';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { eventually } from '../../support/redis-locks.js';
import { ownerOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const ACCOUNTS = ['account:1', 'account:2', 'account:3'];
const MIXED = ['order:7', ...ACCOUNTS];

/** Returns those of the keys that are locked. */
async function locked(resources: readonly string[]): Promise<readonly string[]> {
  const there = await Promise.all(resources.map((resource) => here.admin.exists(here.keyOf(resource))));
  return resources.filter((_, i) => there[i] === 1);
}

/** Returns all locks and queues in Redis except what time alone changes. */
async function contents(): Promise<unknown> {
  const keys = (await here.leftovers()).toSorted();
  return Promise.all(keys.map(async (key) => [key, await here.admin.dump(key)]));
}

describe('a multi-lock of free locks of one family', () => {
  it('costs one request, and its locks share one token', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using(ACCOUNTS, () => undefined);
    log.clear();
    const all = await locks.acquire(['account:3', 'account:1', 'account:2', 'account:1']);
    expect(log.lockRequests).toEqual(['tokenAcquireMany']);
    expect(all.resources).toEqual(['account:3', 'account:1', 'account:2']);
    for (const resource of ACCOUNTS) {
      const lock = all.of(resource);
      const { fencingToken } = lock;
      expect(fencingToken).toBe(all.locks[0].fencingToken);
      expect(await here.admin.get(here.keyOf(resource))).toBe(`v2-${ownerOf(lock)} ${fencingToken}`);
      expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(25_000);
      expect(await here.instance().tryAcquire(resource)).toBeNull();
    }
    log.clear();
    expect(await all.release()).toBe(true);
    expect(log.lockRequests).toEqual(['tokenReleaseMany']);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a multi-lock with one lock that is held', () => {
  it('keeps no other lock if the caller does not wait', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('account:9', () => undefined);
    await here.instance().acquire('account:2');
    const before = await contents();
    log.clear();
    expect(await locks.tryAcquire(ACCOUNTS)).toBeNull();
    await eventually('the others are free', async () => (await locked(ACCOUNTS)).join() === 'account:2');
    expect(log.lockRequests).toEqual(['tokenAcquireMany', 'tokenReleaseMany']);
    expect(await contents()).toEqual(before);
  });

  it('does not apply minHoldMs to the other locks, as no work has begun', async () => {
    await here.instance().acquire('order:7');
    expect(await here.instance().tryAcquire(MIXED, { minHoldMs: 60_000 })).toBeNull();
    await eventually('they are free', async () => (await locked(MIXED)).join() === 'order:7');
  });
});
