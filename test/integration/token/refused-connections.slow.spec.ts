import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { RedisProxy } from '../../support/proxy.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

/** Long enough for a machine that does much else. */
const LONG_MS = 100_000;

const CALLERS = 2_000;

describe('an outage of Redis', () => {
  let server: RedisServer;
  let running: RedisLocks;

  beforeEach(async () => {
    server = await startRedis({ local: true });
    running = new RedisLocks();
  });

  afterEach(async () => {
    if (server.pid !== undefined) server.resume();
    await running.close();
    await server.stop();
  });

  const start = (options = {}) => running.start({ redis: server.url, unavailableAfterMs: 500, ...options });
  const failureOf = (call: Promise<unknown>): Promise<LockUnavailableError> =>
    call.then(
      () => Promise.reject(new Error('the lock was granted')),
      (error: unknown) => error as LockUnavailableError,
    );

  it('costs 2,000 callers no time once it is known, and ends with the first reply', async () => {
    const locks = start({ waitMs: LONG_MS });
    // To connect may take longer than unavailableAfterMs on a busy machine.
    await eventually('it is served', () => locks.using('goods:300', () => true).catch(() => false));
    const before = running.warnings.length;
    await server.kill();
    const first = await failureOf(locks.acquire('goods:0'));
    expect(first).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(first.message).toContain('ECONNREFUSED');
    const calls = Array.from({ length: CALLERS }, (_, id) =>
      failureOf(id % 2 ? locks.acquire(`goods:${id}`) : locks.tryAcquire('goods:1')),
    );
    const failures = await Promise.all(calls);
    expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['LOCK_UNAVAILABLE']));
    // They have sent no request, but for those that look for Redis once a second.
    const refused = failures.filter(({ message }) => message.includes('Redis has been unreachable for'));
    expect(refused.length).toBeGreaterThan(CALLERS / 2);
    expect(running.warnings).toHaveLength(before + 1);
    await server.restart();
    await eventually('locks are granted again', async () => {
      const lock = await locks.tryAcquire('goods:1').catch(() => null);
      return lock === null ? false : lock.release();
    });
    await locks.using('goods:2', () => undefined);
  });

  it('at the start is like any other', async () => {
    await server.kill();
    const locks = start({ waitMs: LONG_MS });
    expect(await failureOf(locks.acquire('goods:1'))).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    const { message } = await failureOf(locks.acquire('goods:2'));
    expect(message).toMatch(/Redis has been unreachable for [\d.]+ m?s \(connect ECONNREFUSED/);
    await server.restart();
    await start({ unavailableAfterMs: LONG_MS }).using('goods:1', () => undefined);
    await eventually('the first instance is served', () => locks.using('goods:1', () => true).catch(() => false));
  });

  const work = (): void => undefined;

  it.each<[how: string, waitMs: number, call: (locks: LockService, id: number) => Promise<void>]>([
    ['waits for others', LONG_MS, (locks, id) => locks.using(`goods:${id}`, work)],
    ['does not wait for others', 0, (locks, id) => locks.using(`goods:${id}`, work)],
    ['wants several locks', 0, (locks, id) => locks.using([`goods:${id}`, `more:${id}`], work)],
    ['wants a permit', 0, (locks, id) => locks.using(`goods:${id}`, { permits: 1 }, work)],
  ])('of a moment costs no caller an error that %s', async (_how, waitMs, call) => {
    const proxy = await RedisProxy.start(server.url);
    const admin = new Redis(server.url);
    const locks = start({ redis: proxy.url, waitMs, unavailableAfterMs: LONG_MS });
    await locks.using('goods:300', () => undefined);
    proxy.hold('replies');
    const calls = Array.from({ length: 100 }, (_, id) => call(locks, id));
    // The requests have run, and their replies are lost.
    const last = running.keyOf('goods', '99');
    const names = [last, `${last}|queue`];
    await eventually('all requests have run', async () => (await admin.exists(names)) === 1);
    proxy.reset();
    proxy.resume('replies');
    await Promise.all(calls);
    await running.close();
    await proxy.close();
    admin.disconnect();
  });
});
