import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockService, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { countWrites } from '../../support/count-writes.js';
import { Masters } from '../../support/masters.js';
import { randomFrom } from '../../support/random.js';
import { eventually } from '../../support/redis-locks.js';
import { needWallClocks } from '../../support/server-clock/shim.js';

needWallClocks();

let here: Masters;

beforeAll(async () => {
  here = await Masters.startStopped(5);
});
afterEach(() => here.clear());
afterAll(() => here.close());

const errorOf = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('it has resolved'),
    (error: Error) => error,
  );

describe('five masters', () => {
  it.each([1, 2])('keep locks available if %i are down, and report each once', async (count) => {
    const locks = await here.instance();
    for (const server of here.servers.slice(0, count)) await server.kill();
    for (let i = 0; i < 20; i++) await locks.using('goods:300', () => undefined);
    const lock = await locks.acquire('goods:300', { ttlMs: 1_500 });
    await here.clock.advance(3_000);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    const reported = (): number => here.warnings.filter((warning) => warning.includes('locks continue with')).length;
    await here.clock.advanceUntil('each outage is reported', () => reported() >= count);
    await locks.using('goods:300', () => undefined);
    expect(reported()).toBe(count);
  });

  it('acquire multi-locks all or none, without a deadlock if lists cross', async () => {
    const [one, other] = [await here.instance(), await here.instance()];
    const lists = [
      ['goods:300', 'order:7'],
      ['order:7', 'goods:300'],
    ];
    let turns = 0;
    const turn = (_: unknown, i: number) => [one, other][i % 2].using(lists[i % 2], () => void (turns += 1));
    await here.clock.until(Promise.all(Array.from({ length: 10 }, turn)));
    expect(turns).toBe(10);
    const lock = await one.acquire('order:7');
    expect(await other.tryAcquire(lists[0])).toBeNull();
    await eventually('the first lock is released', async () => (await one.inspect('goods:300')) === null);
    await lock.release();
  });

  it.each([false, true])('get many requests in a few packets (enableAutoPipelining: %s)', async (collects) => {
    const clients = here.urls.map((url) => new Redis(url, { enableAutoPipelining: collects }));
    const locks = await here.instance({ store: quorum(clients) });
    const resources = Array.from({ length: 50 }, (_, i) => `goods:${i}`);
    const cycle = async (): Promise<void> => {
      const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
      await Promise.all(held.map((lock) => lock.release()));
    };
    await cycle();
    const count = countWrites(clients);
    await cycle();
    // An acquire and a release on each of 5 masters would be 500.
    expect(count()).toBeLessThan(250);
    for (const client of clients) client.disconnect();
  });

  it('grant a tryAcquire at start if one is down', async () => {
    await here.servers[2].kill();
    const lock = await (await here.instance({}, { connectedTo: 0 })).tryAcquire('goods:300');
    expect(await lock?.release()).toBe(true);
  });

  it('make locks unavailable, with each cause, while three are down', async () => {
    const locks = await here.instance();
    for (const server of here.servers.slice(0, 3)) await server.kill();
    const error = await errorOf(here.clock.until(locks.acquire('goods:300', { waitMs: 0 })));
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect(error).toHaveProperty('permanent', false);
    const { errors } = error.cause as AggregateError;
    expect(errors).toHaveLength(5);
    for (const [i, { port }] of here.servers.entries()) expect(String(errors[i])).toContain(`127.0.0.1:${port}`);
    for (const server of here.servers.slice(0, 3)) await server.restart();
    await locks.using('goods:300', () => undefined);
  });

  it('do not delay locks if two are slow', async () => {
    const ways = await Promise.all([here.way(0), here.way(1)]);
    const nodes = [...ways.map(({ url }) => url), ...here.urls.slice(2)];
    const locks = await here.instance({}, { nodes });
    const order: string[] = [];
    for (const way of ways) {
      way.hold('requests');
      way.observer = (direction) => direction === 'replies' && order.push('slow reply');
    }
    await locks.using('goods:300', () => order.push('granted'));
    await locks.using('goods:301', () => order.push('granted'));
    order.push('released');
    for (const way of ways) way.resume('requests');
    expect(order).toEqual(['granted', 'granted', 'released']);
  });

  it('keep others out if one restarts empty within a lease, and restore its lock', async () => {
    const lock = await (await here.instance()).acquire('goods:300');
    await here.lockedOn(5);
    await here.admins[0].set('canary', 1);
    await here.servers[0].restart();
    // The lock may be restored by now: its instance renews it as soon as it is connected again.
    expect(await here.admins[0].exists('canary')).toBe(0);
    expect(await (await here.instance()).tryAcquire('goods:300')).toBeNull();
    // The other instance may have had the empty master for a moment. The next renewal restores the lock there.
    await eventually('it is locked on 5 masters', async () => {
      await lock.extend();
      return (await here.locked()) === 5;
    });
    expect(new Set(await here.holders()).size).toBe(1);
    // Its fence is restored with the lock.
    expect(Number(await here.admins[0].get(here.fence))).toBeGreaterThanOrEqual(lock.fencingToken);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    await here.lockedOn(0);
  });

  it('do not restore a lock over the key of another client', async () => {
    const lock = await (await here.instance({ ttlMs: 1_500 })).acquire('goods:300');
    await here.lockedOn(5);
    await here.admins[0].set(here.key, 'mine');
    await here.clock.advance(3_000);
    lock.assertHeld();
    expect(await here.admins[0].get(here.key)).toBe('mine');
    await lock.release();
    expect(await here.admins[0].get(here.key)).toBe('mine');
  });

  it('make a lock lost at the next renewal if three restart empty', async () => {
    const lock = await (await here.instance({ ttlMs: 900 })).acquire('goods:300');
    await here.lockedOn(5);
    await Promise.all(here.servers.slice(0, 3).map((server) => server.restart()));
    await here.clock.advanceUntil('it is lost', () => lock.signal.aborted, 2_000);
    await here.lockedOn(0);
  });

  it('release a lock on a master that was cut off, as soon as it is back', async () => {
    const way = await here.way(0);
    const locks = await here.instance({}, { nodes: [way.url, ...here.urls.slice(1)] });
    const lock = await locks.acquire('goods:300', { ttlMs: 60_000 });
    await here.lockedOn(5);
    await way.refuseConnections();
    way.reset();
    await here.clock.advanceUntil('the outage is reported', () => here.warnings.length > 0);
    expect(await lock.release()).toBe(true);
    await here.lockedOn(1);
    await way.acceptConnections();
    await here.lockedOn(0);
  });

  it('make a release unavailable, with each cause, if no majority agrees', async () => {
    const lock = await (await here.instance()).acquire('goods:300');
    await here.lockedOn(5);
    await Promise.all([0, 1].map((i) => here.admins[i].del(here.key)));
    await here.servers[2].kill();
    const error = await errorOf(lock.release());
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error.cause as Error).message).toMatch(/got no 3 replies that agree: 4 of 5 nodes have answered;/);
    await here.servers[2].restart();
    await here.lockedOn(0);
  });

  it('wait for a hanging master once at most, and send it nothing more', async () => {
    const locks = await here.instance({}, { nodeTimeoutMs: 50 });
    await locks.using('goods:300', () => here.lockedOn(5));
    await here.lockedOn(0);
    here.pause(0);
    for (let i = 0; i < 5; i++) await locks.using(`goods:${i}`, () => here.clock.advance(20));
    here.resume(0);
    await eventually('the master gets requests again', () =>
      locks.using('goods:300', async () => (await here.locked()) === 5),
    );
  });

  it('count and name those that hang, and not the one that replies', async () => {
    const nodes = here.urls.slice(0, 3);
    const locks = await here.instance({}, { nodes, nodeTimeoutMs: 100 });
    await locks.using('goods:300', () => here.lockedOn(3));
    for (const master of [1, 2]) here.pause(master);
    // The first request waits for both. Later ones know that both hang.
    for (let i = 0; i < 3; i++) {
      const error = await errorOf(here.clock.until(locks.acquire('goods:300', { waitMs: 0 })));
      expect(error.message).toContain('1 of 3 nodes have answered, 2 are needed');
      const [healthy, ...hanging] = (error.cause as AggregateError).errors.map(String);
      expect(healthy).toContain(`127.0.0.1:${here.servers[0].port}: the lock was given, and is given back`);
      for (const each of hanging) expect(each).toMatch(/no reply within 100 ms|has not answered an earlier request/);
    }
    const outage = () => here.warnings.find((warning) => warning.includes('No majority of the nodes'));
    await here.clock.advanceUntil('the outage is reported', () => outage() !== undefined);
    expect(outage()).toContain('1 of 3 nodes have answered, 2 are needed');
    const unseen = await errorOf(here.clock.until(locks.inspect('goods:300')));
    expect(unseen.message).toContain('1 of 3 nodes have answered, 2 are needed');
  });

  it('list the holder of a lock while a majority has it', async () => {
    const locks = await here.instance();
    const lock = await locks.acquire('goods:300');
    await here.lockedOn(5);
    await Promise.all(here.servers.slice(0, 2).map((server) => server.kill()));
    expect(await locks.inspect('goods:300')).toMatchObject({ isOwn: true, fencingToken: lock.fencingToken });
    await lock.release();
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it('let one of 20 instances in at a time, with rising tokens', async () => {
    const tokens: number[] = [];
    let inside = 0;
    const visit = async (locks: LockService): Promise<void> => {
      for (let i = 0; i < 3; i++) {
        await locks.using('goods:300', async ({ fencingToken }) => {
          inside += 1;
          expect(inside).toBe(1);
          tokens.push(fencingToken);
          await here.admins[0].ping();
          inside -= 1;
        });
      }
    };
    const all = await Promise.all(Array.from({ length: 20 }, () => here.instance({ waitMs: 600_000 })));
    here.clock.random = randomFrom(1);
    await here.clock.until(Promise.all(all.map(visit)));
    expect(tokens).toHaveLength(60);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((one, other) => one - other));
  });
});

