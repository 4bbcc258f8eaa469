import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { bindLocks, LockClosedError, LockService, RedisLockModule, WhileLeader } from 'nestjs-redis-lock';
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
    calls = 0;

    @WhileLeader('report')
    run(): void {
      this.calls += 1;
    }
  }

  it('is refused at start if a factory makes its instance, until the factory binds it', async () => {
    const compile = (useFactory: (locks: LockService) => object) =>
      Test.createTestingModule({
        imports: [RedisLockTestingModule.forRoot()],
        providers: [{ provide: 'factored', useFactory, inject: [LockService] }],
      }).compile();
    await expect((await compile(() => new Factored())).init()).rejects.toThrow(
      '@WhileLeader of Factored.run: its instance has no lock service, because a factory or a value provides it.',
    );
    const bound = await compile((locks) => bindLocks(new Factored(), locks));
    await bound.init();
    await eventually('it leads', () => bound.get<Factored>('factored').calls === 1);
    await bound.close();
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
