import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { RedisLockModule } from 'nestjs-redis-lock';
import { SqlFence } from 'nestjs-redis-lock/fence';
import { Pool } from 'pg';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';
import { AccountsController } from './fencing/postgres.js';

const { postgres } = SERVERS;

describe('the SQL example of the page on fencing', () => {
  let database: Database;
  let pool: Pool;
  let app: INestApplication;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    pool = new Pool({ connectionString: database.url });
    await pool.query(new SqlFence('postgres').statements.createTable);
    await pool.query('CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents BIGINT NOT NULL)');
    await pool.query('INSERT INTO accounts VALUES (1, 1000)');
    const module = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix() })],
      controllers: [AccountsController],
      providers: [{ provide: Pool, useValue: pool }],
    }).compile();
    app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
  });
  afterAll(async () => {
    await app?.close();
    await pool?.end();
    await database?.stop();
  });

  const addInterest = async () => {
    const response = await fetch(`${await app.getUrl()}/accounts/1/interest`, { method: 'POST' });
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      body: await response.json(),
    };
  };
  const cents = async () => (await pool.query<{ cents: string }>('SELECT cents FROM accounts')).rows[0].cents;

  it(
    'works and refuses a late holder',
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
      pool.query = overtaken as unknown as typeof pool.query;
      const body = { statusCode: 409, code: 'LOCK_STALE', message: 'Conflict', error: 'Conflict' };
      expect(await addInterest()).toEqual({ status: 409, retryAfter: '1', body });
      pool.query = query as unknown as typeof pool.query;
      expect(await cents()).toBe('1010');
    }),
  );
});
