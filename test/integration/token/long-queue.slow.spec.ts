import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Lock, LockService } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';

const INSTANCES = 300;

let here: Contention;
let client: Redis;

beforeAll(async () => {
  here = await Contention.start();
  client = new Redis(here.server.url);
});
afterEach(() => here.clear());
afterAll(async () => {
  client.disconnect();
  await here.close();
});

/** Counts the scripts that the server has run. */
async function scripts(): Promise<number> {
  const stats = await here.admin.info('commandstats');
  const counts = stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Waits with that many instances. Returns what they are granted. */
async function longQueue(length: number) {
  const instances: LockService[] = Array.from({ length }, () => here.instance({ redis: client, waitMs: Infinity }));
  const granted = instances.map((locks) => locks.acquire('goods:300'));
  await eventually('all are in the queue', async () => (await here.queueLength()) === length, 60_000);
  return granted;
}

it('three hundred instances that wait send few requests, and all get the lock', async () => {
  const holder = await here.holder();
  const granted = await longQueue(INSTANCES);
  const [before, from] = [await scripts(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  const perSecond = (await scripts()) - before;
  const seconds = (performance.now() - from) / 1_000;
  // Eight at 1.3 a second, and the others at 0.7. If each repeated its request within 1 s, 400.
  expect(perSecond / seconds).toBeLessThan(300);
  expect(perSecond).toBeGreaterThan(8);
  await holder.release();
  await Promise.all(granted.map(async (lock) => (await lock).release()));
  expect(await here.queueLength()).toBe(0);
});

it('an instance far behind gets the lock although its queue entry is lost', async () => {
  const holder = await here.holder();
  const granted = await longQueue(20);
  await here.admin.del(`${here.key}|queue`);
  await holder.release();
  const locks: Lock[] = [];
  for (const each of granted) void each.then((lock) => (locks.push(lock), lock.release()));
  await eventually('all had the lock', () => locks.length === granted.length, 30_000);
});
