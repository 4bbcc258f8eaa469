import { forwardRef, Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockClosedError, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';
import { ManualClock, RedisLockTestingModule, withMemoryLocks } from 'nestjs-redis-lock/testing';
import { deferred, eventually } from '../support/async.js';
import { uniquePrefix } from '../support/shared-redis.js';
import { closeApps, startApp } from './support/app.js';

afterEach(closeApps);

describe('a shutdown with leaders', () => {
  it('lets them step down before other hooks, and another application leads meanwhile', async () => {
    const hook = deferred();
    const events: string[] = [];
    const reasons: unknown[] = [];
    const reporting = (name: string) => {
      @Injectable()
      class Reports {
        @WhileLeader('report')
        async run(signal: AbortSignal): Promise<void> {
          events.push(name);
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          reasons.push(signal.reason);
        }

        async beforeApplicationShutdown(): Promise<void> {
          if (name === 'one') await hook.promise;
        }
      }
      return Reports;
    };
    const prefix = uniquePrefix();
    const one = await startApp({ prefix, providers: [reporting('one')] });
    await eventually('one leads', () => events.length === 1);
    const two = await startApp({ prefix, providers: [reporting('two')] });
    await eventually('two waits', async () => ((await two.locks.inspect('report'))?.waiting.length ?? 0) === 1);
    const closed = one.close();
    try {
      await eventually('two leads', () => events.length === 2);
      expect([events, reasons]).toEqual([['one', 'two'], [expect.any(LockClosedError)]]);
    } finally {
      hook.resolve();
      await closed;
    }
  });
});

describe('several methods that lead', () => {
  it('have a leadership each, by the module instances that they name', async () => {
    const calls: string[] = [];
    @Injectable()
    class Jobs {
      @WhileLeader('bills')
      bills(): void {
        calls.push('bills');
      }

      @WhileLeader('mails')
      mails(): void {
        calls.push('mails');
      }

      @WhileLeader('bills', { name: 'jobs' })
      others(): void {
        calls.push('bills of jobs');
      }
    }
    const clock = new ManualClock();
    const module = await withMemoryLocks(
      Test.createTestingModule({
        imports: [RedisLockModule.forRoot(), RedisLockModule.forRoot({ name: 'jobs' })],
        providers: [Jobs],
      }),
      { clock },
    ).compile();
    await module.init();
    await clock.advance(60_000);
    expect(calls.toSorted()).toEqual(['bills', 'bills of jobs', 'mails']);
    await module.close();
  });

  it('run one at a time if they name the same resource', async () => {
    const calls: string[] = [];
    @Injectable()
    class Jobs {
      @WhileLeader('bills')
      async first(signal: AbortSignal): Promise<void> {
        await this.run('first', signal);
      }

      @WhileLeader('bills')
      async second(signal: AbortSignal): Promise<void> {
        await this.run('second', signal);
      }

      private async run(name: string, signal: AbortSignal): Promise<void> {
        calls.push(name);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      }
    }
    const clock = new ManualClock();
    const module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot({ clock })],
      providers: [Jobs],
    }).compile();
    await module.init();
    await clock.advance(60_000);
    expect(calls).toHaveLength(1);
    const closed = module.close();
    await clock.advance(10_000);
    await closed;
    expect(calls).toHaveLength(1);
  });
});

describe('a method that cannot lead', () => {
  class Factored {
    @WhileLeader('report')
    run(): void {}
  }

  it('is refused at start if its module sees no lock service', async () => {
    @Module({ imports: [RedisLockTestingModule.forRoot({ isGlobal: false })] })
    class LocksModule {}
    @Module({ providers: [{ provide: 'factored', useFactory: () => new Factored() }] })
    class OtherModule {}
    const module = await Test.createTestingModule({ imports: [LocksModule, OtherModule] }).compile();
    await expect(module.init()).rejects.toThrow(
      '@WhileLeader of Factored.run: its module has no access to LockService; import RedisLockModule ' +
        'in that module, or make it global.',
    );
  });

  it('is refused at start if its module imports only modules that export each other', async () => {
    @Module({ imports: [forwardRef(() => TwoModule)], exports: [forwardRef(() => TwoModule)] })
    class OneModule {}
    @Module({ imports: [forwardRef(() => OneModule)], exports: [forwardRef(() => OneModule)] })
    class TwoModule {}
    @Module({ imports: [OneModule], providers: [{ provide: 'factored', useFactory: () => new Factored() }] })
    class JobsModule {}
    const locks = RedisLockTestingModule.forRoot({ isGlobal: false });
    const module = await Test.createTestingModule({ imports: [locks, JobsModule] }).compile();
    await expect(module.init()).rejects.toThrow(
      '@WhileLeader of Factored.run: its module has no access to LockService',
    );
  });

  it('is refused at start if its resource cannot form a key, and no leader runs', async () => {
    const calls: string[] = [];
    @Injectable()
    class Jobs {
      @WhileLeader('bills')
      bills(): void {
        calls.push('bills');
      }

      @WhileLeader('a\u0000b')
      mails(): void {
        calls.push('mails');
      }
    }
    const clock = new ManualClock();
    const module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot({ clock })],
      providers: [Jobs],
    }).compile();
    await expect(module.init()).rejects.toThrow('@WhileLeader of Jobs.mails: ');
    await clock.advance(1_000);
    expect(calls).toEqual([]);
  });
});