describe('a permanent error', () => {
  it('of a majority rejects at once, and says what to change', async () => {
    for (const admin of here.admins.slice(0, 3)) await admin.hset(here.key, 'stock', '5');
    const error = await errorOf((await here.instance()).acquire('goods:300'));
    expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true });
    expect(error.message).toContain('WRONGTYPE');
    for (const admin of here.admins.slice(3)) expect(await admin.exists(here.key)).toBe(0);
  });

  it('of a minority is ignored', async () => {
    for (const admin of here.admins.slice(0, 2)) await admin.hset(here.key, 'stock', '5');
    expect(await (await here.instance()).using('goods:300', () => 'sold')).toBe('sold');
  });
});

describe('a lock that another caller holds', () => {
  it('is busy, not unavailable, and remainingMs is when a majority is free', async () => {
    const bob = await here.instance();
    const lock = await (await here.instance()).acquire('goods:300', { ttlMs: 10_000 });
    await here.lockedOn(5);
    await Promise.all(here.servers.slice(0, 2).map((server) => server.kill()));
    const error = await errorOf(here.clock.until(bob.acquire('goods:300', { waitMs: 50 })));
    expect(error).toBeInstanceOf(LockTimeoutError);
    const { remainingMs = 0 } = error as LockTimeoutError;
    expect(remainingMs).toBeGreaterThan(9_900);
    expect(remainingMs).toBeLessThanOrEqual(10_000);
    await lock.release();
  });
});
