// Runs the scopes of docs/transactions.md around the transactions of real drivers. No MongoDB is at hand: Mongoose gets
// a session that reaches no server.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { MikroORM } from '@mikro-orm/postgresql';
import { drizzle } from 'drizzle-orm/node-postgres';
import { createConnection } from 'mongoose';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { Pool } from 'pg';
import { Sequelize } from 'sequelize';
import { goodsSchema } from './mikro-orm-stock.js';

const url = process.env['DATABASE_URL'] as string;

let sequelize: Sequelize;
let orm: MikroORM;
const pool = new Pool({ connectionString: url });
const db = drizzle(pool);
const connection = createConnection();
const session = {
  withTransaction: (work: () => Promise<unknown>) => work(),
  endSession: () => Promise.resolve(),
};
Object.assign(connection, { startSession: () => Promise.resolve(session) });

before(async () => {
  sequelize = new Sequelize(url, { logging: false });
  orm = await MikroORM.init({ clientUrl: url, entities: [goodsSchema] });
});
after(async () => {
  await sequelize?.close();
  await orm?.close();
  await pool.end();
  await connection.close();
});

type Work = () => Promise<unknown>;

/** How each library opens a transaction. */
const LIBRARIES: Readonly<Record<string, (work: Work) => Promise<unknown>>> = {
  Sequelize: (work) => sequelize.transaction(work),
  MikroORM: (work) => orm.em.fork().transactional(work),
  Drizzle: (work) => db.transaction(work),
  Mongoose: (work) => connection.transaction(work),
};

for (const [library, transaction] of Object.entries(LIBRARIES)) {
  it(`a scope keeps a lock until the transaction of ${library} has ended`, async () => {
    const locks = createTestLocks();
    await locks.scope(async () => {
      await transaction(async () => {
        await locks.using('goods:300', () => undefined);
        assert.notEqual(await locks.inspect('goods:300'), null);
      });
      assert.notEqual(await locks.inspect('goods:300'), null);
    });
    assert.equal(await locks.inspect('goods:300'), null);
  });
}
