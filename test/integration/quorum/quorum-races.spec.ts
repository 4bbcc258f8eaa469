import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { luaScripts } from '../../../lib/lua/index.js';
import { scriptsFor } from '../../../lib/stores/quorum/quorum-scripts.js';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';

let here: Masters;

beforeAll(async () => {
  here = await Masters.start({}, {}, {});
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Somebody else's lock on one master. */
const occupy = (master: number, ms = 60_000) => here.admins[master].set(here.key, 'somebody else', 'PX', ms);

/** What each master has answered to an ask that failed. */
async function causesOf(asked: Promise<unknown>): Promise<string[]> {
  const error = await asked.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LockUnavailableError);
  const { errors } = (error as LockUnavailableError).cause as AggregateError;
  return errors.map(String);
}

/** An instance that reaches one master, which has it connected, by a way of its own. */
async function byWayTo(master: number, options = {}) {
  const way = await here.way(master);
  const nodes = here.urls.map((url, i) => (i === master ? way.url : url));
  const locks = here.instance(options, { nodes });
  await locks.using('goods:300', () => here.lockedOn(3));
  await here.lockedOn(0);
  return { way, locks };
}

describe('votes', () => {
  it.each(['requests', 'replies'] as const)('given late, because %s are held up, are given back', async (direction) => {
    const { way, locks } = await byWayTo(2);
    await Promise.all([occupy(0), occupy(1)]);
    way.hold(direction);
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    way.resume(direction);
    await eventually('it is free again', async () => (await here.holders())[2] === null);
    await sleep(20);
    expect((await here.holders())[2]).toBeNull();
  });

  it('given late to a script that was sent again behind the release are given back', async () => {
    const { way, locks } = await byWayTo(2);
    await Promise.all([occupy(0), occupy(1)]);
    const fence = async (): Promise<number> => Number(await here.admins[2].get(here.fence));
    const before = await fence();
    await here.admins[2].script('FLUSH');
    await here.admins[2].script('LOAD', luaScripts.quorumRelease.lua);
    way.hold('replies');
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    way.resume('replies');
    await eventually('it is given', async () => (await fence()) > before);
    await eventually('it is free again', async () => (await here.holders())[2] === null);
  });

  it('to an asker who was refused are given back by nodes that could not tell of them', async () => {
    const { way, locks } = await byWayTo(2);
    await occupy(1);
    way.drop('replies');
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect((await here.holders())[2]).not.toBeNull();
    way.resume('replies');
    way.reset();
    await eventually('it is free again', async () => (await here.holders())[2] === null);
  });

  it.each([0, 1, 2])('of two nodes are enough to be told from an outage, also where node %i hangs', async (hanging) => {
    const { way, locks } = await byWayTo(hanging);
    const [busy] = [0, 1, 2].filter((i) => i !== hanging);
    await occupy(busy);
    way.hold('replies');
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    way.resume('replies');
    await here.lockedOn(1);
  });

  it('count although this process was held up until their time was over', async () => {
    const locks = here.instance({}, { nodeTimeoutMs: 50 });
    await locks.using('goods:300', () => here.lockedOn(3));
    const asked = locks.tryAcquire('goods:300');
    // The requests leave; the answers come while nothing is read.
    for (let i = 0; i < 50; i++) await Promise.resolve();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    expect(await asked).not.toBeNull();
  });

  it('of a lock that is held are kept, however late they come, and end with it', async () => {
    const { way, locks } = await byWayTo(2);
    way.hold('replies');
    const lock = await locks.acquire('goods:300');
    await here.lockedOn(3);
    way.resume('replies');
    await sleep(20);
    expect(await here.locked()).toBe(3);
    expect(await lock.release()).toBe(true);
    await here.lockedOn(0);
  });

  it('that make no majority are in nobody’s way: they are given back before the refusal', async () => {
    const locks = here.instance();
    await locks.using('goods:300', () => undefined);
    await Promise.all([occupy(0), occupy(1)]);
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    expect(await here.locked()).toBe(2);
  });

  it('that come when the lease is nearly over are worth nothing, and are given back', async () => {
    const ways = await Promise.all([here.way(1), here.way(2)]);
    const locks = here.instance({ ttlMs: 100 }, { nodes: [here.urls[0], ...ways.map(({ url }) => url)] });
    await locks.using('goods:300', () => here.lockedOn(3));
    for (const way of ways) way.delay('replies', 120);
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      message: expect.stringContaining('longer than the lease'),
    });
    await here.lockedOn(0);
  });

  it('split three ways are settled in well under a lease', async () => {
    const askers: LockService[] = [];
    const ways = [];
    for (const master of [0, 1, 2]) {
      const nodes = [...here.urls];
      // Each is the first at one master.
      for (const other of [0, 1, 2].filter((i) => i !== master)) {
        const way = await here.way(other);
        ways.push(way);
        nodes[other] = way.url;
      }
      const locks = here.instance({ ttlMs: 30_000, maxLocalPasses: 0 }, { nodes });
      await locks.using('goods:300', () => here.lockedOn(3));
      await here.lockedOn(0);
      askers.push(locks);
    }
    for (const way of ways) way.delay('requests', 15);
    let splits = 0;
    const from = performance.now();
    const visits = askers.map((locks) => locks.using('goods:300', () => sleep(1)));
    await eventually('the vote is split', async () => {
      splits = new Set(await here.holders()).size;
      return splits === 3;
    });
    await Promise.all(visits);
    expect(performance.now() - from).toBeLessThan(5_000);
  });
});

