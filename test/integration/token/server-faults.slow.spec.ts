import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockLostError, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

describe('a faulty Redis', () => {
  let server: RedisServer;
  let running: RedisLocks;
  let admin: Redis;

  beforeEach(async () => {
    server = await startRedis({ local: true });
    running = new RedisLocks();
    admin = new Redis(server.url, { lazyConnect: true }).on('error', () => undefined);
  });

  afterEach(async () => {
    if (server.pid !== undefined) server.resume();
    await running.close();
    admin.disconnect();
    await server.stop();
  });

  const start = (options = {}) => running.start({ redis: server.url, ...options });

  it('that is down at start: the application starts, warns once, then serves', async () => {
    await server.kill();
    const locks = start({ requestTimeoutMs: 1_000 });
    const asking = locks.acquire('goods:300', { waitMs: 0 });
    await expect(asking).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    });
    await expect(locks.tryAcquire('goods:301')).rejects.toBeInstanceOf(LockUnavailableError);
    expect(running.warnings).toHaveLength(1);
    expect(running.warnings[0]).toContain('Redis cannot be reached');
    expect(running.infos).toEqual([]);
    await server.restart();
    await locks.using('goods:300', () => undefined);
    await locks.using('goods:301', () => undefined);
    expect(running.warnings).toHaveLength(1);
    expect(running.infos).toEqual([
      expect.stringMatching(/^Redis can be reached again at redis:.* after [\d.]+ m?s\.$/),
    ]);
  });

  it('that stays down: no commands pile up, and inspect ends', async () => {
    await server.kill();
    const client = new Redis(server.url, { maxRetriesPerRequest: null }).on('error', () => undefined);
    const locks = start({ redis: client, requestTimeoutMs: 100 });
    const asking = Array.from({ length: 100 }, (_, id) =>
      locks.acquire(`goods:${id}`, { waitMs: 150 }).catch(() => 'none'),
    );
    await Promise.all(asking);
    await expect(locks.inspect('goods:300')).rejects.toBeInstanceOf(LockUnavailableError);
    // TIME, sent one at a time, and the inspections of the lock, of those that share it, and of its queue.
    expect(Reflect.get(client, 'offlineQueue')).toHaveProperty('length', 4);
    client.disconnect();
  });

  it('that goes down later: the caller waits for up to waitMs', async () => {
    const locks = start({ requestTimeoutMs: 1_000 });
    await locks.using('goods:300', () => undefined);
    await server.kill();
    const impatient = locks.acquire('goods:300', { waitMs: 500 });
    const patient = locks.acquire('goods:300');
    await expect(impatient).rejects.toBeInstanceOf(LockUnavailableError);
    await server.restart();
    await (await patient).release();
  });

  it('that hangs: unavailable after requestTimeoutMs, and no lock is left', async () => {
    const locks = start({ requestTimeoutMs: 1_000 });
    const other = start();
    await locks.using('goods:300', () => undefined);
    server.pause();
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ message: expect.stringContaining('1000 ms') });
    await expect(locks.tryAcquire('goods:301')).rejects.toBeInstanceOf(LockUnavailableError);
    expect(running.warnings).toEqual([expect.stringContaining('Redis cannot be reached')]);
    server.resume();
    await other.using('goods:300', () => undefined);
    await eventually('nothing is left locked', async () => (await other.inspect('goods:300')) === null);
  });

  it('that restarts empty: holders learn that their locks are lost', async () => {
    const locks = start();
    const lock = await locks.acquire('goods:300');
    await server.restart();
    await eventually('the signal aborts', () => lock.signal.aborted);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    expect(running.warnings.filter((warning) => warning.includes('was lost'))).toHaveLength(1);
  });

  it('that restarts empty: tokens are still higher than before', async () => {
    const locks = start();
    const before = await locks.using('goods:300', (lock) => lock.fencingToken);
    await server.restart();
    const after = await locks.using('goods:300', (lock) => lock.fencingToken);
    expect(after).toBeGreaterThan(before);
  });

  it('that is back before the lease ends: the hold is kept', async () => {
    const lock = await start().acquire('goods:300');
    server.pause();
    const renewal = lock.extend();
    server.resume();
    await renewal;
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('that flushes its scripts: locks are granted', async () => {
    const locks = start();
    const held = await Promise.all([1, 2, 3].map((id) => locks.acquire(`goods:${id}`)));
    await admin.script('FLUSH');
    await locks.using('goods:300', () => undefined);
    await admin.script('FLUSH');
    await Promise.all(held.map((lock) => lock.extend()));
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual([true, true, true]);
  });

  it('that is read-only: the error says so, and the caller waits', async () => {
    const locks = start();
    await locks.using('goods:300', () => undefined);
    await admin.replicaof('127.0.0.1', '1');
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      permanent: false,
      message: expect.stringContaining('connect to the master'),
    });
    const waiting = locks.acquire('goods:300');
    await admin.replicaof('NO', 'ONE');
    await (await waiting).release();
  });

  it('that loads its data: the error says so, and the caller waits', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'loading-'));
    // Redis serves commands every 2 MB while it loads.
    const slowly = ['--key-load-delay', '1000', '--rdbcompression', 'no'];
    const slow = await startRedis({ local: true, args: ['--dir', folder, ...slowly] });
    const [filler, ...clients] = [true, true, false].map(
      (enableReadyCheck) =>
        new Redis(slow.url, {
          enableReadyCheck,
          maxRetriesPerRequest: null,
          retryStrategy: () => 20,
          // By default the client waits for as long as Redis estimates, up to 10 s, before it looks again.
          maxLoadingRetryTime: 100,
        }),
    );
    for (const client of clients) client.on('error', () => undefined);
    try {
      await filler.call('DEBUG', 'POPULATE', '2000', 'filler', '10000');
      await filler.save();
      filler.disconnect();
      const [careful, blunt] = clients.map((redis) => start({ redis }));
      await careful.using('goods:300', () => undefined);
      await slow.kill();
      const restarting = slow.restart();
      const refusal = (): Promise<string> => blunt.tryAcquire('goods:300').then(String, ({ message }) => message);
      await eventually('the error says so', async () => (await refusal()).includes('LOADING'));
      // It loads for 2 s at least. How much longer depends on the machine.
      for (const locks of [careful, blunt]) await locks.using('goods:300', () => undefined);
      await restarting;
    } finally {
      for (const client of [filler, ...clients]) client.disconnect();
      await slow.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('that is out of memory: the error says so, and releases work', async () => {
    const locks = start();
    const held = await locks.acquire('goods:300');
    await admin.config('SET', 'maxmemory', '1');
    await expect(locks.tryAcquire('goods:301')).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      permanent: false,
      message: expect.stringContaining('maxmemory'),
    });
    expect(await held.release()).toBe(true);
    await admin.config('SET', 'maxmemory', '0');
    await locks.using('goods:301', () => undefined);
  });

  it('that requires a password: the error says so at once', async () => {
    await admin.config('SET', 'requirepass', 'secret');
    const locks = start();
    const error: unknown = await locks.acquire('goods:300').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error as Error).message).toMatch(/NOAUTH|password/);
  });

  it('that refuses the keys to the user: the error says what to allow', async () => {
    await admin.acl('SETUSER', 'guest', 'on', 'nopass', '~other:*', '+@all');
    const locks = start({ redis: server.url.replace('redis://', 'redis://guest:any@') });
    await expect(locks.acquire('goods:300')).rejects.toMatchObject({
      permanent: true,
      message: expect.stringContaining('"Permissions" on the page'),
    });
  });

  it('with a foreign value under the key: the error says so', async () => {
    const locks = start();
    await admin.hset(running.keyOf('goods', '300'), 'stock', '5');
    await expect(locks.acquire('goods:300')).rejects.toMatchObject({
      permanent: true,
      message: expect.stringContaining('WRONGTYPE'),
    });
    await admin.set(running.keyOf('goods', '301'), 'a value of mine');
    const error: unknown = await locks.acquire('goods:301', { waitMs: 100 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect((error as Error).message).toContain('has no expiry');
    expect(await locks.inspect('goods:301')).toMatchObject({
      holder: 'a value of mine',
      isOwn: false,
      expiresInMs: Infinity,
    });
    expect(await admin.get(running.keyOf('goods', '301'))).toBe('a value of mine');
  });

  it('with a foreign type under the fence key: no lock is left', async () => {
    const locks = start();
    await admin.hset(`{${running.prefix}}|fence`, 'some', 'hash');
    await expect(locks.acquire('goods:300')).rejects.toMatchObject({ permanent: true });
    await eventually('the lock is released', async () => (await locks.inspect('goods:300')) === null);
  });
});
