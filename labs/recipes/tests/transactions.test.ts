// Runs the lines of docs/transactions.md, as the page has them, beside real drivers. No MongoDB is at hand: Mongoose
// gets a session that reaches no server.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runInNewContext } from 'node:vm';
import { MikroORM } from '@mikro-orm/postgresql';
import { Logger } from '@nestjs/common';
import { createNamespace } from 'cls-hooked';
import { drizzle } from 'drizzle-orm/node-postgres';
import { createConnection } from 'mongoose';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { Pool } from 'pg';
import { Sequelize } from 'sequelize';
import { goodsSchema } from './mikro-orm-stock.js';
import { home } from './support.js';

const PAGE = readFileSync(join(home, '../../docs/transactions.md'), 'utf8');
const url = process.env['DATABASE_URL'] as string;

/** Remembers transactions, as the page does for drivers that return nothing of them. */
const open = new AsyncLocalStorage<boolean>();
const namespace = createNamespace('transactions');
Sequelize.useCLS(namespace);

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

/** Returns the code in the last cell of the row of a library, as a function of the names in it. */
function lineOf(library: string): (names: Readonly<Record<string, unknown>>) => () => boolean {
  const row = PAGE.split('\n').find((line) => line.startsWith(`| ${library} `) && line.includes('`() => ')) ?? '';
  const code = /`(\(\) => [^`]*)` *\|$/.exec(row)?.[1];
  assert.ok(code, `docs/transactions.md has no line for ${library}`);
  return (names) => runInNewContext(code, names) as () => boolean;
}

function start(inTransaction: () => boolean) {
  const warnings: string[] = [];
  Logger.overrideLogger({ log: () => undefined, error: () => undefined, warn: (line: string) => warnings.push(line) });
  return { locks: createTestLocks({ inTransaction }), warnings };
}

type Work = () => Promise<unknown>;

/** How each library of the page opens a transaction. */
const LIBRARIES: Readonly<Record<string, (work: Work) => Promise<unknown>>> = {
  Sequelize: (work) => sequelize.transaction(work),
  MikroORM: (work) => orm.em.fork().transactional(work),
  Drizzle: (work) => open.run(true, () => db.transaction(work)),
  Mongoose: (work) => open.run(true, () => connection.transaction(work)),
};

for (const [library, transaction] of Object.entries(LIBRARIES)) {
  describe(library, () => {
    const inTransaction = (): boolean => lineOf(library)({ namespace, orm, open })();

    it('logs a lock that ends in a transaction', async () => {
      const { locks, warnings } = start(inTransaction);
      await transaction(() => locks.using('goods:300', () => undefined));
      assert.equal(warnings.length, 1);
      assert.match(warnings[0], /^The lock on goods:300 ends in a transaction, at transactions\.test\.[jt]s:/);
    });

    it('logs nothing for a lock around the transaction, after it, and in a scope around it', async () => {
      const { locks, warnings } = start(inTransaction);
      const touch = (): Promise<void> => locks.using('goods:300', () => undefined);
      await locks.using('goods:300', () => transaction(() => Promise.resolve()));
      await touch();
      await locks.scope(() => transaction(touch));
      assert.deepEqual(warnings, []);
      assert.equal(await locks.inspect('goods:300'), null);
    });

    it('keeps a lock in a scope until the transaction has ended', async () => {
      const { locks } = start(inTransaction);
      await locks.scope(async () => {
        await transaction(async () => {
          await locks.using('goods:300', () => undefined);
          assert.notEqual(await locks.inspect('goods:300'), null);
        });
        assert.notEqual(await locks.inspect('goods:300'), null);
      });
      assert.equal(await locks.inspect('goods:300'), null);
    });
  });
}

it('a transaction of Sequelize that the caller ends is not seen, as the page says', async () => {
  const { locks, warnings } = start(lineOf('Sequelize')({ namespace }));
  const transaction = await sequelize.transaction();
  await locks.using('goods:300', () => undefined);
  await transaction.commit();
  assert.deepEqual(warnings, []);
});

it('a transaction of MikroORM that begin() opens is not seen, as the page says', async () => {
  const { locks, warnings } = start(lineOf('MikroORM')({ orm }));
  const em = orm.em.fork();
  await em.begin();
  await locks.using('goods:300', () => undefined);
  await em.commit();
  assert.deepEqual(warnings, []);
});
