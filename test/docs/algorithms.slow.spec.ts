import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { eventually } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { load } from './blocks.js';

let redis: Redis;

beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
  redis = new Redis(testRedisUrl());
});
afterEach(async () => {
  await redis.quit();
});

@Injectable()
class AccountService {
  constructor(
    @InjectLockService('legacy') private readonly legacy: LockService,
    private readonly locks: LockService,
  ) {}

  /** The first step: the old lock, and the new one inside it. */
  change(id: string, work: () => Promise<void>): Promise<void> {
    return this.legacy.using(`account:${id}`, () => this.locks.using(`account:${id}`, work));
  }
}

describe('the page on moving', () => {
  it('has a migration in which old and new locks exclude each other', async () => {
    const { legacyLocks } = load('docs/moving.md', 'legacyLocks');
    const imports = [legacyLocks, RedisLockModule.forRoot({ redis: testRedisUrl() })];
    const module = await Test.createTestingModule({ imports, providers: [AccountService] }).compile();
    await module.init();
    const accounts = module.get(AccountService);
    try {
      const order: string[] = [];
      const work = async () => void order.push('work');
      const [seconds] = (await redis.time()).map(Number);
      const inAMinute = String(seconds + 60);
      // The old code does not know the new lock.
      await redis.set('account:1_lock', inAMinute, 'EX', 60);
      const behindOldCode = accounts.change('1', work);
      // The second deployment does not know the old lock.
      const second = await module.get(LockService).acquire('account:2');
      const behindNewCode = accounts.change('2', work);
      await eventually(
        'the caller waits inside the old lock',
        async () => (await redis.exists('account:2_lock')) === 1,
      );
      order.push('end of the old code');
      await redis.del('account:1_lock');
      await behindOldCode;
      order.push('end of the new code');
      await second.release();
      await behindNewCode;
      expect(order).toEqual(['end of the old code', 'work', 'end of the new code', 'work']);
      expect(await redis.exists('account:1_lock', 'account:2_lock', '{lock_account}:1', '{lock_account}:2')).toBe(0);
    } finally {
      await module.close();
    }
  });
});
