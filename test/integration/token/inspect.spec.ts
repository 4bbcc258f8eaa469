import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { Contention } from '../../support/contention.js';

/** What both topologies have in common. */
interface Place {
  instance(identity: string): LockService;
  enqueue(locks: LockService): Promise<{ readonly granted: Promise<unknown> }>;
  /** Removes the lock, as its end would after the holder's death. */
  expire(): Promise<unknown>;
  clear(): Promise<void>;
  close(): Promise<void>;
}

async function onServer(): Promise<Place> {
  const here = await Contention.start();
  return {
    instance: (identity) => here.instance({ identity }),
    enqueue: (locks) => here.enqueue(() => locks.acquire('goods:300')),
    expire: () => here.admin.del(here.key),
    clear: () => here.clear(),
    close: () => here.close(),
  };
}

async function onCluster(): Promise<Place> {
  const here = await ClusterContention.start({ replicas: false });
  return {
    instance: (identity) => here.instance({ identity }),
    enqueue: (locks) => here.enqueue(locks),
    expire: async () => (await here.owner()).del(here.key),
    clear: () => here.clear(),
    close: () => here.close(),
  };
}

describe.each([
  ['on one server', onServer],
  ['in a cluster', onCluster],
])('a lock that nobody holds and others wait for, %s', (_, start) => {
  let here: Place;
  beforeAll(async () => {
    here = await start();
  }, 30_000);
  afterEach(() => here.clear());
  afterAll(() => here.close());

  it('is seen by inspect', async () => {
    const [holder, waiter, other] = ['api-1', 'api-2', 'api-3'].map((identity) => here.instance(identity));
    expect(await other.inspect('goods:300')).toBeNull();
    await holder.acquire('goods:300');
    const { granted } = await here.enqueue(waiter);
    const held = await other.inspect('goods:300');
    expect(held).toMatchObject({ isHeld: true, identity: 'api-1', waiting: [{ identity: 'api-2', isOwn: false }] });
    expect(held?.heldForMs).toBeGreaterThanOrEqual(0);
    expect(held?.heldForMs).toBeLessThan(60_000);
    await here.expire();
    expect(await other.inspect('goods:300')).toEqual({
      resource: 'goods:300',
      key: held?.key,
      isHeld: false,
      holder: undefined,
      identity: undefined,
      isOwn: false,
      expiresInMs: 0,
      fencingToken: undefined,
      mode: undefined,
      permits: undefined,
      others: [],
      waiting: [{ waiter: expect.any(String), identity: 'api-2', isOwn: false, mode: 'exclusive', permits: undefined }],
      waitingHere: 0,
    });
    // The waiter's next request finds the lock free.
    await granted;
    expect(await other.inspect('goods:300')).toMatchObject({ isHeld: true, identity: 'api-2', waiting: [] });
  });
});
