/** `postgres` from 9.5 on, `sqlite` from 3.35 on, `mysql` from 8 on and MariaDB from 10.5 on, with InnoDB. */
export type SqlDialect = 'postgres' | 'sqlite' | 'mysql';

/** The statements of a fence. `open` and `write` take the resource and the token as parameters, in this order. */
export interface SqlStatements {
  /** Takes no parameters; does nothing where the table is there. */
  readonly createTable: string;
  /** To be run one after the other. The last one answers a row if the token is let in, and none if a higher one has opened. */
  readonly open: readonly string[];
  /** Answers a row if this very token has opened the fence last, and holds that row until the transaction ends. */
  readonly write: string;
}

/**
 * That a write does not only lock the row but writes it, with the token it has, is for databases with snapshots: under
 * REPEATABLE READ, PostgreSQL would let in a holder that has waited for a mere lock, with a snapshot from before it; a row
 * that was written it refuses ("could not serialize access"). And SQLite takes its lock for writing at once.
 */
function returning(table: string, resource: string, token: string) {
  return {
    open: [
      `INSERT INTO ${table} AS fence (resource, token) VALUES (${resource}, ${token}) ` +
        'ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token RETURNING token',
    ],
    write: `UPDATE ${table} SET token = token WHERE resource = ${resource} AND token = ${token} RETURNING token`,
  };
}

const textTable = (table: string): string =>
  `CREATE TABLE IF NOT EXISTS ${table} (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)`;

const quoted = (names: readonly string[], quote: string): string => names.map((name) => quote + name + quote).join('.');

function postgres(names: readonly string[]): SqlStatements {
  const table = quoted(names, '"');
  // Some clients give numbers a type of their own.
  return { createTable: textTable(table), ...returning(table, 'CAST($1 AS TEXT)', 'CAST($2 AS BIGINT)') };
}

function sqlite(names: readonly string[]): SqlStatements {
  const table = quoted(names, '"');
  return { createTable: textTable(table), ...returning(table, '?', '?') };
}

/**
 * An upsert has no condition here, and MySQL no RETURNING: the token is raised, and then looked at. A locking read sees
 * what was committed last, whatever snapshot the transaction has. VALUES() is what MySQL and MariaDB have in common.
 */
function mysql(names: readonly string[]): SqlStatements {
  const table = quoted(names, '`');
  const write = `SELECT token FROM ${table} WHERE resource = ? AND token = ? FOR UPDATE`;
  return {
    // Compared by bytes, and as long as an index of InnoDB takes it.
    createTable:
      `CREATE TABLE IF NOT EXISTS ${table} (resource VARCHAR(768) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ` +
      'NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE = InnoDB',
    open: [
      `INSERT INTO ${table} (resource, token) VALUES (?, ?) ` +
        'ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))',
      write,
    ],
    write,
  };
}

export const DIALECTS: Readonly<Record<SqlDialect, (names: readonly string[]) => SqlStatements>> = {
  postgres,
  sqlite,
  mysql,
};
