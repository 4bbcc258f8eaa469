/**
 * The SQL of a database: PostgreSQL 9.5, SQLite 3.35, MySQL 8 or MariaDB 10.5, or later. MySQL and MariaDB need InnoDB.
 */
export type SqlDialect = 'postgres' | 'sqlite' | 'mysql';

/** The statements of a fence. `open` and `write` take the resource and the token as parameters, in this order. */
export interface SqlStatements {
  /** Creates the table if it does not exist. Takes no parameters. */
  readonly createTable: string;
  /** To be run one after the other. The last one returns a row, or none if a higher token has opened the fence. */
  readonly open: readonly string[];
  /** Returns a row if this token has opened the fence last, and locks the row until the transaction ends. */
  readonly write: string;
}

/**
 * Returns the statements for a database with RETURNING. `write` updates the row instead of locking it. Under REPEATABLE
 * READ, PostgreSQL would accept a holder that waited for a row lock, with a snapshot from before the wait. It refuses
 * an updated row ("could not serialize access"). SQLite takes its write lock immediately.
 */
function returning(table: string, resource: string, token: string) {
  return {
    open: [
      `INSERT INTO ${table} AS fence (resource, token) VALUES (${resource}, ${token}) ` +
        'ON CONFLICT (resource) DO UPDATE SET token = excluded.token ' +
        'WHERE fence.token <= excluded.token RETURNING token',
    ],
    write: `UPDATE ${table} SET token = token WHERE resource = ${resource} AND token = ${token} RETURNING token`,
  };
}

const textTable = (table: string): string =>
  `CREATE TABLE IF NOT EXISTS ${table} (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)`;

const quoted = (names: readonly string[], quote: string): string => names.map((name) => quote + name + quote).join('.');

function postgres(names: readonly string[]): SqlStatements {
  const table = quoted(names, '"');
  // The casts are for clients that send numbers with a type of their own.
  return { createTable: textTable(table), ...returning(table, 'CAST($1 AS TEXT)', 'CAST($2 AS BIGINT)') };
}

function sqlite(names: readonly string[]): SqlStatements {
  const table = quoted(names, '"');
  return { createTable: textTable(table), ...returning(table, '?', '?') };
}

/**
 * Returns the statements for MySQL and MariaDB. Their upsert has no condition and MySQL has no RETURNING, so `open`
 * raises the token and then reads it. A locking read sees the last commit, whatever the transaction's snapshot is. Both
 * databases support VALUES().
 */
function mysql(names: readonly string[]): SqlStatements {
  const table = quoted(names, '`');
  const write = `SELECT token FROM ${table} WHERE resource = ? AND token = ? FOR UPDATE`;
  return {
    // Names are compared by bytes. 768 characters are the limit of an InnoDB index.
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
