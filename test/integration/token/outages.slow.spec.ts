import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Lock, LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { RedisProxy } from '../../support/proxy.js';
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

  it('that is shorter than unavailableAfterMs costs nobody an error', async () => {
    // Long enough for a restart on a busy machine.
    const locks = start({ waitMs: 0, unavailableAfterMs: LONG_MS });
    const held = await locks.acquire('held:1');
    await server.kill();
    const calls = Array.from({ length: 200 }, (_, id) => locks.using(`goods:${id}`, () => id));
    await server.restart();
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 200 }, (_, id) => id));
    await held.release();
  });

  it('without a refusal is known after requestTimeoutMs, and over with the first reply', async () => {
    const locks = start({ waitMs: LONG_MS, requestTimeoutMs: 1_000 });
    await connected(locks);
    server.pause();
    const calls = Array.from({ length: 50 }, (_, id) => failureOf(locks.acquire(`goods:${id}`)));
    for (const { message } of await Promise.all(calls)) expect(message).toMatch(/no reply within 1000 ms/);
    server.resume();
    await connected(locks);
  });

  it('ends the waiting in the queue, and leaves no entry there', async () => {
    const [locks, others] = [
      start({ waitMs: Infinity, requestTimeoutMs: 1_000 }),
      running.start({ redis: server.url }),
    ];
    await connected(locks);
    await connected(others);
    const holder: Lock = await others.acquire('goods:300', { ttlMs: 60_000 });
    const waiting = failureOf(locks.acquire('goods:300'));
    await eventually('it waits', async () => (await others.inspect('goods:300'))?.waiting.length === 1);
    server.pause();
    expect(await waiting).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    server.resume();
    await eventually('its entry is gone', async () => (await others.inspect('goods:300'))?.waiting.length === 0);
    expect(await holder.release()).toBe(true);
  });

  it('of a Redis that loads its data is reported as such', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'loading-'));
    // Redis serves commands every 2 MB while it loads.
    const slowly = ['--key-load-delay', '4000', '--rdbcompression', 'no'];
    const slow = await startRedis({ local: true, args: ['--dir', folder, ...slowly] });
    // Without the ready check it also sends commands while Redis loads.
    const admin = new Redis(slow.url, { maxRetriesPerRequest: null, enableReadyCheck: false });
    admin.on('error', () => undefined);
    try {
      await admin.call('DEBUG', 'POPULATE', '2000', 'filler', '10000');
      await admin.save();
      const locks = start({ redis: slow.url, requestTimeoutMs: 200 });
      // A connection that Redis closes before it is ready looks like that of a server with TLS.
      await connected(locks);
      await slow.kill();
      const restarting = slow.restart();
      const refusal = (): Promise<string> => locks.tryAcquire('goods:300').then(String, ({ message }) => message);
      const said = 'connected, but Redis is not ready: it may be loading its data';
      await eventually('an error says so', async () => (await refusal()).includes(said));
      const patient = running.start({ redis: slow.url }).using('goods:300', () => undefined);
      // On a busy machine, the rest would take longer than `restart` waits.
      await admin.config('SET', 'key-load-delay', '0');
      await patient;
      await restarting;
    } finally {
      admin.disconnect();
      await running.close();
      await slow.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });

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

  it('at the start is like any other', async () => {
    await server.kill();
    const locks = start({ waitMs: LONG_MS });
    expect(await failureOf(locks.acquire('goods:1'))).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    const { message } = await failureOf(locks.acquire('goods:2'));
    expect(message).toMatch(/Redis has been unreachable for [\d.]+ m?s \(connect ECONNREFUSED/);
    await server.restart();
    await start({ unavailableAfterMs: LONG_MS }).using('goods:1', () => undefined);
    await connected(locks, 'goods:1');
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
