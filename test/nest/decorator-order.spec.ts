import { Controller, Get, Injectable, Param, SetMetadata } from '@nestjs/common';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockConfigError, LockScope, memory, RedisLockModule } from 'nestjs-redis-lock';
import { TRANSACTIONS_ARE_SCOPES } from '../../lib/core/hold/transaction-scopes.js';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Bound, Copying, Foreign, Proxied } from './support/wrappers.js';

@Injectable()
class Right {
  @SetMetadata('role', 'buyer')
  @Locked('goods:<id>')
  async marked(id: number): Promise<number> {
    return id;
  }

  @Locked('goods:<id>')
  @Foreign()
  async above(id: number): Promise<number> {
    return id;
  }

  @LockScope()
  @Foreign()
  @Locked('goods:<id>')
  async scoped(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Wrong {
  @Foreign()
  @Locked('goods:<id>')
  async foreign(id: number): Promise<number> {
    return id;
  }

  @Copying()
  @Locked('goods:<id>')
  async copying(id: number): Promise<number> {
    return id;
  }

  @Proxied()
  @Locked('goods:<id>')
  async proxied(id: number): Promise<number> {
    return id;
  }

  @Bound()
  @Locked('goods:<id>')
  async bound(id: number): Promise<number> {
    return id;
  }

  @Foreign()
  @LockScope()
  @Locked('goods:<id>')
  async scopedBelow(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Inheriting extends Wrong {}

@Controller()
class WrappedHandlers {
  @Get('wrapped/:id')
  @Foreign()
  @Locked('goods:<id>')
  async buy(@Param('id') id: string): Promise<string> {
    return id;
  }
}

@Injectable()
class Jobs {
  @Cron('0 0 1 1 *')
  @Foreign()
  @Locked('report')
  async report(): Promise<void> {}
}

const WRONG = ['foreign', 'copying', 'proxied', 'bound', 'scopedBelow'];

const start = (providers: NonNullable<Parameters<typeof startApp>[0]['providers']>, options = {}) =>
  startApp({ lockModules: () => [RedisLockModule.forRoot({ store: memory(), ...options })], providers });

const warningsOf = ({ logged }: TestApp): string[] => logged.filter((line) => line.includes('is above @Locked'));

afterEach(closeApps);

describe('a decorator above @Locked', () => {
  it('is not reported if it keeps the method, stands below, or a scope stands above it', async () => {
    const app = await start([Right]);
    expect(warningsOf(app)).toEqual([]);
  });

  it('is warned of once for each method if it replaces the method', async () => {
    const app = await start([Wrong, Inheriting]);
    const warnings = warningsOf(app);
    expect(warnings.map((line) => /Wrong\.(\w+)/.exec(line)?.[1])).toEqual(WRONG);
    expect(warnings[0]).toMatch(/released before .* ends.*commits.*Put @Locked above.*@LockScope/);
    expect(await app.nest.get(Wrong).foreign(7)).toBe(7);
  });

  it('is a warning for a cron job too, which no interceptor sees', async () => {
    const app = await startApp({
      imports: [ScheduleModule.forRoot()],
      lockModules: () => [RedisLockModule.forRoot({ store: memory() })],
      providers: [Jobs],
    });
    expect(warningsOf(app)).toHaveLength(1);
    expect(warningsOf(app)[0]).toMatch(/Jobs\.report/);
  });

  it('is not reported for a handler, whose lock is held until the response', async () => {
    const lockModules = () => [RedisLockModule.forRoot({ store: memory() })];
    const app = await startApp({ lockModules, controllers: [WrappedHandlers] });
    expect(warningsOf(app)).toEqual([]);
  });

  it('is found in what a factory returns', async () => {
    const app = await start([{ provide: 'wrong', useFactory: () => new Wrong() }]);
    expect(warningsOf(app)).toHaveLength(WRONG.length);
  });

  it('is ignored with checks: off', async () => {
    const app = await start([Wrong], { checks: 'off' });
    expect(warningsOf(app)).toEqual([]);
  });

  it('fails the start with checks: error, which names all methods', async () => {
    const error: unknown = await start([Wrong], { checks: 'error' }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockConfigError);
    for (const name of WRONG) expect((error as Error).message).toContain(`Wrong.${name}: `);
  });

  it('is not reported if transactions are scopes', async () => {
    Reflect.set(globalThis, TRANSACTIONS_ARE_SCOPES, true);
    try {
      expect(warningsOf(await start([Wrong]))).toEqual([]);
      expect(await start([Wrong], { checks: 'error' })).toBeDefined();
    } finally {
      Reflect.deleteProperty(globalThis, TRANSACTIONS_ARE_SCOPES);
    }
  });

  it('is checked with the options of the instance that the method names', async () => {
    @Injectable()
    class Reports {
      @Foreign()
      @Locked('report:<id>', { name: 'reports' })
      async write(id: number, @CurrentLock() lock?: Lock): Promise<unknown> {
        return [id, lock];
      }
    }
    const lockModules = () => [
      RedisLockModule.forRoot({ store: memory(), checks: 'off' }),
      RedisLockModule.forRoot({ store: memory(), name: 'reports' }),
    ];
    const app = await startApp({ lockModules, providers: [Wrong, Reports] });
    expect(warningsOf(app)).toEqual([expect.stringContaining('Reports.write')]);
  });
});

describe('a second @Locked above a wrapper without metadata', () => {
  it('is refused at decoration', () => {
    expect(() => {
      class Twice {
        @Locked('goods:<id>')
        @Foreign()
        @Locked('shop')
        async buy(id: number): Promise<number> {
          return id;
        }
      }
      return Twice;
    }).toThrow(/Twice\.buy: there is a second @Locked/);
  });
});
