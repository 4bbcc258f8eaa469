import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { startRedis } from '../../support/redis/index.js';
import { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { Contention } from '../../support/contention.js';

describe('a faulty Redis', () => {
  let here: Contention;

  beforeEach(async () => {
    here = await new Contention().start();
  });
  afterEach(() => here.close());

  it('that is down at start: the application starts, warns once, then serves', async () => {
    await here.server.kill();
    const locks = here.instance({ requestTimeoutMs: 1_000 });
    const asking = locks.acquire('goods:300', { waitMs: 0 });
    await expect(asking).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    });
    await expect(locks.tryAcquire('goods:301')).rejects.toBeInstanceOf(LockUnavailableError);
    expect(here.warnings).toHaveLength(1);
    expect(here.warnings[0]).toContain('Redis cannot be reached');
    expect(here.infos).toEqual([]);
    await here.server.restart();
    await locks.using('goods:300', () => undefined);
    await locks.using('goods:301', () => undefined);
    expect(here.warnings).toHaveLength(1);
    expect(here.infos).toEqual([expect.stringMatching(/^Redis can be reached again at redis:.* after [\d.]+ m?s\.$/)]);
  });

  it('that stays down: no commands pile up, and inspect ends', async () => {
    await here.server.kill();
    const client = new Redis(here.server.url, { maxRetriesPerRequest: null }).on('error', () => undefined);
    // No server replies, so the time of the callers passes at once.
    const clock = new ServerManualClock({ setWallTime: () => undefined, commandsRun: () => Promise.resolve(0) }, 0);
    const running = new RedisLocks(clock);
    const locks = running.start({ redis: client });
    const asking = Array.from({ length: 100 }, (_, id) =>
      locks.acquire(`goods:${id}`, { waitMs: 30_000 }).catch(() => 'none'),
    );
    expect(new Set(await clock.until(Promise.all(asking)))).toEqual(new Set(['none']));
    await expect(clock.until(locks.inspect('goods:300'))).rejects.toBeInstanceOf(LockUnavailableError);
    // TIME, sent one at a time, and the inspections of the lock, of those that share it, and of its queue.
    expect(Reflect.get(client, 'offlineQueue')).toHaveProperty('length', 4);
    await running.close();
    client.disconnect();
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
      const [careful, blunt] = clients.map((redis) => here.instance({ redis }));
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

  it('that requires a password: the error says so at once', async () => {
    await here.admin.config('SET', 'requirepass', 'secret');
    const locks = here.instance();
    const error: unknown = await locks.acquire('goods:300').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error as Error).message).toMatch(/NOAUTH|password/);
  });
});
