import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { RedisCluster } from '../../support/redis/cluster.js';
import { RedisLocks } from '../../support/redis-locks.js';

let cluster: RedisCluster;
let running: RedisLocks;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
});
beforeEach(() => {
  running = new RedisLocks();
});
afterEach(() => running.close());
afterAll(() => cluster.close());

/** Starts an instance for which 300 grants within 10 s are many, so that a slow machine makes them. */
function start(options: RedisLockModuleOptions = {}): LockService {
  const locks = running.start({ redis: { nodes: cluster.nodes }, preflight: 'off', ...options });
  Object.assign(Reflect.get(locks.engine.store, 'hotTags') as object, { hotGrants: 300 });
  return locks;
}

/** Uses the locks of the resources 1,000 times, 20 at a time. */
async function use(locks: LockService, resourceOf: (i: number) => string): Promise<void> {
  for (let i = 0; i < 1_000; i += 20) {
    const resources = Array.from({ length: 20 }, (_, j) => resourceOf(i + j));
    await Promise.all(resources.map((resource) => locks.using(resource, { waitMs: 20_000 }, () => undefined)));
  }
}

const hot = (): string[] => running.warnings.filter((line) => line.startsWith('One node of the cluster serves all'));

describe('a hot family in a cluster', () => {
  it('is reported once, with what to change', async () => {
    const locks = start();
    await use(locks, (i) => `goods:${i}`);
    await use(locks, (i) => `goods:${i}`);
    expect(hot()).toEqual([expect.stringContaining(`the hash tag {${running.prefix}goods}`)]);
    expect(hot()[0]).toContain("hashTag: 'resource' spreads them over all nodes");
  });

  it("is none with hashTag: 'resource', nor if it has one busy lock", async () => {
    await use(start({ hashTag: 'resource' }), (i) => `goods:${i}`);
    await use(start(), () => 'report:1');
    expect(hot()).toEqual([]);
  });
});
