import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let set: ReplicaSet;
const running = new RedisLocks();

beforeAll(async () => {
  set = await ReplicaSet.start({ replicas: 1, sentinels: 3 });
});
afterAll(async () => {
  await running.close();
  await set.close();
});

it('a ping through Sentinel names the present master', async () => {
  const locks = running.start({ redis: set.address });
  const serverNow = async (): Promise<string> => (await locks.ping()).servers[0].server;
  await eventually('it is up', async () => (await locks.ping()).isUp);
  const master = await set.master();
  expect(await serverNow()).toBe(`127.0.0.1:${master.port}`);
  await master.kill();
  await eventually('the outage is seen', async () => !(await locks.ping()).isUp);
  await eventually('another master is up', async () => (await locks.ping()).isUp);
  const next = await set.master();
  expect(next).not.toBe(master);
  // The client may reconnect once more, and the group has no server meanwhile.
  await eventually('it is named', async () => (await serverNow()) === `127.0.0.1:${next.port}`);
});
