import { Injectable, Scope, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockClosedError,
  LockService,
  memory,
  RedisLockModule,
  type StoreFactory,
  WhileLeader,
} from 'nestjs-redis-lock';
import { ManualClock, RedisLockTestingModule, withMemoryLocks } from 'nestjs-redis-lock/testing';
import { deferred, type Deferred, eventually } from '../support/async.js';
import { uniquePrefix } from '../support/shared-redis.js';
import { closeApps, startApp } from './support/app.js';

/** One call of a leader's method. */
interface Term {
  readonly instance: Reports;
  readonly signal: AbortSignal;
  readonly lock: Lock;
  readonly work: Deferred<void>;
  readonly isReady: boolean;
  readonly current: Lock | undefined;
}

const terms: Term[] = [];

@Injectable()
class Reports {
  static isReady = false;
  /** What the applications wait for in a hook of their shutdown. */
  static hook: Promise<void> | undefined;

  constructor(private readonly locks: LockService) {}

  async onModuleInit(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    Reports.isReady = true;
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Reports.hook;
  }

  @WhileLeader('report', { ttlMs: 60_000 })
  async run(signal: AbortSignal, lock: Lock): Promise<void> {
    const work = deferred();
    signal.addEventListener('abort', () => work.resolve());
    terms.push({ instance: this, signal, lock, work, isReady: Reports.isReady, current: this.locks.current('report') });
    await work.promise;
  }
}

const start = (prefix: string, providers: Type[] = [Reports]) => startApp({ prefix, providers });

/** Returns the next call of the method. */
async function term(number: number): Promise<Term> {
  await eventually(`term ${number}`, () => terms.length >= number);
  return terms[number - 1];
}

afterEach(async () => {
  Reports.hook = undefined;
  await closeApps();
  terms.length = 0;
  Reports.isReady = false;
});

