// 60 concurrent sales in each order of lock and transaction, on a real PostgreSQL. Prints the table of
// docs/transactions.md, and checks the page. With WRITE_FIGURES=1 it writes the table into the page, for `npm run
// format` to align.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { DataSource } from 'typeorm';
import { markdownTable } from '../../support/markdown-table.js';
import { root } from '../../support/pages.js';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';
import { closeApps, type TestApp } from '../support/app.js';
import { Shop, Stock } from './shop.js';
import { openDataSource, restock, soldIn, startTypeOrmApp, StoppedCommit } from './typeorm-app.js';

const { postgres } = SERVERS;
const PAGE = join(root, 'docs/transactions.md');
const CALLS = 60;

interface Order {
  /** As the page names it. */
  readonly name: string;
  readonly sell: (shop: Shop, scoped: boolean) => Promise<unknown>;
  /** Whether the lock ends before the transaction if there is no scope. */
  readonly isWrong: boolean;
}

const ORDERS: readonly Order[] = [
  { name: '`@Locked` above `@Transactional`', sell: (shop) => shop.lockedAbove(1), isWrong: false },
  { name: 'a transaction inside `using`', sell: (shop) => shop.insideUsing(1), isWrong: false },
  { name: '`@Transactional` above `@Locked`', sell: (shop) => shop.transactionAbove(1), isWrong: true },
  { name: 'an outer `@Transactional` that calls a locked service', sell: (shop) => shop.outer(1), isWrong: true },
  {
    name: '`dataSource.transaction` that calls a locked service',
    sell: (shop, scoped) => (scoped ? shop.inScope(1) : shop.inDataSource(1)),
    isWrong: true,
  },
];

describe('60 concurrent sales', () => {
  let database: Database;
  let dataSource: DataSource;
  const figures: string[][] = [];

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    dataSource = await openDataSource(database.url);
  });
  afterEach(closeApps);
  afterAll(async () => {
    await dataSource?.destroy();
    await database?.stop();
  });

  /** Stops the first commit until another caller has the lock and has read, if the lock was released before it. */
  async function untilNextHasRead(app: TestApp, commit: StoppedCommit): Promise<void> {
    await commit.due();
    if (app.log.count('released goods:1') > 0) await app.log.until('read', 2);
    commit.resume();
  }

  async function sellAll({ sell }: Order, scoped: boolean): Promise<number> {
    await restock(dataSource);
    const app = await startTypeOrmApp({ dataSource, scoped, providers: [Stock, Shop] });
    const shop = app.nest.get(Shop);
    app.nest.get(Stock).onRead = () => app.log.add('read');
    const stopped = untilNextHasRead(app, new StoppedCommit(dataSource));
    await Promise.all(Array.from({ length: CALLS }, () => sell(shop, scoped)));
    await stopped;
    await closeApps();
    return soldIn(dataSource);
  }

  it.each(ORDERS)('$name', (order) =>
    onServer(postgres, async () => {
      const [without, within] = [await sellAll(order, false), await sellAll(order, true)];
      figures.push([order.name, String(without), String(within)]);
      expect(within).toBe(CALLS);
      expect(without < CALLS).toBe(order.isWrong);
    })(),
  );

  it(
    'are the table of the page',
    onServer(postgres, async () => {
      const table = markdownTable(['order', 'sold without a scope', 'sold with a scope'], figures);
      process.stdout.write(`${table}\n`);
      const text = readFileSync(PAGE, 'utf8');
      const made = withTable(text, table);
      const isWritten = process.env['WRITE_FIGURES'] === '1';
      if (isWritten) writeFileSync(PAGE, made);
      expect(kindsIn(made)).toEqual(kindsIn(isWritten ? made : text));
    }),
  );
});

/** Returns the page with another table between its marks. */
function withTable(text: string, table: string): string {
  const made = text.replace(/(<!-- orders:start -->)[^]*(<!-- orders:end -->)/, `$1\n\n${table}\n\n$2`);
  if (made === text) throw new Error(`${PAGE} has no marks orders:start and orders:end`);
  return made;
}

/** Returns the rows of the page's table. Another run has other figures where sales are lost. */
function kindsIn(text: string): readonly string[][] {
  const section = /<!-- orders:start -->([^]*)<!-- orders:end -->/.exec(text)?.[1] ?? '';
  const kindOf = (cell: string): string => (/^\d+$/.test(cell) ? (Number(cell) === CALLS ? 'all' : 'fewer') : cell);
  return [...section.matchAll(/^\|(.*)\|$/gm)]
    .filter(([, row]) => !/^[\s|-]*$/.test(row))
    .map(([, row]) => row.split('|').map((cell) => kindOf(cell.trim())));
}
