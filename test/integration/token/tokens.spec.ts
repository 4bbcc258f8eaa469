import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { deferred } from '../../support/async.js';
import { Contention } from '../../support/contention.js';
import { RedisCluster } from '../../support/redis/index.js';

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

const fence = (): string => `{${here.prefix}}|fence`;

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
    expect(keys).toContain(fence());
    expect(await here.admin.ttl(fence())).toBeGreaterThan(86_000);
  });

  it('is one key for each slot behind a proxy that refuses keys of several slots', async () => {
    // A node of a cluster is such a server.
    const cluster = await RedisCluster.start({ environments: [{}], replicas: false });
    try {
      const locks = here.instance({ redis: { ...cluster.nodes[0] }, checks: 'off' });
      const tokens: number[] = [];
      for (let i = 0; i < 20; i += 1) {
        await locks.using(`family${i}:1`, (lock) => void tokens.push(lock.fencingToken));
      }
      expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
      expect(here.warnings).toEqual([]);
    } finally {
      await cluster.close();
    }
  });
});
