// TypeORM and Sequelize on a real PostgreSQL. Another instance sells while a commit is stopped: a lock that ends before
// the commit lets it read the old number of goods, so that an update is lost.
import { Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { QueryTypes, Sequelize, type Transaction } from 'sequelize';
import { DataSource, type EntityManager, type EntitySubscriberInterface } from 'typeorm';
import { Locked, LockService, resource } from 'nestjs-redis-lock';
import { withLockScope } from 'nestjs-redis-lock/transactional';
import { deferred, eventually } from '../support/async.js';
import { RedisLocks } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';
import { closeApps, startApp } from './support/app.js';

const { postgres } = SERVERS;
const WAIT = { waitMs: 60_000 };

/** Runs a statement with parameters in a transaction. Returns its rows. */
type Query = (sql: string, params: number[]) => Promise<unknown>;

/** Reads how many goods are sold and writes one more. Needs a lock, or it overwrites what another caller wrote. */
async function sellOne(query: Query, id: number, onRead?: () => void): Promise<void> {
  const [{ sold }] = (await query('SELECT sold FROM goods WHERE id = $1', [id])) as [{ sold: number }];
  onRead?.();
  await query('UPDATE goods SET sold = $2 WHERE id = $1', [id, sold + 1]);
}

/** Stops a transaction before its commit until the test resumes it. */
class StoppedCommit {
  private readonly reached = deferred();
  private readonly resumed = deferred();

  /** Called when all work of the transaction is done. */
  async stop(): Promise<void> {
    this.reached.resolve();
    await this.resumed.promise;
  }

  due(): Promise<void> {
    return this.reached.promise;
  }

  resume(): void {
    this.resumed.resolve();
  }
}

let database: Database;
let instances: RedisLocks;
let other: LockService;

beforeAll(async () => {
  if (postgres.missing === undefined) database = await postgres.start();
});
beforeEach(() => {
  instances = new RedisLocks();
  other = instances.start({ redis: testRedisUrl() });
});
afterEach(async () => {
  await closeApps();
  await instances.close();
});
afterAll(() => database?.stop());

/**
 * Lets another instance sell while the commit of a sale is stopped. Resumes the commit once the other one has read the
 * rows, or waits for the lock. Returns which of the two it was.
 */
async function sellDuring(
  sale: Promise<unknown>,
  commit: StoppedCommit,
  inTransaction: (onRead: () => void) => Promise<unknown>,
): Promise<'has read' | 'waits'> {
  await Promise.race([commit.due(), sale.then(() => Promise.reject(new Error('it has committed before')))]);
  let outcome: 'has read' | 'waits' | undefined;
  const end = other.using('goods:1', WAIT, () => inTransaction(() => (outcome ??= 'has read')));
  await eventually('the other instance reads or waits', async () => {
    if (outcome === undefined && ((await other.inspect('goods:1'))?.waiting.length ?? 0) > 0) outcome = 'waits';
    return outcome !== undefined;
  });
  commit.resume();
  await Promise.all([sale, end]);
  return outcome as 'has read' | 'waits';
}

const UPDATED = { other: 'waits', sold: 2 };
const LOST = { other: 'has read', sold: 1 };

describe('a lock and a transaction of TypeORM', () => {
  @Injectable()
  class Stock {
    constructor(private readonly host: TransactionHost<TransactionalAdapterTypeOrm>) {}

    @Locked('goods:<id>', WAIT)
    async sell(id: number): Promise<void> {
      await this.sellUnlocked(id);
    }

    @Locked('goods:<id>', WAIT)
    async sellBy(id: number, manager: EntityManager): Promise<void> {
      await this.sellUnlocked(id, manager);
    }

    sellUnlocked(id: number, manager: EntityManager = this.host.tx): Promise<void> {
      return sellOne((sql, params) => manager.query(sql, params), id);
    }
  }

  /** The orders in which a lock and a transaction can begin and end. */
  @Injectable()
  class Shop {
    constructor(
      private readonly stock: Stock,
      private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
      private readonly dataSource: DataSource,
      private readonly locks: LockService,
    ) {}

    @Locked('goods:<id>', WAIT)
    @Transactional()
    async lockedAbove(id: number): Promise<void> {
      await this.stock.sellUnlocked(id);
    }

    @Transactional()
    @Locked('goods:<id>', WAIT)
    async transactionAbove(id: number): Promise<void> {
      await this.stock.sellUnlocked(id);
    }

    @Transactional()
    async outer(id: number): Promise<void> {
      await this.stock.sell(id);
    }

    async insideUsing(id: number): Promise<void> {
      const sell = () => this.host.withTransaction(() => this.stock.sellUnlocked(id));
      await this.locks.using(resource`goods:${id}`, WAIT, sell);
    }

    async inDataSource(id: number): Promise<void> {
      await this.dataSource.transaction((manager) => this.stock.sellBy(id, manager));
    }

    async inScope(id: number): Promise<void> {
      await this.locks.scope(() => this.inDataSource(id));
    }
  }

  let dataSource: DataSource;
  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    dataSource = new DataSource({ type: 'postgres', url: database.url });
    await dataSource.initialize();
    await dataSource.query('CREATE TABLE goods (id INTEGER PRIMARY KEY, sold INTEGER NOT NULL)');
  });
  afterAll(async () => {
    await dataSource?.query('DROP TABLE goods');
    await dataSource?.destroy();
  });

  /** Stops the next commit of the data source. */
  function stopCommit(): StoppedCommit {
    const commit = new StoppedCommit();
    const subscriber: EntitySubscriberInterface = {
      beforeTransactionCommit() {
        dataSource.subscribers.splice(dataSource.subscribers.indexOf(subscriber), 1);
        return commit.stop();
      },
    };
    dataSource.subscribers.push(subscriber);
    return commit;
  }

  /** Sells by an application, and by another instance before the application's first commit. */
  async function sellTwo(isScoped: boolean, sell: (shop: Shop) => Promise<unknown>): Promise<object> {
    await dataSource.query('DELETE FROM goods');
    await dataSource.query('INSERT INTO goods VALUES (1, 0)');
    @Module({ providers: [{ provide: DataSource, useValue: dataSource }], exports: [DataSource] })
    class DataModule {}
    const plain = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
    const adapter = isScoped ? withLockScope(plain) : plain;
    const plugins = [new ClsPluginTransactional({ imports: [DataModule], adapter })];
    const imports = [DataModule, ClsModule.forRoot({ plugins })];
    const app = await startApp({ imports, prefix: instances.prefix, providers: [Stock, Shop] });
    const commit = stopCommit();
    const outcome = await sellDuring(sell(app.nest.get(Shop)), commit, (onRead) =>
      dataSource.transaction((manager) => sellOne((sql, params) => manager.query(sql, params), 1, onRead)),
    );
    const [{ sold }] = await dataSource.query<[{ sold: number }]>('SELECT sold FROM goods WHERE id = 1');
    return { other: outcome, sold };
  }

  it.each<[order: string, sell: (shop: Shop) => Promise<unknown>, without: object, within: object]>([
    ['@Locked above @Transactional', (shop) => shop.lockedAbove(1), UPDATED, UPDATED],
    ['a transaction inside using()', (shop) => shop.insideUsing(1), UPDATED, UPDATED],
    ['@Transactional above @Locked', (shop) => shop.transactionAbove(1), LOST, UPDATED],
    ['a transaction that calls a locked service', (shop) => shop.outer(1), LOST, UPDATED],
    ['dataSource.transaction, which the adapter does not see', (shop) => shop.inDataSource(1), LOST, LOST],
    ['dataSource.transaction inside scope()', (shop) => shop.inScope(1), UPDATED, UPDATED],
  ])('update the goods in the right order, or with the scope: %s', (_order, sell, without, within) =>
    onServer(postgres, async () => {
      expect(await sellTwo(false, sell)).toEqual(without);
      await closeApps();
      expect(await sellTwo(true, sell)).toEqual(within);
    })(),
  );
});

