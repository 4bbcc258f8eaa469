import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';
import type { SqlRun } from 'nestjs-redis-lock/fence';
import { settings } from './settings.js';

/** Runs one statement and answers its rows; what the fence wants of a database, too. */
export type Run = SqlRun<Promise<unknown[]>>;

@Injectable()
export class Database implements OnApplicationShutdown {
  private readonly pool = new Pool({ connectionString: settings.databaseUrl });

  /** In a transaction of its own. */
  readonly run: Run = async (sql, params) => (await this.pool.query(sql, params)).rows as unknown[];

  /** All of it or, if it throws, nothing. */
  async transaction<T>(work: (run: Run) => Promise<T>): Promise<T> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      const result = await work(async (sql, params) => (await client.query(sql, params)).rows as unknown[]);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    } finally {
      client.release();
    }
  }

  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
