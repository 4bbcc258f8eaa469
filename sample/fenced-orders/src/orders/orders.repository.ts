import { Injectable } from '@nestjs/common';
import { Database, type Run } from '../database.js';

export interface Line {
  readonly article: string;
  readonly price: number;
}

/** An order is one document: saving it writes all of its lines. Without a lock, the last write wins. */
@Injectable()
export class OrdersRepository {
  constructor(private readonly database: Database) {}

  async createTable(): Promise<void> {
    await this.database.run('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, lines JSONB NOT NULL)', []);
  }

  async find(id: number): Promise<readonly Line[]> {
    const [order] = (await this.database.run('SELECT lines FROM orders WHERE id = $1', [id])) as { lines: Line[] }[];
    return order?.lines ?? [];
  }

  async save(run: Run, id: number, lines: readonly Line[]): Promise<void> {
    const sql = 'INSERT INTO orders (id, lines) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET lines = excluded.lines';
    await run(sql, [id, JSON.stringify(lines)]);
  }
}
