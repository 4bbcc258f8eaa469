// What needs a replica is in replicas.slow.spec.ts.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockReplicationError, type LockService } from 'nestjs-redis-lock';
import { RedisLocks } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';

needWallClocks();

describe('replicas: { min: 1 } on a server without replicas', () => {
  let servers: StoppedServers;
  let admin: Redis;
  let clock: ServerManualClock;
  let running: RedisLocks;
  const start = (): LockService => running.start({ redis: servers.url, replicas: { min: 1, timeoutMs: 500 } });
  const keysLeft = (): Promise<number> => admin.exists(running.keyOf('goods', '300'), running.keyOf('goods', '301'));

  beforeAll(async () => {
    servers = await StoppedServers.start();
    admin = new Redis(servers.url);
  });
  beforeEach(() => {
    clock = servers.clock();
    running = new RedisLocks(clock);
  });
  afterEach(async () => {
    await admin.acl('SETUSER', 'default', '+@all');
    await running.close();
  });
  afterAll(async () => {
    admin.disconnect();
    await servers.stop();
  });

  it('grants no lock, and leaves none behind', async () => {
    const locks = start();
    for (const wanted of ['goods:300', ['goods:300', 'goods:301']] as const) {
      const error: unknown = await clock.until(locks.tryAcquire(wanted as string).catch((thrown: unknown) => thrown));
      expect(error).toBeInstanceOf(LockReplicationError);
      expect(error).toMatchObject({ code: 'LOCK_REPLICATION', permanent: false });
      await clock.advanceUntil('nothing is left locked', async () => (await keysLeft()) === 0);
    }
  });

  it('says what to change if WAIT is refused', async () => {
    await admin.acl('SETUSER', 'default', '-wait');
    const locks = start();
    const refused = /NOPERM .*: connect to Redis itself, allow its user WAIT, or leave the `replicas` option out/;
    await expect(clock.until(locks.tryAcquire('goods:300'))).rejects.toThrow(refused);
    await clock.advanceUntil('nothing is left locked', async () => (await keysLeft()) === 0);
  });
});