describe('a lock and a transaction of Sequelize', () => {
  @Injectable()
  class Shop {
    constructor(
      private readonly sequelize: Sequelize,
      private readonly locks: LockService,
      private readonly commit: StoppedCommit,
    ) {}

    @Locked('goods:<id>')
    async sell(id: number, transaction: Transaction): Promise<void> {
      await sellOne(queryOf(this.sequelize, transaction), id);
    }

    async inTransaction(id: number): Promise<void> {
      await this.sequelize.transaction(async (transaction) => {
        await this.sell(id, transaction);
        await this.commit.stop();
      });
    }

    async inScope(id: number): Promise<void> {
      await this.locks.scope(() => this.inTransaction(id));
    }
  }

  function queryOf(from: Sequelize, transaction: Transaction): Query {
    return async (sql, bind) => {
      if (!sql.startsWith('SELECT')) return from.query(sql, { bind, transaction });
      return from.query(sql, { bind, transaction, type: QueryTypes.SELECT });
    };
  }

  let sequelize: Sequelize;
  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    sequelize = new Sequelize(database.url, { logging: false });
    await sequelize.query('CREATE TABLE goods (id INTEGER PRIMARY KEY, sold INTEGER NOT NULL)');
  });
  afterAll(() => sequelize?.close());

  it.each<[where: string, sell: (shop: Shop) => Promise<void>, expected: object]>([
    ['lose an update in sequelize.transaction', (shop) => shop.inTransaction(1), LOST],
    ['lose none if a scope is around it', (shop) => shop.inScope(1), UPDATED],
  ])('%s', (_where, sell, expected) =>
    onServer(postgres, async () => {
      await sequelize.query('DELETE FROM goods');
      await sequelize.query('INSERT INTO goods VALUES (1, 0)');
      const providers = [{ provide: Sequelize, useValue: sequelize }, StoppedCommit, Shop];
      const app = await startApp({ providers, prefix: instances.prefix });
      const outcome = await sellDuring(sell(app.nest.get(Shop)), app.nest.get(StoppedCommit), (onRead) =>
        sequelize.transaction((transaction) => sellOne(queryOf(sequelize, transaction), 1, onRead)),
      );
      const [{ sold }] = await sequelize.query<{ sold: number }>('SELECT sold FROM goods', { type: QueryTypes.SELECT });
      expect({ other: outcome, sold }).toEqual(expected);
    })(),
  );
});
