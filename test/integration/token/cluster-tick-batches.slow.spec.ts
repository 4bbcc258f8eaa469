import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ClusterContention } from '../../support/cluster-contention.js';

let here: ClusterContention;

beforeAll(async () => {
  here = await ClusterContention.start({ replicas: false });
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Locks of the slot of goods:300 and of other slots. */
const RESOURCES = Array.from({ length: 120 }, (_, i) => (i % 2 === 0 ? `goods:${i}` : `family${i % 12}:${i}`));

describe('the requests of one tick in a cluster', () => {
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

  it('are sent to the node that their slot has moved to', async () => {
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
