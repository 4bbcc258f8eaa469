import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Contention } from '../support/contention.js';
import { crossTasks } from '../support/crossing.js';
import { eventually } from '../support/redis-locks.js';

let here: Contention;

beforeAll(async () => {
  here = await new Contention().start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

it('connections that are reset again and again keep exclusion, and leave no lock', async () => {
  const ways = await Promise.all([1, 2, 3].map(() => here.way()));
  const instances = ways.map(({ proxy }) => here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 }));
  await Promise.all(instances.map((locks) => locks.using('first:1', () => undefined)));
  // At the pace of the work: on a busy machine, no connection would be ready before a reset that comes by time.
  let [visits, resets] = [0, 0];
  const visit = async (): Promise<void> => {
    visits += 1;
    if (visits % 4 === 0 && resets < 15) ways[resets++ % 3].proxy.reset();
    await here.admin.ping();
  };
  const resources = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));
  const { faults } = await crossTasks(instances, resources, visit, { tasks: 20, turns: 2 });
  expect(faults).toEqual([]);
  expect(resets).toBeGreaterThan(0);
  await eventually('nothing is left', async () => (await here.leftovers()).length === 0);
});
