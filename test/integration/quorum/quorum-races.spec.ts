import { describe, expect, it } from '@jest/globals';
import { type LockService } from 'nestjs-redis-lock';
import { scripts } from '../../../lib/stores/quorum/scripts.js';
import { nodeScripts } from '../../../lib/stores/quorum/node-lock.js';
import { Masters, NODE_TIMEOUT_MS } from '../../support/masters.js';
import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { forTests } from '../../support/for-tests.js';

needWallClocks();

const here = forTests(new Masters(3, { stopped: true }));

const fenceOf = async (master: number): Promise<number> => Number(await here.admins[master].get(here.fence));

/** Writes another system's lock to one master. */
const occupy = (master: number, ms = 60_000) => here.admins[master].set(here.key, 'someone else', 'PX', ms);

/** Starts an instance that is connected to one master through a proxy of its own. */
async function byWayTo(master: number, options = {}) {
  const way = await here.way(master);
  const nodes = here.urls.map((url, i) => (i === master ? way.url : url));
  const locks = await here.instance(options, { nodes });
  await locks.using('goods:300', () => here.lockedOn(3));
  await here.lockedOn(0);
  return { way, locks };
}

/** Starts an instance that is connected to two of the masters through a proxy each. */
async function byTwoWays() {
  const ways = await Promise.all([here.way(1), here.way(2)]);
  const locks = await here.instance({}, { nodes: [here.urls[0], ...ways.map(({ url }) => url)] });
  await locks.using('goods:300', () => here.lockedOn(3));
  await here.lockedOn(0);
  return { ways, locks };
}

describe('a vote of a node', () => {
  it.each(['requests', 'replies'] as const)(
    'is released if it arrives late because %s are held up',
    async (direction) => {
      const { way, locks } = await byWayTo(2);
      await Promise.all([occupy(0), occupy(1)]);
      const before = await fenceOf(2);
      way.hold(direction);
      expect(await locks.tryAcquire('goods:300')).toBeNull();
      way.resume(direction);
      await eventually('the script has run', async () => (await fenceOf(2)) > before);
      await eventually('the lock is free again', async () => (await here.holders())[2] === null);
    },
  );

  it.each([0, 1, 2])('makes a busy lock, not an outage, if another node votes and node %i hangs', async (hanging) => {
    const { way, locks } = await byWayTo(hanging);
    const [busy] = [0, 1, 2].filter((i) => i !== hanging);
    await occupy(busy);
    way.hold('replies');
    expect(await here.clock.until(locks.tryAcquire('goods:300'))).toBeNull();
    way.resume('replies');
    await here.lockedOn(1);
  });

  it('counts if it is read right after the timeout, as after a blocked event loop', async () => {
    const { ways, locks } = await byTwoWays();
    for (const way of ways) way.hold('replies');
    const acquired = locks.tryAcquire('goods:300');
    await here.clock.advance(NODE_TIMEOUT_MS);
    for (const way of ways) way.resume('replies');
    expect(await acquired).not.toBeNull();
  });

  it('is asked for again if it arrives when the lease is nearly over', async () => {
    const { ways, locks } = await byTwoWays();
    for (const way of ways) way.hold('replies');
    const acquired = locks.tryAcquire('goods:300', { ttlMs: 100 });
    await here.clock.advance(100);
    for (const way of ways) way.resume('replies');
    const lock = await acquired;
    expect(lock?.expiresInMs).toBeGreaterThan(90);
    await lock?.release();
    await here.lockedOn(0);
  });

  it('is released within a fraction of the lease if three callers split the vote', async () => {
    const contenders: LockService[] = [];
    const ways = [];
    for (const master of [0, 1, 2]) {
      const nodes = [...here.urls];
      // Each instance is the first at one master.
      for (const other of [0, 1, 2].filter((i) => i !== master)) {
        const way = await here.way(other);
        ways.push(way);
        nodes[other] = way.url;
      }
      const locks = await here.instance({ ttlMs: 30_000, fairness: 'strict' }, { nodes });
      await locks.using('goods:300', () => here.lockedOn(3));
      await here.lockedOn(0);
      contenders.push(locks);
    }
    for (const way of ways) way.hold('requests');
    const visits = Promise.all(contenders.map((locks) => locks.using('goods:300', () => undefined)));
    const splits = async (): Promise<boolean> => !(await here.holders()).includes(null);
    await eventually('each master has a holder', splits);
    expect(new Set(await here.holders()).size).toBe(3);
    for (const way of ways) way.resume('requests');
    // With equal pauses the three would meet again and again.
    here.clock.random = randomFrom(1);
    const from = here.clock.now();
    await here.clock.until(visits);
    expect(here.clock.now() - from).toBeLessThan(3_000);
  });
});

