import { aFunction, checkOptions, checkValue, oneOf, type OptionRules } from '../common/check-options.js';
import { LockConfigError } from '../common/errors.js';
import { formatValue } from '../common/format-value.js';
import { checkResource } from '../keys/resource-key.js';
import { checkToken, staleOpen, staleWrite } from './check-token.js';
import { DIALECTS, type SqlDialect, type SqlStatements } from './sql-statements.js';

export type { SqlDialect, SqlStatements } from './sql-statements.js';

/** The options of a {@link SqlFence}. */
export interface SqlFenceOptions {
  /**
   * The name of the table: letters, digits and underscores, with or without a schema, for example `app.fences`. The
   * name is quoted, so its case matters if the database is case-sensitive.
   *
   * @default 'fences'
   */
  readonly table?: string | undefined;
}

/**
 * Runs one statement in the caller's transaction and returns its rows as an array of objects, or a promise of them. The
 * result for a statement without rows is ignored.
 */
export type SqlRun<Answer> = (sql: string, params: (string | number)[]) => Answer;

/** At most 63 characters, the limit of PostgreSQL. */
const NAME = /^[A-Za-z_]\w{0,62}$/;

const dialectRule = oneOf(...Object.keys(DIALECTS));

const RULES: OptionRules<SqlFenceOptions> = {
  table: {
    allowed: "a name like 'fences' or 'app.fences', of letters, digits and underscores",
    fits: (value) => typeof value === 'string' && isTableName(value.split('.')),
  },
};

const isTableName = (names: readonly string[]): boolean => names.length <= 2 && names.every((name) => NAME.test(name));

/**
 * Refuses writes to a database from a holder whose lock has since been granted to another holder. Every holder calls
 * `open` with its fencing token before its first read, and `write` in the transaction that writes. `write` succeeds
 * only for the token that opened the fence last, and blocks `open` until the transaction ends, so no other holder
 * starts between the reads and the writes.
 *
 * The fence has one row for each resource, in a table in the database of the data ({@link SqlStatements.createTable}).
 * The fence works with any database client, because the caller passes a function that runs the statements.
 *
 * @publicApi
 */
export class SqlFence {
  /** The statements of the fence, for migrations. */
  readonly statements: SqlStatements;

  /**
   * Creates a fence. Runs no statement. One fence can serve all resources.
   *
   * @throws {LockConfigError} if the dialect is unknown, or `table` is not a valid name.
   */
  constructor(dialect: SqlDialect, options: SqlFenceOptions = {}) {
    checkValue('SqlFence', 'dialect', dialect, dialectRule);
    const { table = 'fences' } = checkOptions<SqlFenceOptions>('SqlFence', options, RULES);
    this.statements = DIALECTS[dialect](table.split('.'));
  }

  /**
   * Opens the fence for a token. From now on, `write` accepts only this token, until a higher one opens the fence. Call
   * `open` before the first read, preferably in its own transaction. In the transaction that reads, the call must be
   * the first statement. May be repeated with the same token.
   *
   * @throws {StaleFenceError} if a higher token, that of a later holder, has opened the fence.
   * @throws {LockKeyError} if `resource` is not a valid name.
   * @throws {LockConfigError} if the token is not a whole number from 0 to 2⁵³ - 1, or `run` returns no rows.
   */
  open(run: SqlRun<PromiseLike<unknown>>, resource: string, token: number): Promise<void>;
  open(run: SqlRun<unknown>, resource: string, token: number): void;
  open(run: SqlRun<unknown>, resource: string, token: number): unknown {
    return this.runAndCheck(run, this.statements.open, resource, token, staleOpen);
  }

  /**
   * Checks that this token has opened the fence last, and blocks `open` until the transaction ends. Call it in the
   * transaction that writes, before the writes. Outside of a transaction, it protects nothing, because another holder
   * may open the fence right after the check.
   *
   * @throws {StaleFenceError} if a later holder has opened the fence, or `open` was not called with this token, or the
   * row is gone. The caller must roll the transaction back and discard what it has read.
   * @throws {LockKeyError} if `resource` is not a valid name.
   * @throws {LockConfigError} if the token is not a whole number from 0 to 2⁵³ - 1, or `run` returns no rows.
   */
  write(run: SqlRun<PromiseLike<unknown>>, resource: string, token: number): Promise<void>;
  write(run: SqlRun<unknown>, resource: string, token: number): void;
  write(run: SqlRun<unknown>, resource: string, token: number): unknown {
    return this.runAndCheck(run, [this.statements.write], resource, token, staleWrite);
  }

  /** Runs the statements one after the other. The last one returns a row if the token is accepted. */
  private runAndCheck(
    run: SqlRun<unknown>,
    statements: readonly string[],
    resource: string,
    token: number,
    staleError: (resource: string, token: number) => Error,
  ): unknown {
    checkValue('SqlFence', '`run`', run, aFunction);
    checkResource(resource);
    checkToken(token, resource);
    const check = (rows: unknown): void => {
      const found = tokenIn(rows);
      if (found === null) throw staleError(resource, token);
      if (found !== token) throw noRows(resource, rows);
    };
    const runFrom = (at: number): unknown => {
      const next = at + 1 < statements.length ? () => runFrom(at + 1) : check;
      return andThen(run(statements[at] ?? '', [resource, token]), next);
    };
    return runFrom(0);
  }
}

/** Returns the token of the first row, null if there is no row, and undefined if the value is not a list of rows. */
function tokenIn(rows: unknown): number | null | undefined {
  try {
    if (!Array.isArray(rows)) return undefined;
    if (rows.length === 0) return null;
    // Some clients return rows with a count, or rows as arrays. Those must not count as an accepted token.
    const value = (rows[0] as { readonly token?: unknown } | null | undefined)?.token;
    // Clients return 64-bit integers as numbers, strings or bigints.
    return ['number', 'string', 'bigint'].includes(typeof value) ? Number(value) : undefined;
  } catch {
    return undefined;
  }
}

function noRows(resource: string, given: unknown): LockConfigError {
  const allowed = 'the rows of the statement, an array of objects with `token`';
  return new LockConfigError(`\`run\` returned ${formatValue(given)}; expected ${allowed}.`, { resource });
}

/** Continues immediately if the client is synchronous, because a promise would end its transaction. */
function andThen(result: unknown, onRows: (rows: unknown) => unknown): unknown {
  return isThenable(result) ? Promise.resolve(result).then(onRows) : onRows(result);
}

function isThenable(result: unknown): boolean {
  try {
    return typeof result === 'object' && result !== null && 'then' in result;
  } catch {
    return false;
  }
}
