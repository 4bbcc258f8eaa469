import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ioredis, NODE_REDIS } from '../../support/client-libraries.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let servers: ReplicaSet;
let running: RedisLocks;

beforeEach(async () => {
  servers = await ReplicaSet.start({ replicas: 2, sentinels: 3 });
  running = new RedisLocks();
}, 60_000);
afterEach(async () => {
  await running.close();
  await servers.close();
});

describe.each([ioredis, ...NODE_REDIS])('locks behind Sentinels by $name', (library) => {
  const start = () =>
    running.start({ redis: library.behindSentinels(servers.address), waitMs: 60_000, fairness: 'strict' });

  it.each(['killed', 'replaced'])('survive a master that is %s, and the new one hands off', async (how) => {
    const [one, other] = [start(), start()];
    const lock = await one.acquire('goods:300', { ttlMs: 60_000 });
    await servers.replicated(lock.key);
    const master = await (how === 'killed' ? servers.failOver() : servers.switchOver());
    const admin = servers.adminOf(master);
    const extended = () =>
      lock.extend().then(
        () => true,
        () => false,
      );
    await eventually('it is renewed there', extended, 20_000);
    const granted = other.acquire('goods:300');
    await eventually('it waits there', async () => (await admin.zcard(`${lock.key}|queue`)) === 1, 20_000);
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe(true);
  }, 90_000);

  it('leave no connection behind', async () => {
    const lock = await start().acquire('goods:300');
    await lock.release();
    await running.close();
    const admin = servers.adminOf(await servers.master());
    const isGone = async () => !((await admin.client('LIST')) as string).includes(' name=nestjs-redis-lock');
    await eventually('all are closed', isGone, 20_000);
  });
});
