// Runs the code of the pages that needs PostgreSQL.
import type { INestApplication } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { SqlFence } from 'nestjs-redis-lock/fence';
import { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';
import { load } from './blocks.js';

const { postgres } = SERVERS;

let database: Database;
let pool: Pool;

beforeAll(async () => {
  if (postgres.missing !== undefined) return;
  database = await postgres.start();
  pool = new Pool({ connectionString: database.url });
  await pool.query(new SqlFence('postgres').statements.createTable);
  await pool.query('CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents BIGINT NOT NULL)');
  await pool.query('INSERT INTO accounts VALUES (1, 1000)');
});
afterAll(async () => {
  await pool?.end();
  await database?.stop();
});

describe('the page on fencing', () => {
  let app: INestApplication;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    const { AccountsController } = load('docs/fencing.md', 'AccountsController');
    const module = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix() })],
      controllers: [AccountsController],
      providers: [{ provide: Pool, useValue: pool }],
    }).compile();
    app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
  });
  afterAll(() => app?.close());

  const addInterest = async () => {
    const response = await fetch(`${await app.getUrl()}/accounts/1/interest`, { method: 'POST' });
    return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.json() };
  };
  const cents = async () => (await pool.query<{ cents: string }>('SELECT cents FROM accounts')).rows[0].cents;

  it(
    'refuses a late holder',
    onServer(postgres, async () => {
      expect(await addInterest()).toMatchObject({ status: 201, body: 1010 });
      expect(await cents()).toBe('1010');

      // A later holder opens the fence right after the read.
      const query = pool.query.bind(pool) as (sql: string, params?: unknown[]) => Promise<unknown>;
      const overtaken = async (sql: string, params?: unknown[]): Promise<unknown> => {
        const rows = await query(sql, params);
        if (sql.startsWith('SELECT')) await query('UPDATE fences SET token = token + 1000000');
        return rows;
      };
      Object.assign(pool, { query: overtaken });
      const body = { statusCode: 409, code: 'LOCK_STALE', message: 'Conflict', error: 'Conflict' };
      expect(await addInterest()).toEqual({ status: 409, retryAfter: '1', body });
      Object.assign(pool, { query });
      expect(await cents()).toBe('1010');
    }),
  );
});

describe('the page on transactions', () => {
  let module: TestingModule;

  it(
    'loses no update',
    onServer(postgres, async () => {
      process.env['DATABASE_URL'] = database.url;
      process.env['REDIS_URL'] = testRedisUrl();
      const { Goods, OrderService, ShopModule, StockService } = load('docs/transactions.md', 'ShopModule', 'Goods');
      module = await Test.createTestingModule({ imports: [ShopModule] }).compile();
      await module.init();
      const dataSource = module.get(DataSource, { strict: false });
      await dataSource.synchronize();
      const goods = dataSource.getRepository<{ id: number; left: number }>(Goods);
      await goods.save([
        { id: 1, left: 100 },
        { id: 2, left: 100 },
      ]);
      const locks = module.get(LockService, { strict: false });
      const orders = module.get(OrderService, { strict: false });
      const stock = module.get(StockService, { strict: false });
      // Fewer than the 10 connections of the pool. Some wait for a lock with a connection, some for a connection.
      const calls = Array.from({ length: 2 }, () => [orders.order([1, 2]), stock.sell(1), stock.restock(2, 3)]);
      await Promise.all(calls.flat());
      expect(await goods.find({ order: { id: 'ASC' } })).toEqual([
        { id: 1, left: 100 - 2 - 2 },
        { id: 2, left: 100 - 2 + 6 },
      ]);
      expect(await locks.inspect('goods:1')).toBeNull();
    }),
  );
  afterAll(async () => {
    const dataSource = module?.get(DataSource, { strict: false });
    await module?.close();
    await dataSource?.destroy();
  });
});
