import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { deferred } from '../../support/async.js';
import { Contention } from '../../support/contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());

const manyPasses = (): LockService => here.instance({ passing: { maxLocalPasses: 256, maxLocalHoldMs: 60_000 } });

/** Lets callers of one instance acquire the lock. Returns their tokens in order. */
async function tokensOf(locks: LockService, callers: number): Promise<readonly number[]> {
  const tokens: number[] = [];
  await Promise.all(
    Array.from({ length: callers }, () => locks.using('goods:300', (lock) => void tokens.push(lock.fencingToken))),
  );
  return tokens;
}

describe('fencing tokens', () => {
  it('are higher after a flush than all before it', async () => {
    const locks = manyPasses();
    for (let round = 0; round < 20; round += 1) {
      const before = await tokensOf(locks, 40);
      await here.admin.flushall();
      const [after] = await tokensOf(locks, 1);
      expect(after).toBeGreaterThan(Math.max(...before));
    }
  });

  it('are lower than the new holder, if passed on by a holder that has not noticed a flush', async () => {
    const [locks, other] = [manyPasses(), here.instance()];
    await locks.using('goods:300', () => undefined);
    const release = deferred();
    const inside = deferred();
    const first = locks.using('goods:300', async (lock) => {
      inside.resolve();
      await release.promise;
      return lock.fencingToken;
    });
    const queued = [1, 2].map(() => locks.acquire('goods:300'));
    await inside.promise;
    release.resolve();
    await first;
    const stale = await queued[0];
    await here.admin.flushall();
    const fresh = await other.acquire('goods:300');
    const passed = stale.release().then(() => queued[1]);
    expect((await passed).fencingToken).toBe(stale.fencingToken + 1);
    expect((await passed).fencingToken).toBeLessThan(fresh.fencingToken);
    await (await passed).release();
    expect(await fresh.release()).toBe(true);
    expect(await tokensOf(locks, 1)).toEqual([expect.any(Number)]);
    const [next] = await tokensOf(locks, 1);
    expect(next).toBeGreaterThan(fresh.fencingToken);
  });
});

describe('the fence', () => {
  it('is one key for all locks of a prefix', async () => {
    const locks = [here.instance(), here.instance({ hashTag: 'resource' }), here.instance({ key: (name) => name })];
    for (const one of locks) {
      await Promise.all(Array.from({ length: 100 }, (_, i) => one.using(`family${i}:1`, () => undefined)));
    }
    const keys = await here.admin.keys('*');
    expect(keys.length).toBeLessThanOrEqual(2);
    expect(keys).toContain(`{${here.prefix}}|fence`);
    expect(await here.admin.ttl(`{${here.prefix}}|fence`)).toBeGreaterThan(86_000);
  });
});
