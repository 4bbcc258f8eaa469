import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Contention } from '../support/contention.js';
import { crossTasks } from '../support/crossing.js';
import { eventually } from '../support/redis-locks.js';

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

it('connections that are reset again and again keep exclusion, and leave no lock', async () => {
  const ways = await Promise.all([1, 2, 3].map(() => here.way()));
  const instances = ways.map(({ proxy }) => here.instance({ redis: proxy.url, requestTimeoutMs: 2_000 }));
  await Promise.all(instances.map((locks) => locks.using('first:1', () => undefined)));
  let resets = 0;
  // Not for ever: on a busy machine, no connection may be ready before its next reset.
  const timer = setInterval(() => resets < 60 && ways[resets++ % 3].proxy.reset(), 60);
  const resources = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));
  const crossing = crossTasks(instances, resources, () => here.admin.ping(), { tasks: 20, turns: 2 });
  const { faults } = await crossing.finally(() => clearInterval(timer));
  expect(faults).toEqual([]);
  expect(resets).toBeGreaterThan(0);
  await eventually('nothing is left', async () => (await here.leftovers()).length === 0);
});
