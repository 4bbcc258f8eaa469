import { describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { forTests } from '../../support/for-tests.js';

needWallClocks();

const here = forTests(new Masters(5, { stopped: true }));

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

  it('get many requests in a few packets', async () => {
    const clients = here.urls.map((url) => new Redis(url));
    const locks = await here.instance({ store: quorum(clients) });
    const resources = Array.from({ length: 50 }, (_, i) => `goods:${i}`);
    const cycle = async (): Promise<void> => {
      const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
      await Promise.all(held.map((lock) => lock.release()));
    };
    await cycle();
    const sockets = clients.map(({ stream }) => stream as unknown as Record<'_write' | '_writev', () => void>);
    const writes = sockets.flatMap((socket) => [jest.spyOn(socket, '_write'), jest.spyOn(socket, '_writev')]);
    await cycle();
    // An acquire and a release on each of 5 masters would be 500.
    expect(writes.flatMap(({ mock }) => mock.calls).length).toBeLessThan(250);
    for (const client of clients) client.disconnect();
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
    // The clients may connect again after the first request.
    await here.clock.until(locks.using('goods:300', () => undefined));
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
