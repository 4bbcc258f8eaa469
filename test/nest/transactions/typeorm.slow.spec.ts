// TypeORM and @nestjs-cls/transactional on a real PostgreSQL. Another instance sells while a commit is stopped.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import type { DataSource } from 'typeorm';
import type { LockService } from 'nestjs-redis-lock';
import { RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';
import { closeApps } from '../support/app.js';
import { sellDuring, sellOne } from './sell.js';
import { Shop, Stock } from './shop.js';
import { openDataSource, restock, soldIn, startTypeOrmApp, StoppedCommit } from './typeorm-app.js';

const { postgres } = SERVERS;

type Sell = (shop: Shop) => Promise<unknown>;

const WRONG: [string, Sell][] = [
  ['@Transactional above @Locked', (shop) => shop.transactionAbove(1)],
  ['a transaction that calls a locked service', (shop) => shop.outer(1)],
  ['REQUIRES_NEW in a transaction', (shop) => shop.inPropagation(Propagation.RequiresNew, 1)],
  ['NESTED in a transaction', (shop) => shop.inPropagation(Propagation.Nested, 1)],
];
const RIGHT: [string, Sell][] = [
  ['@Locked above @Transactional', (shop) => shop.lockedAbove(1)],
  ['a transaction inside using()', (shop) => shop.insideUsing(1)],
];

describe('a lock and a transaction of TypeORM', () => {
  let database: Database;
  let dataSource: DataSource;
  let instances: RedisLocks;
  let other: LockService;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    dataSource = await openDataSource(database.url);
  });
  beforeEach(async () => {
    instances = new RedisLocks();
    other = instances.start({ redis: testRedisUrl() });
    if (dataSource !== undefined) await restock(dataSource);
  });
  afterEach(async () => {
    await closeApps();
    await instances.close();
  });
  afterAll(async () => {
    await dataSource?.destroy();
    await database?.stop();
  });

  /** Sells by the application, and by another instance before the application's first commit. */
  async function sellTwo(scoped: boolean, sell: Sell): Promise<{ other: string; sold: number }> {
    const app = await startTypeOrmApp({ dataSource, scoped, prefix: instances.prefix, providers: [Stock, Shop] });
    const commit = new StoppedCommit(dataSource);
    const outcome = await sellDuring(
      { end: sell(app.nest.get(Shop)), due: () => commit.due(), resumeCommit: () => commit.resume() },
      {
        sell: (onRead) =>
          other.using('goods:1', { waitMs: 60_000 }, () =>
            dataSource.transaction((manager) => sellOne((sql, params) => manager.query(sql, params), 1, onRead)),
          ),
        isWaiting: async () => ((await other.inspect('goods:1'))?.waiting.length ?? 0) > 0,
      },
    );
    return { other: outcome, sold: await soldIn(dataSource) };
  }
  const UPDATED = { other: 'waits', sold: 2 };
  const LOST = { other: 'has read', sold: 1 };

  it.each(WRONG)('loses an update without the scope: %s', (_, sell) =>
    onServer(postgres, async () => expect(await sellTwo(false, sell)).toEqual(LOST))(),
  );

  it.each(WRONG)('loses no update with the scope: %s', (_, sell) =>
    onServer(postgres, async () => expect(await sellTwo(true, sell)).toEqual(UPDATED))(),
  );

  it.each(RIGHT)('loses no update, scope or not: %s', (_, sell) =>
    onServer(postgres, async () => {
      expect(await sellTwo(false, sell)).toEqual(UPDATED);
      await closeApps();
      await restock(dataSource);
      expect(await sellTwo(true, sell)).toEqual(UPDATED);
    })(),
  );

  it(
    'loses an update in dataSource.transaction without a scope',
    onServer(postgres, async () => expect(await sellTwo(false, (shop) => shop.inDataSource(1))).toEqual(LOST)),
  );

  it(
    'loses no update in dataSource.transaction with a scope around it',
    onServer(postgres, async () => expect(await sellTwo(false, (shop) => shop.inScope(1))).toEqual(UPDATED)),
  );
});
