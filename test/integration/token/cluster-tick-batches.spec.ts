import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { ClusterOptions } from 'ioredis';
import { ClusterContention } from '../../support/cluster-contention.js';
import { countWrites } from '../../support/count-writes.js';

let here: ClusterContention;

beforeAll(async () => {
  here = await ClusterContention.start({ replicas: false });
}, 30_000);
afterEach(() => here.clear());
afterAll(() => here.close());

/** Locks of the slot of goods:300 and of other slots. */
const RESOURCES = Array.from({ length: 120 }, (_, i) => (i % 2 === 0 ? `goods:${i}` : `family${i % 12}:${i}`));

/** Returns how many scripts the masters have run. */
async function scriptsRun(): Promise<number> {
  const counts = await Promise.all(
    here.cluster.masters.map(async ({ admin }) => {
      const stats = await admin.info('commandstats');
      return [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].map(([, calls]) => Number(calls));
    }),
  );
  return counts.flat().reduce((sum, calls) => sum + calls, 0);
}

describe('the requests of one tick in a cluster', () => {
  it.each<[string, ClusterOptions]>([
    ['sends each command', {}],
    ['collects commands', { redisOptions: { enableAutoPipelining: true } }],
  ])('leave by a few packets if each lock has its slot and ioredis %s', async (_what, options) => {
    const cluster = here.client(options);
    const locks = here.instance({ redis: cluster });
    const resources = Array.from({ length: 90 }, (_, i) => `family${i}:1`);
    const cycle = async (): Promise<void> => {
      const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
      await Promise.all(held.map((lock) => lock.release()));
    };
    await cycle();
    const count = countWrites(cluster.nodes('master'));
    await cycle();
    // 3 nodes, and a request waits for no more than a millisecond for the others of its tick.
    expect(count()).toBeLessThan(resources.length);
  });

  it('travel together if their locks are in one slot', async () => {
    const locks = here.instance();
    const cycle = async (): Promise<void> => {
      const held = await Promise.all(RESOURCES.map((resource) => locks.acquire(resource)));
      expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
    };
    await cycle();
    const before = await scriptsRun();
    await cycle();
    // 7 slots, and a request waits for no more than a millisecond for the others of its tick.
    expect((await scriptsRun()) - before).toBeLessThan(RESOURCES.length);
    expect(await here.leftovers()).toEqual([]);
  });

  it('are granted and released while their slot moves to another node', async () => {
    const [locks, other] = [here.instance(), here.instance()];
    const to = await here.cluster.otherThan(here.key);
    const tokens = new Map<string, number>();
    const faults: string[] = [];
    const held = new Set<string>();
    const moving = { isOver: false };
    const work = [locks, other].map(async (service) => {
      for (let round = 0; !moving.isOver || round < 3; round++) {
        await Promise.all(
          RESOURCES.map((resource) =>
            service.using(resource, ({ fencingToken }) => {
              if (held.has(resource) || fencingToken <= (tokens.get(resource) ?? 0)) faults.push(resource);
              held.add(resource);
              tokens.set(resource, fencingToken);
              return Promise.resolve().then(() => void held.delete(resource));
            }),
          ),
        );
      }
    });
    const moved = here.cluster.migrate(here.key, to).finally(() => (moving.isOver = true));
    await Promise.all([moved, ...work]);
    expect(faults).toEqual([]);
    expect(await here.leftovers()).toEqual([]);
  });

  it('are sent one by one to the node that their slot has moved to', async () => {
    const locks = here.instance();
    const first = await Promise.all(RESOURCES.map((resource) => locks.acquire(resource)));
    const to = await here.cluster.otherThan(here.key);
    await here.cluster.migrate(here.key, to);
    expect(await Promise.all(first.map((lock) => lock.release()))).toEqual(first.map(() => true));
    const next = await Promise.all(RESOURCES.map((resource) => locks.acquire(resource)));
    next.forEach((lock, i) => expect(lock.fencingToken).toBeGreaterThan(first[i].fencingToken));
    await Promise.all(next.map((lock) => lock.release()));
    expect(await here.leftovers()).toEqual([]);
  });
});