describe('a node that hangs', () => {
  it('is told in the error, and the one that has answered too', async () => {
    const ways = await Promise.all([here.way(1), here.way(2)]);
    const locks = here.instance({}, { nodes: [here.urls[0], ...ways.map(({ url }) => url)] });
    await locks.using('goods:300', () => here.lockedOn(3));
    for (const way of ways) way.hold('requests');
    expect(await causesOf(locks.tryAcquire('goods:300'))).toEqual([
      expect.stringContaining('the lock was given'),
      expect.stringContaining('no answer within 200 ms'),
      expect.stringContaining('no answer within 200 ms'),
    ]);
    await eventually('nobody waits for it any more', async () => {
      const [, ...ofHanging] = await causesOf(locks.tryAcquire('goods:301'));
      return ofHanging.every((cause) => cause.includes('has not answered an earlier request'));
    });
  });

  it('is told of once, as one that cannot be reached', async () => {
    const { way, locks } = await byWayTo(2);
    way.hold('replies');
    for (const id of [1, 2]) {
      await locks.using(`goods:${id}`, () => undefined);
      await eventually('it is told of', () => here.warnings.length > 0);
    }
    expect(here.warnings).toEqual([expect.stringContaining('locks go on with 2 of 3 nodes: no answer within 200 ms')]);
    way.resume('replies');
    await locks.using('goods:3', () => here.lockedOn(0));
  });

  it('is not sent renewals and questions for ever', async () => {
    const { way, locks } = await byWayTo(2);
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(3);
    way.hold('requests');
    await lock.extend();
    await locks.inspect('goods:300');
    await sleep(300);
    let requests = 0;
    way.observer = (direction) => direction === 'requests' && (requests += 1);
    for (let i = 0; i < 5; i++) await lock.extend();
    for (let i = 0; i < 5; i++) expect(await locks.inspect('goods:300')).not.toBeNull();
    expect(requests).toBe(0);
    way.resume('requests');
    await eventually('it is asked again', async () => {
      await lock.extend();
      return requests > 0;
    });
    await lock.release();
    await here.lockedOn(0);
  });
});

describe('a master that has lost a lock', () => {
  it('does not keep the answer from other locks of the same renewal, while another hangs', async () => {
    const { way, locks } = await byWayTo(2);
    const [lossy, sound] = await Promise.all([1, 2].map((id) => locks.acquire(`goods:30${id}`, { ttlMs: 900 })));
    await eventually('all have both', async () => (await here.admins[2].keys('*30?')).length === 2);
    await here.admins[1].del(here.key.replace('300', '301'));
    way.hold('requests');
    await eventually('one is lost', () => lossy.signal.aborted);
    await sleep(100);
    sound.assertHeld();
  });

  it('does not get it back behind its release, by a script that it had forgotten', async () => {
    const { way, locks } = await byWayTo(2);
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(3);
    await here.admins[2].del(here.key);
    await lock.extend();
    await here.lockedOn(3);
    await here.admins[2].del(here.key);
    await here.admins[2].script('FLUSH');
    for (const { lua } of [luaScripts.quorumExtend, luaScripts.quorumRelease]) await here.admins[2].script('LOAD', lua);
    let healing = false;
    let healedLate = false;
    way.observer = (direction, chunk) => {
      if (direction !== 'requests') return;
      if (chunk.includes(luaScripts.quorumHeal.lua)) healedLate = true;
      if (!chunk.includes(scriptsFor('exclusive').restore.digest)) return;
      healing = true;
      way.hold('replies');
    };
    await lock.extend();
    await eventually('it is to be healed', () => healing);
    await lock.release();
    await here.lockedOn(0);
    way.resume('replies');
    await eventually('the script is sent again', () => healedLate);
    await sleep(20);
    await here.lockedOn(0);
  });
});

describe('a master that restarts empty within a lease', () => {
  const terms = { renew: false, ttlMs: 1_000 };

  /** A lock on two of three masters, held by somebody who does not renew it. */
  async function heldByTwo() {
    const holder = here.instance(terms);
    await holder.using('goods:300', () => here.lockedOn(3));
    await here.servers[2].kill();
    const lock = await holder.acquire('goods:300');
    return lock;
  }

  it('and is one of the two that know of a lock, lets others in, with a higher token: redlock’s limit', async () => {
    const lock = await heldByTwo();
    await Promise.all([here.servers[1].restart(), here.servers[2].restart()]);
    const other = await here.instance(terms).acquire('goods:300');
    lock.assertHeld();
    expect(other.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('does not if it is started again when the longest lease is over', async () => {
    const lock = await heldByTwo();
    await here.servers[1].kill();
    await here.servers[2].restart();
    const others = here.instance(terms);
    await expect(others.acquire('goods:300', { waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    lock.assertHeld();
    await eventually('its lease is over', () => lock.expiresInMs === 0);
    await here.servers[1].restart();
    await others.using('goods:300', () => expect(lock.signal.aborted).toBe(true));
  });
});
