// Sequelize on a real PostgreSQL: `sequelize.transaction` in a lock scope. Another instance sells before the commit.
import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { QueryTypes, Sequelize, type Transaction } from 'sequelize';
import { Locked, LockService } from 'nestjs-redis-lock';
import { type Deferred, deferred } from '../../support/async.js';
import { RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';
import { closeApps, startApp } from '../support/app.js';
import { type Query, sellDuring, sellOne } from './sell.js';

const { postgres } = SERVERS;

/** Where a transaction waits for the test when all its work is done. */
class BeforeCommit {
  readonly reached = deferred();
  readonly resumed: Deferred<void> = deferred();

  stop(): Promise<void> {
    this.reached.resolve();
    return this.resumed.promise;
  }
}

@Injectable()
class Shop {
  constructor(
    private readonly sequelize: Sequelize,
    private readonly locks: LockService,
    private readonly before: BeforeCommit,
  ) {}

  @Locked('goods:<id>')
  async sell(id: number, transaction: Transaction): Promise<void> {
    await sellOne(queryOf(this.sequelize, transaction), id);
  }

  async inTransaction(id: number): Promise<void> {
    await this.sequelize.transaction(async (transaction) => {
      await this.sell(id, transaction);
      await this.before.stop();
    });
  }

  async inScope(id: number): Promise<void> {
    await this.locks.scope(() => this.inTransaction(id));
  }
}

function queryOf(sequelize: Sequelize, transaction: Transaction): Query {
  return async (sql, bind) => {
    if (!sql.startsWith('SELECT')) return sequelize.query(sql, { bind, transaction });
    return sequelize.query(sql, { bind, transaction, type: QueryTypes.SELECT });
  };
}

describe('a lock and a transaction of Sequelize', () => {
  let database: Database;
  let sequelize: Sequelize;
  let instances: RedisLocks;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    sequelize = new Sequelize(database.url, { logging: false });
    await sequelize.query('CREATE TABLE goods (id INTEGER PRIMARY KEY, sold INTEGER NOT NULL)');
  });
  beforeEach(() => {
    instances = new RedisLocks();
  });
  afterEach(async () => {
    await closeApps();
    await instances.close();
  });
  afterAll(async () => {
    await sequelize?.close();
    await database?.stop();
  });

  /** Sells by the application, and by another instance before the application commits. */
  async function sellTwo(sell: (shop: Shop) => Promise<void>): Promise<{ other: string; sold: number }> {
    await sequelize.query('DELETE FROM goods');
    await sequelize.query('INSERT INTO goods VALUES (1, 0)');
    const other = instances.start({ redis: testRedisUrl() });
    const providers = [{ provide: Sequelize, useValue: sequelize }, BeforeCommit, Shop];
    const app = await startApp({ providers, prefix: instances.prefix });
    const { reached, resumed } = app.nest.get(BeforeCommit);
    const sale = {
      end: sell(app.nest.get(Shop)),
      due: () => reached.promise,
      resumeCommit: () => resumed.resolve(),
    };
    const outcome = await sellDuring(sale, {
      sell: (onRead) =>
        other.using('goods:1', { waitMs: 60_000 }, () =>
          sequelize.transaction((transaction) => sellOne(queryOf(sequelize, transaction), 1, onRead)),
        ),
      isWaiting: async () => ((await other.inspect('goods:1'))?.waiting.length ?? 0) > 0,
    });
    const [{ sold }] = await sequelize.query<{ sold: number }>('SELECT sold FROM goods', { type: QueryTypes.SELECT });
    return { other: outcome, sold };
  }

  it(
    'loses an update in sequelize.transaction without a scope',
    onServer(postgres, async () => {
      expect(await sellTwo((shop) => shop.inTransaction(1))).toEqual({ other: 'has read', sold: 1 });
    }),
  );

  it(
    'loses no update in sequelize.transaction with a scope around it',
    onServer(postgres, async () => {
      expect(await sellTwo((shop) => shop.inScope(1))).toEqual({ other: 'waits', sold: 2 });
    }),
  );
});
