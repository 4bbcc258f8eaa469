import { Controller, Get, Param } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, memory, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { eventually } from '../support/async.js';
import { uniquePrefix } from '../support/shared-redis.js';
import { closeApps, PLATFORMS, rawRedis, startApp } from './support/app.js';

const KEEP_MS = 10_000;

@Controller()
class TenantController {
  @Get('tenants/:id')
  @Locked('tenant:<id>', { keepMs: KEEP_MS })
  work(@Param('id') _id: string, @CurrentLock() lock: Lock): number {
    return lock.fencingToken;
  }

  @Get('module/:id')
  @Locked('tenant:<id>')
  module(@Param('id') _id: string, @CurrentLock() lock: Lock): number {
    return lock.fencingToken;
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('a @Locked method with keepMs, on %s', (platform) => {
  it.each<[string, RedisLockModuleOptions]>([
    ['tenants', {}],
    ['module', { keepMs: KEEP_MS }],
  ])('keeps its lock until another application wants it (%s)', async (path, locks) => {
    const prefix = uniquePrefix();
    const start = () => startApp({ platform, controllers: [TenantController], locks, prefix });
    const [app, other] = [await start(), await start()];
    const use = async (from: typeof app): Promise<number> => Number((await from.call(`/${path}/1`)).text);
    await eventually('the lock is kept', async () => {
      await use(app);
      return app.isLocked('tenant:1');
    });
    const value = async (): Promise<string | null> => rawRedis().get(`{${prefix}tenant}:1`);
    const before = await value();
    const tokens = [await use(app), await use(app), await use(app)];
    expect(await value()).toBe(before);
    tokens.push(await use(other), await use(app));
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    await closeApps();
    expect(await rawRedis().exists(`{${prefix}tenant}:1`)).toBe(0);
  });
});

describe('keepMs', () => {
  it('is refused at the start by a store that cannot keep locks', async () => {
    await expect(startApp({ locks: { store: redisson(), keepMs: KEEP_MS } })).rejects.toThrow(
      'keepMs: redisson() does not keep',
    );
  });

  it('is refused at the start if a @Locked method has it and its store cannot keep locks', async () => {
    const app = startApp({ controllers: [TenantController], locks: { store: redisson() } });
    await expect(app).rejects.toThrow(/@Locked of TenantController\.work.*keepMs/);
  });

  it('is taken by memory()', async () => {
    const app = await startApp({ controllers: [TenantController], locks: { store: memory(), keepMs: KEEP_MS } });
    expect(Number((await app.call('/module/1')).text)).toBeLessThan(Number((await app.call('/module/1')).text));
    expect(await app.locks.inspect('tenant:1')).not.toBeNull();
  });
});
