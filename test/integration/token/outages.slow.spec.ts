import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

/** Long enough for a machine that does much else. */
const LONG_MS = 120_000;

const CALLERS = 2_000;

/** Waits until the instance is connected: it may take longer than unavailableAfterMs on a busy machine. */
const connected = (locks: LockService, resource = 'goods:300'): Promise<void> =>
  eventually('locks are granted', () => locks.using(resource, () => true).catch(() => false));

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
    await connected(locks);
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
});

describe('an outage of one node of a cluster', () => {
  it('concerns only the locks of that node', async () => {
    const here = await ClusterContention.start({ replicas: false, args: ['--cluster-require-full-coverage', 'no'] });
    try {
      const [down, up] = here.cluster.masters;
      const [away, there] = [await here.familyAt(down), await here.familyAt(up)];
      const locks = here.instance({ waitMs: LONG_MS, unavailableAfterMs: 500 });
      for (const family of [away, there]) await connected(locks, `${family}:1`);
      await down.server.kill();
      await expect(locks.acquire(`${away}:1`)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
      const calls = Array.from({ length: 200 }, (_, id) => locks.acquire(`${away}:${id}`).catch(({ code }) => code));
      for (let id = 0; id < 50; id++) await locks.using(`${there}:${id}`, { waitMs: 0 }, () => undefined);
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['LOCK_UNAVAILABLE']));
      const refusal = (): Promise<string> => locks.acquire(`${away}:2`).then(String, ({ message }) => message);
      const said = 'Redis has been unreachable for';
      await eventually('a call fails at once', async () => (await refusal()).includes(said));
    } finally {
      await here.close();
    }
  });
});
