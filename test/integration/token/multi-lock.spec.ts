import { describe, expect, it } from '@jest/globals';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { eventually } from '../../support/redis-locks.js';
import { ownerOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const ACCOUNTS = ['account:1', 'account:2', 'account:3'];

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
  it('keeps no other lock if the caller does not wait, and no minHoldMs, as no work has begun', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('account:9', () => undefined);
    const { key } = await here.instance().acquire('account:2');
    const before = await here.admin.dump(key);
    log.clear();
    expect(await locks.tryAcquire(ACCOUNTS, { minHoldMs: 60_000 })).toBeNull();
    await eventually('the others are free', async () => (await here.leftovers()).join() === key);
    expect(log.lockRequests).toEqual(['tokenAcquireMany', 'tokenReleaseMany']);
    expect(await here.admin.dump(key)).toEqual(before);
  });
});