describe('a node that hangs', () => {
  it('delays one request of an instance that starts meanwhile', async () => {
    const way = await here.way(2);
    way.hold('requests');
    await occupy(1);
    const nodes = [here.urls[0], here.urls[1], way.url];
    const locks = await here.instance({ requestTimeoutMs: 30_000 }, { nodes, connectedTo: 2 });
    await here.clock.until(locks.using('other:1', () => undefined));
    const from = here.clock.now();
    // Each that waited would keep the lock on the first node for 500 ms.
    for (let i = 0; i < 20; i++) expect(await here.clock.until(locks.tryAcquire('goods:300'))).toBeNull();
    expect(here.clock.now() - from).toBeLessThan(2 * NODE_TIMEOUT_MS);
    await here.admins[1].del(here.key);
    await here.clock.until(locks.using('goods:300', () => here.lockedOn(2)));
    way.resume('requests');
    await eventually('the node gets requests again', () =>
      here.clock.until(locks.using('goods:300', async () => (await here.locked()) === 3)),
    );
  });

  it('has its connection replaced after three times the limit of a request', async () => {
    const { way, locks } = await byWayTo(2);
    way.hold('replies');
    await here.clock.until(locks.using('goods:300', () => here.lockedOn(3)));
    await here.clock.advanceUntil('the outage is reported', () => here.warnings.length > 0);
    await here.clock.advance(2_900);
    let isReset = false;
    way.observer = (direction) => direction === 'requests' && (isReset = true);
    expect(isReset).toBe(false);
    await here.clock.advance(200);
    await here.clock.advanceUntil('the client connects again', () => isReset);
    way.resume('replies');
    await here.lockedOn(0);
  });

  it('gets no extend and no inspect while a reply is overdue', async () => {
    const { way, locks } = await byWayTo(2);
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(3);
    way.hold('requests');
    await lock.extend();
    await locks.inspect('goods:300');
    await here.clock.advanceUntil('the outage is reported', () => here.warnings.length > 0);
    let requests = 0;
    way.observer = (direction) => direction === 'requests' && (requests += 1);
    for (let i = 0; i < 5; i++) await lock.extend();
    for (let i = 0; i < 5; i++) expect(await locks.inspect('goods:300')).not.toBeNull();
    expect(requests).toBe(0);
    way.resume('requests');
    await eventually('the node gets requests again', async () => {
      await lock.extend();
      return requests > 0;
    });
    await lock.release();
    await here.lockedOn(0);
  });
});

describe('a master that has lost a lock', () => {
  it('does not delay other locks of the same extend while another master hangs', async () => {
    const { way, locks } = await byWayTo(2);
    const [lossy, sound] = await Promise.all([1, 2].map((id) => locks.acquire(`goods:30${id}`, { ttlMs: 2_400 })));
    await eventually('all masters have both locks', async () => (await here.admins[2].keys('*30?')).length === 2);
    await here.admins[1].del(here.key.replace('300', '301'));
    way.hold('requests');
    await here.clock.advanceUntil('the first lock is lost', () => lossy.signal.aborted, 2_400);
    await here.clock.advance(100);
    expect(() => sound.assertHeld()).not.toThrow();
  });

  it('does not keep a lock restored by a script that ran after the release', async () => {
    const { way, locks } = await byWayTo(2);
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(3);
    await here.admins[2].del(here.key);
    await lock.extend();
    await here.lockedOn(3);
    await here.admins[2].del(here.key);
    await here.admins[2].script('FLUSH');
    for (const { lua } of [scripts.extend, scripts.release]) await here.admins[2].script('LOAD', lua);
    let restoring = false;
    let restoredLate = false;
    way.observer = (direction, chunk) => {
      if (direction !== 'requests') return;
      if (chunk.includes(scripts.acquire.lua)) restoredLate = true;
      if (!chunk.includes(nodeScripts.acquire.digest)) return;
      restoring = true;
      way.hold('replies');
    };
    await lock.extend();
    await eventually('the restore is sent', () => restoring);
    await lock.release();
    await here.lockedOn(0);
    way.resume('replies');
    await eventually('the restore is sent again', () => restoredLate);
    await here.clock.advance(0);
    expect(await here.locked()).toBe(0);
  });
});

describe('a master that restarts empty within a lease', () => {
  // The lease is not renewed, because it ends with `maxHoldMs`.
  const options = { ttlMs: 6_000, maxHoldMs: 3_000 };

  /** Acquires a lock on two of three masters without renewal. */
  async function heldByTwo() {
    const holder = await here.instance(options);
    await holder.using('goods:300', () => here.lockedOn(3));
    await here.servers[2].kill();
    return here.clock.until(holder.acquire('goods:300'));
  }

  it('lets nobody in if it starts again when the longest lease is over', async () => {
    const lock = await heldByTwo();
    await here.servers[1].kill();
    await here.servers[2].restart();
    const others = await here.instance(options);
    await expect(here.clock.until(others.acquire('goods:300', { waitMs: 300 }))).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    });
    lock.assertHeld();
    await here.clock.advance(3_000);
    expect(lock.expiresInMs).toBe(0);
    await here.servers[1].restart();
    await here.clock.until(others.using('goods:300', () => expect(lock.signal.aborted).toBe(true)));
  });
});
