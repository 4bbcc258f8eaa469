import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { MikroORM } from '@mikro-orm/postgresql';
import type { LockService } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { Goods, goodsSchema, StockService } from './mikro-orm-stock.js';
import { times } from './support.js';

let orm: MikroORM;

before(async () => {
  orm = await MikroORM.init({ clientUrl: process.env['DATABASE_URL'], entities: [goodsSchema] });
  const connection = orm.em.getConnection();
  await connection.execute('DROP TABLE IF EXISTS goods');
  await connection.execute('CREATE TABLE goods (id INTEGER PRIMARY KEY, "left" INTEGER NOT NULL)');
  await connection.execute('INSERT INTO goods VALUES (1, 100), (2, 100)');
});
after(() => orm?.close());

/** A lock inside of the transaction is kept until the commit by the scope around it. */
function move(locks: LockService, from: number, to: number): Promise<void> {
  return locks.scope((scope) =>
    orm.em.fork().transactional(async (em) => {
      await locks.using([`goods:${from}`, `goods:${to}`], async () => {
        const [source, target] = [await em.findOneOrFail(Goods, from), await em.findOneOrFail(Goods, to)];
        source.left -= 1;
        target.left += 1;
      });
      await em.flush();
      scope.assertHeld();
    }),
  );
}

it('loses no update, whether the lock or the transaction comes first', async () => {
  const locks = createTestLocks({ waitMs: 60_000 });
  const stock = new StockService(orm, locks);
  // Fewer at a time than the connections of the pool: callers of move() wait for their lock with a connection.
  for (let round = 0; round < 5; round += 1) {
    await Promise.all([times(3, () => stock.sell(1)), times(3, () => move(locks, 1, 2))]);
  }
  const goods = await orm.em.fork().find(Goods, {}, { orderBy: { id: 'asc' } });
  assert.deepEqual(
    goods.map(({ left }) => left),
    [100 - 15 - 15, 100 + 15],
  );
  assert.equal(await locks.inspect('goods:1'), null);
});

it('reads old values of an entity that was loaded before the grant, unless it is refreshed', async () => {
  const em = orm.em.fork();
  const { left } = await em.findOneOrFail(Goods, 2);
  await move(createTestLocks({ waitMs: 60_000 }), 1, 2);
  await em.transactional(async (inside) => {
    assert.equal((await inside.findOneOrFail(Goods, 2)).left, left);
    assert.equal((await inside.findOneOrFail(Goods, 2, { refresh: true })).left, left + 1);
  });
});
