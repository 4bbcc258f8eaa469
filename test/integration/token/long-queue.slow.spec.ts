import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Lock, LockService } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';

const INSTANCES = 100;

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

/** Waits with that many instances. Returns what they are granted. */
async function longQueue(length: number) {
  const instances: LockService[] = Array.from({ length }, () => here.instance({ redis: client, waitMs: Infinity }));
  const granted = instances.map((locks) => locks.acquire('goods:300'));
  await eventually('all are in the queue', async () => (await here.queueLength()) === length);
  return granted;
}

it('a hundred instances that wait all get the lock', async () => {
  const holder = await here.holder();
  const granted = await longQueue(INSTANCES);
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
  await eventually('all had the lock', () => locks.length === granted.length);
});
