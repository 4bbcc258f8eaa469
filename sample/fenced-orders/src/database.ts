import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';
import type { SqlRun } from 'nestjs-redis-lock/fence';
import { settings } from './settings.js';

/** Runs one statement and returns its rows. The fence needs the same of a database. */
export type Run = SqlRun<Promise<unknown[]>>;

@Injectable()
export class Database implements OnApplicationShutdown {
  private readonly pool = new Pool({ connectionString: settings.databaseUrl });

  /** Runs each statement in its own transaction. */
  readonly run: Run = async (sql, params) => (await this.pool.query(sql, params)).rows as unknown[];

  /** Runs `work` in a transaction, which is rolled back if it throws. */
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
