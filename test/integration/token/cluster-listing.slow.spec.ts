import { describe, expect, it } from '@jest/globals';
import { type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { begunListing, infosOf, listedBy, restOf } from '../../support/listed.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new ClusterContention({ replicas: false }));

/** Families that are spread over all masters. */
const RESOURCES = Array.from({ length: 90 }, (_, i) => `family${i}:1`).toSorted();

const hold = (locks: LockService): Promise<unknown> =>
  Promise.all(RESOURCES.map((resource) => locks.acquire(resource, { ttlMs: 60_000 })));

async function failure(listing: Parameters<typeof restOf>[0]): Promise<LockUnavailableError> {
  const error: unknown = await restOf(listing).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LockUnavailableError);
  return error as LockUnavailableError;
}

describe('a list of locks in a cluster', () => {
  it.each([{}, { keyPrefix: 'shop:' }, { redisOptions: { keyPrefix: 'shop:' }, keyPrefix: 'shop:' }])(
    'has the locks of all masters, with the client options %j',
    async (options) => {
      const locks = here.instance({ redis: here.client(options) });
      expect(await listedBy(locks)).toEqual([]);
      await hold(locks);
      await locks.acquire('stock', { mode: 'shared' });
      expect(await listedBy(locks, { count: 10 })).toEqual([...RESOURCES, 'stock']);
      expect(await infosOf(locks.list({ match: 'family7:*' }))).toMatchObject([{ isOwn: true, mode: 'exclusive' }]);
    },
  );

  it('fails if a slot has moved to another master meanwhile', async () => {
    const locks = here.instance();
    await hold(locks);
    const listing = await begunListing(locks);
    const [resource] = RESOURCES;
    const key = `{${here.prefix}${resource.replace(':1', '')}}:1`;
    const from = await here.cluster.ownerOf(key);
    const to = await here.cluster.otherThan(key);
    await here.cluster.migrate(key, to);
    const { message } = await failure(listing);
    const line = /127\.0\.0\.1:\d+: its slots have changed, and locks that moved during the scan may be missing/;
    expect(message).toMatch(line);
    await eventually('it lists all again', async () => (await listedBy(locks).catch(() => [])).length === 90);
    await here.cluster.migrate(key, from);
  });

  it('fails while a slot is on its way', async () => {
    const locks = here.instance({ requestTimeoutMs: 2_000 });
    await hold(locks);
    const { from, moveKeys, finish } = await here.cluster.migration(here.key, await here.cluster.otherThan(here.key));
    const { message } = await failure(locks.list());
    expect(message).toContain('it is moving a slot');
    await moveKeys();
    await finish();
    await eventually('it lists all again', async () => (await listedBy(locks).catch(() => [])).length === 90);
    await here.cluster.migrate(here.key, from);
  });
});
