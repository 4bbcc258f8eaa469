import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Database } from 'node-sqlite3-wasm';
import { SqlFence, type SqlDialect, StaleFenceError } from 'nestjs-redis-lock/fence';

describe('a fence in SQLite', () => {
  const fence = new SqlFence('sqlite');
  let folder: string;
  let open: Database[];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'fence-'));
    open = [];
    connect().db.exec(
      `${fence.statements.createTable}; ${fence.statements.createTable}; CREATE TABLE lines (name TEXT)`,
    );
  });
  afterEach(() => {
    for (const db of open) db.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function connect() {
    const db = new Database(join(folder, 'orders.db'));
    open.push(db);
    const run = (sql: string, params: (string | number)[]): unknown[] => db.all(sql, params);
    return {
      db,
      open: (token: number, resource = 'order:300') => fence.open(run, resource, token),
      write: (token: number, resource = 'order:300') => fence.write(run, resource, token),
      lines: () => db.all('SELECT name FROM lines'),
    };
  }

  it('accepts only the holder that opened it last, synchronously', () => {
    const one = connect();
    expect(() => one.write(5)).toThrow(StaleFenceError);
    one.open(5);
    one.open(5);
    one.write(5);
    expect(one.write(5)).toBeUndefined();
    one.open(6);
    expect(() => one.write(5)).toThrow(StaleFenceError);
    expect(() => one.open(5)).toThrow(StaleFenceError);
    one.write(6);
    expect(() => one.write(7)).toThrow(StaleFenceError);
    one.db.exec('DELETE FROM fences');
    expect(() => one.write(6)).toThrow(StaleFenceError);
  });

  it('names the resource in its error', () => {
    const one = connect();
    one.open(6);
    const error = { code: 'LOCK_STALE', name: 'StaleFenceError', resource: 'order:300' };
    expect(() => one.open(5)).toThrow(expect.objectContaining(error));
    expect(() => one.write(5)).toThrow(expect.objectContaining(error));
  });

  it('distinguishes tokens up to 2^53, and resources by every character', () => {
    const one = connect();
    const last = Number.MAX_SAFE_INTEGER;
    one.open(last - 1);
    one.open(last);
    expect(() => one.write(last - 1)).toThrow(StaleFenceError);
    expect(() => one.open(last - 1)).toThrow(StaleFenceError);
    one.write(last);
    expect(() => one.write(last, 'ORDER:300')).toThrow(StaleFenceError);
    one.open(1, `'; DROP TABLE fences; --`);
    one.write(1, `'; DROP TABLE fences; --`);
    expect(one.db.all('SELECT typeof(token) AS type FROM fences')).toEqual([{ type: 'integer' }, { type: 'integer' }]);
  });

  it('blocks open during a write transaction, and refuses an earlier write', () => {
    const [writer, opener] = [connect(), connect()];
    writer.open(5);
    writer.db.exec('BEGIN');
    writer.write(5);
    expect(() => opener.open(6)).toThrow('locked');
    writer.db.exec(`INSERT INTO lines VALUES ('five'); COMMIT`);
    opener.open(6);
    expect(opener.lines()).toEqual([{ name: 'five' }]);

    writer.db.exec('BEGIN');
    expect(() => writer.write(5)).toThrow(StaleFenceError);
    writer.db.exec('ROLLBACK');
  });

  it('blocks open during a transaction that reads and may write', () => {
    const [writer, opener] = [connect(), connect()];
    writer.open(5);
    writer.db.exec('BEGIN');
    expect(writer.lines()).toEqual([]);
    expect(() => opener.open(6)).toThrow('locked');
    writer.write(5);
    writer.db.exec('COMMIT');
    opener.open(6);
    expect(() => writer.write(5)).toThrow(StaleFenceError);
  });
});

describe('a fence for SQL', () => {
  const rows = async (): Promise<unknown[]> => [{ token: 5 }];

  it.each(['fences; DROP TABLE orders', 'a.b.c', '', '1st', 'a"b', 'a`b', 'x'.repeat(64), 'ä'])(
    'throws if the table is %p',
    (table) => expect(() => new SqlFence('postgres', { table })).toThrow('SqlFence: table is '),
  );

  it.each<[what: string, make: () => unknown, message: RegExp]>([
    ['5 as table', () => new SqlFence('postgres', { table: 5 as never }), /^SqlFence: table is 5; expected a name/],
    ['null as options', () => new SqlFence('postgres', null as never), /^SqlFence: the options are null; expected/],
    [
      'an unknown option',
      () => new SqlFence('mysql', { constructor: 1 } as never),
      /unknown option constructor; .* table/,
    ],
    [
      'an object as dialect',
      () => new SqlFence(Object.create(null)),
      /^SqlFence: dialect is an object without a class/,
    ],
    ['a number as `run`', () => new SqlFence('mysql').open(5 as never, 'x', 5), /`run` is 5; expected a function/],
  ])('throws a LockConfigError for %s', (_what, make, message) => {
    expect(make).toThrow(message);
    expect(make).toThrow(expect.objectContaining({ code: 'LOCK_CONFIG' }));
  });

  it('accepts a schema, and throws if the dialect is unknown', () => {
    const { statements } = new SqlFence('postgres', { table: 'App.lock_fences' });
    expect(Object.values(statements).flat()).toEqual(
      expect.arrayContaining([expect.stringContaining('"App"."lock_fences"')]),
    );
    expect(new SqlFence('mysql', { table: 'app.fences' }).statements.write).toContain('`app`.`fences`');
    for (const dialect of ['oracle', 'toString']) {
      expect(() => new SqlFence(dialect as SqlDialect)).toThrow('"postgres" or "sqlite" or "mysql"');
    }
  });

  it('passes the resource and the token as parameters only', async () => {
    for (const dialect of ['postgres', 'sqlite', 'mysql'] as const) {
      const sent: unknown[] = [];
      const run = (sql: string, params: (string | number)[]) => {
        sent.push([sql, params]);
        return rows();
      };
      const fence = new SqlFence(dialect);
      await fence.open(run, `order:'1'`, 5);
      await fence.write(run, `order:'1'`, 5);
      const { statements } = fence;
      expect(sent).toEqual([...statements.open, statements.write].map((sql) => [sql, [`order:'1'`, 5]]));
    }
  });

  it('throws if run returns no rows', async () => {
    const fence = new SqlFence('postgres');
    const result = { rows: [], rowCount: 0 };
    await expect(fence.write(async () => result, 'order:1', 5)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    expect(() => fence.write(() => result, 'order:1', 5)).toThrow('rows');
    // What TypeORM returns for an UPDATE, rows as arrays, and other results.
    for (const returned of [[[], 0], [[5]], [null], [{}], [{ token: 6 }]]) {
      expect(() => fence.write(() => returned, 'order:1', 5)).toThrow(expect.objectContaining({ code: 'LOCK_CONFIG' }));
    }
    for (const row of [{ token: 5 }, { token: '5' }, { token: 5n }]) fence.write(() => [row], 'order:1', 5);
  });

  it('throws if the token or the resource is invalid', () => {
    const fence = new SqlFence('sqlite');
    expect(() => fence.open(() => [], 'order:1', Number.NaN)).toThrow('fencing token');
    expect(() => fence.write(() => [{}], 'order:1', undefined as never)).toThrow('fencing token');
    expect(() => fence.open(() => [{}], '', 5)).toThrow('resource');
  });
});
