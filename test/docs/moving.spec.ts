import type { DynamicModule, Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import { eventually } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';

let redis: Redis;
let application: TestingModule | undefined;

beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
  redis = new Redis(testRedisUrl());
});
afterEach(async () => {
  await application?.close();
  application = undefined;
  await redis.quit();
});

async function start(imported: Type | DynamicModule): Promise<TestingModule> {
  application = await Test.createTestingModule({ imports: [imported] }).compile();
  await application.init();
  return application;
}

/** Locks a key as another library does, and returns what the call does meanwhile. */
async function behind<T>(key: string, call: () => Promise<T>): Promise<T> {
  await redis.set(key, 'theirs', 'PX', 60_000);
  let settled = false;
  const result = call().finally(() => (settled = true));
  const waiting = () => application?.get(LockService).local().waiting.length;
  await eventually('the call waits', () => waiting() === 1);
  expect(settled).toBe(false);
  expect(await redis.get(key)).toBe('theirs');
  await redis.del(key);
  return result;
}

describe('the page on moving', () => {
  it('has a service with the keys of redis-semaphore, even for values that need encoding', async () => {
    const { AccountModule, AccountService } = await import('./moving/one-step.js');
    const accounts = (await start(AccountModule)).get(AccountService);
    expect(await behind('mutex:account:1', () => accounts.pay('1'))).toBe('account 1 is paid');
    expect(await behind('mutex:account:a b', () => accounts.close('a b'))).toBe('account a b is closed');
  });
});
