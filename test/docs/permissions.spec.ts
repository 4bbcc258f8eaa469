import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { commandsIn, sectionOf } from '../support/pages.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';

const locks = new RedisLocks();
let nodes: readonly RedisServer[];
let admins: readonly Redis[];

beforeAll(async () => {
  nodes = await Promise.all([1, 2, 3].map(() => startRedis({ local: true })));
  admins = nodes.map(({ url }) => new Redis(url));
});
afterAll(async () => {
  await locks.close();
  for (const admin of admins) admin.disconnect();
  await Promise.all(nodes.map((node) => node.stop()));
});

it('the commands listed for quorum() suffice to lock, wait, renew, inspect and ping', async () => {
  const may = commandsIn(sectionOf('SECURITY.md', '`quorum()`')).map((command) => `+${command}`);
  for (const admin of admins) await admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', ...may);
  const guests = nodes.map(({ url }) => url.replace('redis://', 'redis://guest:any@'));
  const [one, other] = [1, 2].map(() =>
    locks.start({ store: quorum(guests, { nodeTimeoutMs: 60_000 }), requestTimeoutMs: 120_000 }),
  );

  const lock = await one.acquire('goods:300');
  const next = other.acquire('goods:300');
  await lock.extend();
  // A node that has replied after the majority gets the token of the grant later.
  const inspected = async (): Promise<unknown> => (await other.inspect('goods:300'))?.fencingToken;
  await eventually('all nodes keep its token', async () => (await inspected()) === lock.fencingToken);
  expect(await other.ping()).toMatchObject({ isUp: true, degraded: undefined });
  expect(await lock.release()).toBe(true);
  await (await next).release();
  await eventually('the lock is free', async () => (await one.inspect('goods:300')) === null);

  for (const admin of admins) {
    const log = (await admin.acl('LOG', '100')) as readonly (readonly string[])[];
    const refused = log.map((entry) => entry[entry.indexOf('object') + 1]);
    // ioredis sends these by itself and does without them.
    expect(refused.filter((object) => !/^(?:client|hello)\b/.test(object))).toEqual([]);
  }
});
