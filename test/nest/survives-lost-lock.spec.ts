import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, type INestApplication, Injectable, Logger, Module, Param, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { CurrentLock, type Lock, Locked, LockScope, RedisLockModule } from 'nestjs-redis-lock';
import { LostLockFailure, ManualClock, survivesLostLock, withMemoryLocks } from 'nestjs-redis-lock/testing';

@Injectable()
class Stock {
  left = 1;
  /** The highest fencing token that has written. */
  private highest = 0;

  async read(): Promise<number> {
    await new Promise((resolve) => setImmediate(resolve));
    return this.left;
  }

  write(left: number, token = Infinity): void {
    if (token < this.highest) throw new Error('stale');
    if (token !== Infinity) this.highest = token;
    this.left = left < this.left ? left : -1;
  }
}

@Controller('goods/:id')
class Goods {
  constructor(private readonly stock: Stock) {}

  @Post('unsafe')
  @Locked('goods:<id>')
  async unsafe(@Param('id') _id: string): Promise<boolean> {
    const left = await this.stock.read();
    if (left > 0) this.stock.write(left - 1);
    return left > 0;
  }

  @Post('checked')
  @Locked('goods:<id>')
  async checked(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<boolean> {
    const left = await this.stock.read();
    lock.assertHeld();
    if (left > 0) this.stock.write(left - 1);
    return left > 0;
  }

  @Post('fenced')
  @LockScope()
  @Locked('goods:<id>')
  async fenced(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<boolean> {
    const left = await this.stock.read();
    if (left > 0) this.stock.write(left - 1, lock.fencingToken);
    return left > 0;
  }
}

@Module({ imports: [RedisLockModule.forRoot()], controllers: [Goods], providers: [Stock] })
class AppModule {}

describe('survivesLostLock() over HTTP', () => {
  let app: INestApplication;
  let url: string;
  let stock: Stock;

  beforeEach(async () => {
    const builder = withMemoryLocks(Test.createTestingModule({ imports: [AppModule] }), { clock: new ManualClock() });
    app = (await builder.compile()).createNestApplication();
    Logger.overrideLogger(false);
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
    stock = app.get(Stock);
  });

  afterEach(() => app.close());

  const check = (route: string) =>
    survivesLostLock(
      async () => (await fetch(`${url}/goods/300/${route}`, { method: 'POST' })).text(),
      () => stock.left === 0,
      { setup: () => void (stock.left = 1) },
    );

  it('names the awaits of a handler and of what it calls', async () => {
    const error: unknown = await check('unsafe').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LostLockFailure);
    const { awaits } = error as LostLockFailure;
    expect(awaits.map(({ method }) => method)).toContain('Goods.unsafe');
    expect(awaits.every(({ resources }) => resources.join() === 'goods:300')).toBe(true);
  });

  it.each(['checked', 'fenced'])('passes for a handler that is %s', async (route) => {
    const { awaits } = await check(route);
    // One of them is in the handler, one in what it calls.
    expect(awaits.length).toBeGreaterThanOrEqual(2);
  });
});
