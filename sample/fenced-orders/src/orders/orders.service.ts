import { Injectable, type OnModuleInit } from '@nestjs/common';
import { LockService, resource } from 'nestjs-redis-lock';
import { SqlFence } from 'nestjs-redis-lock/fence';
import { Database } from '../database.js';
import { type Line, OrdersRepository } from './orders.repository.js';
import { Prices } from './prices.js';

@Injectable()
export class OrdersService implements OnModuleInit {
  private readonly fence = new SqlFence('postgres', { table: 'order_fences' });

  constructor(
    private readonly database: Database,
    private readonly orders: OrdersRepository,
    private readonly prices: Prices,
    private readonly locks: LockService,
  ) {}

  /** Creates the tables. A real application does this in migrations. */
  async onModuleInit(): Promise<void> {
    await this.locks.using('schema', async () => {
      await this.orders.createTable();
      await this.database.run(this.fence.statements.createTable, []);
    });
  }

  find(id: number): Promise<readonly Line[]> {
    return this.orders.find(id);
  }

  /**
   * Reads, waits for the supplier, writes. If a newer holder has opened the fence in between, the write throws
   * `StaleFenceError` and the transaction is rolled back.
   */
  async addLine(id: number, article: string, fencingToken: number): Promise<readonly Line[]> {
    const order = resource`order:${id}`;
    await this.fence.open(this.database.run, order, fencingToken);
    const lines = await this.withLine(id, article);
    await this.database.transaction(async (run) => {
      await this.fence.write(run, order, fencingToken);
      await this.orders.save(run, id, lines);
    });
    return lines;
  }

  /** The same without the fence: it loses updates. */
  async addLineUnfenced(id: number, article: string): Promise<readonly Line[]> {
    const lines = await this.withLine(id, article);
    await this.orders.save(this.database.run, id, lines);
    return lines;
  }

  private async withLine(id: number, article: string): Promise<readonly Line[]> {
    const lines = await this.orders.find(id);
    return [...lines, { article, price: await this.prices.of(article) }];
  }
}
