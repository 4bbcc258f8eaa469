import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { LockService } from 'nestjs-redis-lock';
import { testRedisUrl } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';
import { Goods, StockService } from './transactions/right-order.js';
import { TransferService } from './transactions/scope.js';

const { postgres } = SERVERS;

describe('the examples of the page on transactions', () => {
  let database: Database;
  let module: TestingModule;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    process.env['DATABASE_URL'] = database.url;
    process.env['REDIS_URL'] = testRedisUrl();
    const { ShopModule } = await import('./transactions/adapter.js');
    module = await Test.createTestingModule({ imports: [ShopModule] }).compile();
    await module.init();
    await module.get(DataSource, { strict: false }).synchronize();
  });
  afterAll(async () => {
    const dataSource = module?.get(DataSource, { strict: false });
    await module?.close();
    await dataSource?.destroy();
    await database?.stop();
  });

  it(
    'lose no update',
    onServer(postgres, async () => {
      const { OrderService } = await import('./transactions/adapter.js');
      const dataSource = module.get(DataSource, { strict: false });
      const goods = dataSource.getRepository(Goods);
      await goods.save([
        { id: 1, left: 100 },
        { id: 2, left: 100 },
      ]);
      const locks = module.get(LockService, { strict: false });
      const orders = module.get(OrderService, { strict: false });
      const stock = module.get(StockService, { strict: false });
      const transfers = new TransferService(dataSource, locks);
      // Fewer than the 10 connections of the pool. Some wait for a lock with a connection, some for a connection.
      const calls = Array.from({ length: 2 }, () => [
        orders.order([1, 2]),
        stock.sell(1),
        stock.restock(2, 3),
        transfers.move(1, 2),
      ]);
      await Promise.all(calls.flat());
      expect(await goods.find({ order: { id: 'ASC' } })).toEqual([
        { id: 1, left: 100 - 2 - 2 - 2 },
        { id: 2, left: 100 - 2 + 6 + 2 },
      ]);
      expect(await locks.inspect('goods:1')).toBeNull();
    }),
  );
});
