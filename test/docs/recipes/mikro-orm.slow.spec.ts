import { MikroORM } from '@mikro-orm/postgresql';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';
import { Goods, goodsSchema, StockService } from './mikro-orm.js';

const { postgres } = SERVERS;
let database: Database;
let orm: MikroORM;

beforeAll(async () => {
  if (postgres.missing !== undefined) return;
  database = await postgres.start();
  orm = await MikroORM.init({ clientUrl: database.url, entities: [goodsSchema] });
  await orm.em.getConnection().execute('CREATE TABLE goods (id INTEGER PRIMARY KEY, "left" INTEGER NOT NULL)');
  await orm.em.getConnection().execute('INSERT INTO goods VALUES (1, 10), (2, 10)');
}, 120_000);
afterAll(async () => {
  await orm?.close();
  await database?.stop();
});

it(
  'the recipe for MikroORM loses no update',
  onServer(postgres, async () => {
    const locks = createTestLocks();
    const stock = new StockService(orm, locks);
    // Fewer than the connections of the pool: callers of move() wait for their lock with a connection.
    await Promise.all(Array.from({ length: 3 }, () => [stock.sell(1), stock.move(1, 2)]).flat());
    const goods = await orm.em.fork().find(Goods, {}, { orderBy: { id: 'asc' } });
    expect(goods.map(({ left }) => left)).toEqual([10 - 3 - 3, 10 + 3]);
    expect(await locks.inspect('goods:1')).toBeNull();
  }),
);
