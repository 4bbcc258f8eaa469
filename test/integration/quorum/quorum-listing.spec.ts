import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockUnavailableError, type LockService } from 'nestjs-redis-lock';
import { infosOf, listedBy } from '../../support/listed.js';
import { Masters } from '../../support/masters.js';
import { needWallClocks } from '../../support/server-clock/shim.js';

needWallClocks();

let here: Masters;

beforeAll(async () => {
  here = await Masters.startStopped(3);
});
afterEach(() => here.clear());
afterAll(() => here.close());

const RESOURCES = Array.from({ length: 40 }, (_, i) => `goods:${i}`).toSorted();

const hold = (locks: LockService): Promise<unknown> =>
  Promise.all(RESOURCES.map((resource) => locks.acquire(resource, { ttlMs: 60_000 })));

describe('a list of locks on a quorum', () => {
  it('has each lock once, as inspect returns it', async () => {
    const [one, other] = [await here.instance({ identity: 'api-1' }), await here.instance()];
    await hold(one);
    for (const locks of [one, other]) await locks.acquire('stock', { mode: 'shared' });
    expect(await listedBy(other, { count: 7 })).toEqual([...RESOURCES, 'stock']);
    const [listed] = await infosOf(other.list({ match: 'goods:0' }));
    const inspected = await other.inspect('goods:0');
    expect({ ...listed, expiresInMs: 0 }).toEqual({ ...inspected, expiresInMs: 0 });
    expect(listed).toMatchObject({ identity: 'api-1', isOwn: false });
    expect(await infosOf(other.list({ match: 'stock' }))).toMatchObject([{ mode: 'shared', others: [{}] }]);
  });

  it('has the locks that a majority keeps, whichever nodes these are', async () => {
    const locks = await here.instance();
    await hold(locks);
    for (const [i, resource] of RESOURCES.entries()) {
      // Each node has lost other locks.
      await here.admins[i % 3].del(here.key.replace('300', resource.slice('goods:'.length)));
    }
    // Renewals restore a lock, and then it is listed all the same.
    expect(await listedBy(locks)).toEqual(RESOURCES);
  });

  it('leaves out what a minority keeps, and keys of other types', async () => {
    const locks = await here.instance();
    await here.admins[1].set(here.key, 'another system', 'PX', 60_000);
    for (const admin of here.admins) await admin.hset(here.key.replace('300', '301'), 'a', 'hash');
    expect(await listedBy(locks)).toEqual([]);
  });

  it('is whole while a minority is down, and fails without a majority', async () => {
    const locks = await here.instance();
    await hold(locks);
    await here.servers[0].kill();
    expect(await listedBy(locks)).toEqual(RESOURCES);
    await here.servers[1].kill();
    const error: unknown = await here.clock.until(listedBy(locks)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
  });

  it('is whole while a node hangs', async () => {
    const locks = await here.instance();
    await hold(locks);
    here.pause(0);
    expect(await here.clock.until(listedBy(locks))).toEqual(RESOURCES);
  });
});
