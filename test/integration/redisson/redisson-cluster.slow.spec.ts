import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { redisson } from 'nestjs-redis-lock/redisson';
import { ClusterContention } from '../../support/cluster-contention.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';

const NAME = 'account-1';
const CHANNEL = 'redisson_lock__channel:{account-1}';

let here: ClusterContention;
let master: ClusterMember;
let replica: ClusterMember;

beforeEach(async () => {
  here = await ClusterContention.start();
  master = await here.cluster.ownerOf(NAME);
  replica = here.cluster.replicaOf(master);
});
afterEach(async () => {
  if (master.server.pid !== undefined) master.server.resume();
  await here.close();
});

const WAYS: Record<string, () => Promise<void>> = {
  'steps down': async () => {
    await replica.admin.cluster('FAILOVER');
  },
  'is killed': async () => {
    await master.server.kill();
    await here.cluster.takeOver(replica);
  },
  'is stopped, with its connections': async () => {
    master.server.pause();
    await here.cluster.takeOver(replica);
  },
};

async function listeners({ admin }: ClusterMember): Promise<number> {
  const [, count] = (await admin.call('PUBSUB', 'SHARDNUMSUB', CHANNEL)) as [string, number];
  return count;
}

describe('a lock of redisson() whose master', () => {
  it.each(Object.keys(WAYS))('%s keeps owner and count on the replica', async (way) => {
    const [holder, waiter] = [1, 2].map(() =>
      here.instance({ store: redisson(), key: (resource) => resource, ttlMs: 600_000, waitMs: 600_000 }),
    );
    const lock = await holder.acquire(NAME);
    const fields = await master.admin.hgetall(NAME);
    expect(Object.values(fields)).toEqual(['1']);
    const granted = waiter.acquire(NAME);
    await eventually('it listens', async () => (await listeners(master)) === 1);
    expect(await master.admin.wait(1, 60_000)).toBe(1);
    await WAYS[way]();
    const takenOver = async () => (await here.cluster.ownerOf(NAME).catch(() => undefined)) === replica;
    await eventually('the replica has taken over', takenOver);
    await eventually('it listens there', async () => (await listeners(replica)) === 1);
    const renewed = (): Promise<boolean> =>
      lock.extend().then(
        () => true,
        () => false,
      );
    await eventually('it is renewed there', renewed);
    lock.assertHeld();
    expect(await replica.admin.hgetall(NAME)).toEqual(fields);
    expect(await lock.release()).toBe(true);
    await (await granted).release();
    expect(await replica.admin.exists(NAME)).toBe(0);
  });
});
