import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { eventually } from '../../support/redis-locks.js';

let here: ClusterContention;

beforeAll(async () => {
  here = await ClusterContention.start({ replicas: false });
});
afterAll(() => here.close());

const isKept = async (): Promise<boolean> => (await (await here.owner()).exists(here.key)) === 1;
const use = (locks: LockService): Promise<number> => locks.using('goods:300', ({ fencingToken }) => fencingToken);

describe('a lock of a cluster', () => {
  it('is kept, and released by a message of its slot', async () => {
    const [locks, other] = [here.instance({ keepMs: 10_000 }), here.instance()];
    await eventually('a lock is kept', async () => {
      await use(locks);
      return isKept();
    });
    const tokens: number[] = [];
    for (let i = 0; i < 100; i += 1) tokens.push(await use(locks));
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    const before = Date.now();
    expect(await use(other)).toBeGreaterThan(tokens[99]);
    // A lease that nobody releases takes 10 s.
    expect(Date.now() - before).toBeLessThan(8_000);
  });

  it('is released by a message also after its slot has moved', async () => {
    const [locks, other] = [here.instance({ keepMs: 10_000 }), here.instance()];
    await use(locks);
    await here.cluster.migrate(here.key, await here.cluster.otherThan(here.key));
    await eventually('a lock is kept', async () => {
      await use(locks);
      return isKept();
    });
    expect(await use(other)).toBeGreaterThan(0);
    expect(await use(locks)).toBeGreaterThan(0);
  });
});
