import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  type INestApplication,
  Injectable,
  Logger,
  Module,
  Param,
  ParseIntPipe,
  Post,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked, lockOrder, LockScope, memory, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { resetLockOrder, withMemoryLocks } from 'nestjs-redis-lock/testing';

@Injectable()
class Stock {
  @Locked('goods:<id>')
  async take(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Orders {
  @Locked('order:<id>')
  async close(id: number): Promise<number> {
    return id;
  }
}

@Controller()
class Shop {
  constructor(
    private readonly stock: Stock,
    private readonly orders: Orders,
  ) {}

  @Post('buy/:id')
  @Locked('goods:<id>')
  async buy(@Param('id', ParseIntPipe) id: number): Promise<number> {
    return this.orders.close(id);
  }

  @Post('refund/:id')
  @Locked('order:<id>')
  async refund(@Param('id', ParseIntPipe) id: number): Promise<number> {
    return this.stock.take(id);
  }

  @Post('move/:id')
  @LockScope()
  async move(@Param('id', ParseIntPipe) id: number): Promise<number> {
    await this.orders.close(id);
    return this.stock.take(id);
  }
}

describe('the order of locks in an application', () => {
  let app: INestApplication | undefined;
  let lines: string[];

  beforeEach(() => {
    resetLockOrder();
    lines = [];
  });

  afterEach(async () => {
    await app?.close();
    app = undefined;
    Logger.overrideLogger(undefined as never);
  });

  const moduleOf = (options: RedisLockModuleOptions) => {
    @Module({ imports: [RedisLockModule.forRoot(options)], controllers: [Shop], providers: [Stock, Orders] })
    class AppModule {}
    return Test.createTestingModule({ imports: [AppModule] });
  };

  async function start(builder: ReturnType<typeof moduleOf>): Promise<(path: string) => Promise<Response>> {
    const module = await builder.compile();
    const started = module.createNestApplication();
    // Nest's testing module has a logger of its own until then.
    const add = (line: string): void => void lines.push(line);
    Logger.overrideLogger({ warn: add, error: add, log: () => undefined });
    app = started;
    await started.listen(0, '127.0.0.1');
    const url = await started.getUrl();
    return (path) => fetch(`${url}/${path}`, { method: 'POST' });
  }

  it('fails the second handler of a test, and says why in the log', async () => {
    const post = await start(withMemoryLocks(moduleOf({})));
    expect((await post('buy/1')).status).toBe(201);
    const refused = await post('refund/2');
    expect([refused.status, await refused.json()]).toEqual([500, expect.objectContaining({ code: 'LOCK_ORDER' })]);
    expect(lines.join()).toContain(
      'goods → order in Shop.buy, by Orders.close, order → goods in Shop.refund, by Stock.take',
    );
  });

  it('is found in a handler with a lock scope', async () => {
    const post = await start(withMemoryLocks(moduleOf({})));
    expect((await post('buy/1')).status).toBe(201);
    expect((await post('move/2')).status).toBe(500);
    expect(lines.join()).toContain('order → goods in Orders.close, by Stock.take');
  });

  it('is a warning in production, once', async () => {
    const post = await start(moduleOf({ store: memory() }));
    for (const path of ['buy/1', 'refund/2', 'buy/3', 'refund/4']) expect((await post(path)).status).toBe(201);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('Locks are taken in two orders: goods → order in Shop.buy');
    expect(lockOrder().cycles).toHaveLength(1);
  });

  it('is not looked at if the test or the application says so', async () => {
    const post = await start(withMemoryLocks(moduleOf({}), { lockOrder: 'off' }));
    for (const path of ['buy/1', 'refund/2']) expect((await post(path)).status).toBe(201);
    await app?.close();
    const other = await start(withMemoryLocks(moduleOf({ checks: { lockOrder: 'off' } })));
    for (const path of ['buy/1', 'refund/2']) expect((await other(path)).status).toBe(201);
    expect(lockOrder().edges).toEqual([]);
  });

  it('has no step of a handler that holds one lock', async () => {
    const post = await start(withMemoryLocks(moduleOf({})));
    await Promise.all([post('buy/1'), post('buy/2')]);
    expect(lockOrder().edges.map(({ held, taken }) => [held.family, taken.family])).toEqual([['goods', 'order']]);
  });
});
