import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockOptions, type LockService, LockUnavailableError, type StoreFactory } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { NODE_TIMEOUT_MS } from '../../support/masters.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let servers: readonly RedisServer[];
let admins: readonly Redis[];
let running: RedisLocks;

beforeAll(async () => {
  servers = await Promise.all([1, 2, 3].map(() => startRedis({ local: true })));
  admins = servers.map(({ url }) => new Redis(url));
});
beforeEach(() => {
  running = new RedisLocks();
});
afterEach(async () => {
  await memory('0');
  await running.close();
});
afterAll(async () => {
  for (const admin of admins) admin.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

/** '1' refuses all commands that need memory, '0' allows them again. */
async function memory(limit: '0' | '1'): Promise<void> {
  for (const admin of admins) await admin.config('SET', 'maxmemory-policy', 'noeviction');
  for (const admin of admins) await admin.config('SET', 'maxmemory', limit);
}

const ALONE: LockOptions = {};

describe.each<readonly [string, () => StoreFactory | undefined, readonly LockOptions[]]>([
  ['token()', () => undefined, [ALONE, { mode: 'shared' }, { permits: 2 }]],
  [
    'quorum()',
    () =>
      quorum(
        servers.map(({ url }) => url),
        { nodeTimeoutMs: NODE_TIMEOUT_MS },
      ),
    [ALONE],
  ],
])('while Redis is out of memory, with %s', (_name, store, options) => {
  const start = (): LockService => running.start({ redis: servers[0].url, store: store() });

  it.each(options)('a lock with %j is renewed and released', async (given) => {
    const lock = await start().acquire('goods:300', given);
    await memory('1');
    await expect(start().acquire('goods:301', { waitMs: 100 })).rejects.toThrow(LockUnavailableError);
    for (let times = 0; times < 2; times += 1) await lock.extend();
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    await memory('0');
    expect(await start().inspect('goods:300')).toBeNull();
  });
});

it('a lock is handed off to a waiter while Redis is out of memory', async () => {
  const start = (): LockService => running.start({ redis: servers[0].url });
  const [one, other] = [start(), start()];
  const lock = await one.acquire('goods:300', { mode: 'shared' });
  const waiting = other.acquire('goods:300');
  const queue = `${running.keyOf('goods', '300')}|queue`;
  await eventually('it waits', async () => (await admins[0].zcount(queue, '(0', '+inf')) === 1);
  await memory('1');
  expect(await lock.release()).toBe(true);
  const next = await waiting;
  expect(await next.release()).toBe(true);
});
