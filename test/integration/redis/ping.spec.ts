import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { outcome } from '../../support/async.js';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const UP = { isUp: true, latencyMs: expect.any(Number), error: undefined };
const down = (error: unknown) => ({ isUp: false, latencyMs: undefined, error });

describe('a ping of one server', () => {
  const here = forTests(new StoppedContention());

  const name = (): string => `127.0.0.1:${here.server.port}`;
  const isUp = async (locks: LockService): Promise<boolean> => (await locks.ping()).isUp;

  it.each([
    ['token()', undefined, 'subscription'],
    ['redisson()', redisson(), 'subscription'],
    ['timestamp()', timestamp(), 'polling'],
    ['timestamp({ scripts: false })', timestamp({ scripts: false }), 'polling'],
  ] as const)('of %s shows its latency', async (_, store, handoff) => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, store });
    await locks.ping();
    proxy.hold('replies');
    const pinging = outcome(locks.ping());
    await here.clock.advance(7);
    proxy.resume('replies');
    await eventually('the reply is there', () => 'value' in pinging);
    const servers = [{ server: `127.0.0.1:${proxy.port}`, ...UP, latencyMs: 7 }];
    expect(pinging.value).toEqual({ isUp: true, handoff, degraded: undefined, servers });
  });

  it('returns in time if the server hangs, and does not pile up', async () => {
    const locks = here.instance({ requestTimeoutMs: 300 });
    await locks.ping();
    await here.admin.config('RESETSTAT');
    here.servers.pause();
    const pings = [];
    for (let i = 0; i < 3; i += 1) {
      pings.push(...(await here.clock.until(Promise.all([1, 2, 3].map(() => locks.ping())))));
    }
    here.servers.resume();
    for (const ping of pings) {
      expect(ping).toMatchObject({ isUp: false, servers: [{ server: name(), ...down('no reply within 300 ms') }] });
    }
    await eventually('it is up again', () => isUp(locks));
    const calls = /cmdstat_time:calls=(\d+)/.exec(await here.admin.info('commandstats'))?.[1];
    // One without a reply, and one that has shown that it is up again.
    expect(Number(calls)).toBeLessThanOrEqual(2);
  });

  it('says that the server refuses locks', async () => {
    const locks = here.instance();
    await locks.ping();
    await here.admin.call('REPLICAOF', '127.0.0.1', '1');
    try {
      await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ refusal: 'READONLY' });
      const { isUp: up, degraded } = await locks.ping();
      expect(up).toBe(true);
      expect(degraded).toMatch(/^Redis refuses requests to acquire locks: .*READONLY/);
    } finally {
      await here.admin.call('REPLICAOF', 'NO', 'ONE');
    }
    await (await locks.acquire('goods:300')).release();
    await here.clock.advance(60_000);
    expect((await locks.ping()).degraded).toBeUndefined();
  });

  it('says why waiting falls back to polling', async () => {
    const locks = here.instance({ redis: await here.guest('resetchannels', '+@all') });
    expect(await locks.ping()).toMatchObject({ handoff: 'subscription', degraded: undefined });
    const lock = await here.holder();
    const waiting = locks.acquire('goods:300');
    await here.clock.advanceUntil('it polls', async () => (await locks.ping()).handoff === 'polling');
    const { isUp: up, degraded } = await locks.ping();
    expect(up).toBe(true);
    expect(degraded).toMatch(/^Waiting for locks costs more requests, because messages cannot be received: .*NOPERM/);
    await lock.release();
    await (await here.clock.until(waiting)).release();
  });
});

describe('a ping of a quorum', () => {
  it('is up with a majority, and degraded without a minority', async () => {
    const here = await new Masters(3, { stopped: true }).start();
    try {
      const locks = await here.instance({ requestTimeoutMs: 2_000 });
      const names = here.servers.map(({ port }) => `127.0.0.1:${port}`);
      expect(await locks.ping()).toEqual({
        isUp: true,
        handoff: 'polling',
        degraded: undefined,
        servers: names.map((server) => ({ server, ...UP })),
      });
      here.pause(0);
      const { isUp, degraded, servers } = await here.clock.until(locks.ping());
      expect(isUp).toBe(true);
      expect(degraded).toMatch(new RegExp(`^Locks continue with 2 of 3 nodes: ${names[0]}: no reply within \\d+ ms$`));
      expect(servers.map((server) => server.isUp)).toEqual([false, true, true]);
      await here.servers[1].kill();
      await eventually('it is not up', async () => !(await here.clock.until(locks.ping())).isUp);
      expect((await here.clock.until(locks.ping())).degraded).toBeUndefined();
      here.resume(0);
      await eventually('a majority is up', async () => (await here.clock.until(locks.ping())).isUp);
    } finally {
      await here.close();
    }
  });
});