describe('@WhileLeader', () => {
  it('runs in one application, and in another as soon as that shuts down, before other hooks end', async () => {
    const prefix = uniquePrefix();
    const one = await start(prefix);
    const first = await term(1);
    expect(first.instance).toBe(one.nest.get(Reports));
    expect([first.isReady, first.current]).toEqual([true, first.lock]);
    const two = await start(prefix);
    await eventually('two waits', async () => ((await two.locks.inspect('report'))?.waiting.length ?? 0) === 1);
    expect(terms).toHaveLength(1);
    const hook = deferred();
    Reports.hook = hook.promise;
    const closed = one.close();
    const second = await term(2);
    expect(first.signal.reason).toBeInstanceOf(LockClosedError);
    expect(second.instance).toBe(two.nest.get(Reports));
    expect(second.lock.fencingToken).toBeGreaterThan(first.lock.fencingToken);
    hook.resolve();
    await closed;
  });

  it('logs an error of the method with its name, and calls it again', async () => {
    const app = await start(uniquePrefix());
    const first = await term(1);
    first.work.reject(new Error('no disk'));
    const second = await term(2);
    expect(first.signal.aborted).toBe(true);
    expect(second.signal.aborted).toBe(false);
    expect(app.logged).toEqual(['error Reports.run failed and steps down: no disk']);
  });

  it('leads on an instance that a factory makes', async () => {
    class Factored {
      calls = 0;

      @WhileLeader('report')
      run(): void {
        this.calls += 1;
      }
    }
    const app = await startApp({ providers: [{ provide: 'factored', useFactory: () => new Factored() }] });
    await eventually('it leads', () => app.nest.get<Factored>('factored').calls === 1);
    expect(app.logged).toEqual([]);
  });

  it('calls an override', async () => {
    @Injectable()
    class Override extends Reports {
      override async run(signal: AbortSignal, lock: Lock): Promise<void> {
        await super.run(signal, lock);
      }
    }
    const app = await startApp({ providers: [{ provide: Reports, useClass: Override }] });
    expect((await term(1)).instance).toBe(app.nest.get(Reports));
  });

  it('leads by the module instance of that name, on a memory store without Redis', async () => {
    const calls: string[] = [];
    @Injectable()
    class Named {
      @WhileLeader('report', { name: 'jobs' })
      run(): void {
        calls.push('jobs');
      }
    }
    const clock = new ManualClock();
    const imports = [RedisLockModule.forRoot(), RedisLockModule.forRoot({ name: 'jobs' })];
    const module = await withMemoryLocks(Test.createTestingModule({ imports, providers: [Named] }), {
      clock,
    }).compile();
    await clock.advance(10);
    expect(calls).toEqual([]);
    await module.init();
    await clock.advance(60_000);
    expect(calls).toEqual(['jobs']);
    await module.close();
  });

  it('is checked by the module instance of that name, and by no other', async () => {
    const begun = deferred();
    const leaderOf = (name?: string): Type => {
      @Injectable()
      class Leader {
        @WhileLeader('report', { name, ttlMs: 60_000 })
        run(): void {
          begun.resolve();
        }
      }
      return Leader;
    };
    const shortestLease = { ms: 90_000, reason: 'its server is far away' };
    const patient: StoreFactory = (context) => {
      const store = memory()(context);
      return Object.assign(store, { capabilities: { ...store.capabilities, shortestLease } });
    };
    const lockModules = () => [
      RedisLockModule.forRoot({ store: patient, ttlMs: 90_000 }),
      RedisLockModule.forRoot({ store: memory(), name: 'jobs' }),
    ];
    await startApp({ lockModules, providers: [leaderOf('jobs')] });
    await begun.promise;
    await expect(startApp({ lockModules, providers: [leaderOf()] })).rejects.toThrow(
      '@WhileLeader of Leader.run: the lease is 60000 ms; ttlMs and maxHoldMs must allow 90000 or more',
    );
  });

  it('does not run if a test has replaced the lock service', async () => {
    const imports = [RedisLockTestingModule.forRoot()];
    const module = await Test.createTestingModule({ imports, providers: [Reports] })
      .overrideProvider(LockService)
      .useValue({})
      .compile();
    await module.init();
    await module.close();
    expect(terms).toEqual([]);
  });

  it.each([Scope.REQUEST, Scope.TRANSIENT])('refuses a class of scope %s at start', async (scope) => {
    @Injectable({ scope })
    class Scoped {
      @WhileLeader('report')
      run(): void {}
    }
    const imports = [RedisLockTestingModule.forRoot()];
    const module = await Test.createTestingModule({ imports, providers: [Scoped] }).compile();
    await expect(module.init()).rejects.toThrow(
      '@WhileLeader of Scoped.run: its class is request-scoped or transient; expected a singleton.',
    );
  });
});

describe('a method that cannot lead', () => {
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
    const imports = [RedisLockTestingModule.forRoot({ clock })];
    const module = await Test.createTestingModule({ imports, providers: [Jobs] }).compile();
    await expect(module.init()).rejects.toThrow('@WhileLeader of Jobs.mails: ');
    await clock.advance(1_000);
    expect(calls).toEqual([]);
  });
});

describe('the decoration', () => {
  const decorate = (resource: unknown, options?: object) => () => {
    class Jobs {
      @WhileLeader(resource as string, options)
      run(): void {}
    }
    return Jobs;
  };

  it('refuses what cannot work', () => {
    expect(decorate('report:<id>')).toThrow(
      '@WhileLeader of Jobs.run: the resource is "report:<id>"; expected a resource without placeholders, such as report.',
    );
    expect(decorate('')).toThrow('expected a resource without placeholders');
    expect(decorate(() => 'report')).toThrow('expected a resource without placeholders');
    expect(decorate('report', { ttlMs: 1 })).toThrow('@WhileLeader of Jobs.run: ttlMs is 1; expected');
    expect(decorate('report', { waitMs: 1 })).toThrow('unknown option waitMs');
    expect(() => {
      class Twice {
        @WhileLeader('report')
        @WhileLeader('other')
        run(): void {}
      }
      return Twice;
    }).toThrow('Twice.run: there is a second @WhileLeader; a method may have only one.');
    expect(() => {
      class Static {
        @WhileLeader('report')
        static run(): void {}
      }
      return Static;
    }).toThrow('static methods have none');
  });
});
