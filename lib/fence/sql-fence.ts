import { LockConfigError } from '../core/errors.js';
import { checkResource } from '../core/keys/resource-key.js';
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
  readonly table?: string;
}

/**
 * Runs one statement in the caller's transaction and returns its rows as an array of objects, or a promise of them. Its
 * result for a statement without rows is ignored.
 */
export type SqlRun<Answer> = (sql: string, params: (string | number)[]) => Answer;

/** At most 63 characters, the limit of PostgreSQL. */
const NAME = /^[A-Za-z_]\w{0,62}$/;

/**
 * Refuses writes to a database from a holder whose lock was granted to another holder since. Every holder calls `open`
 * with its fencing token before its first read, and `write` in the transaction that writes. `write` succeeds only for
 * the token that opened the fence last, and blocks `open` until the transaction ends: no other holder starts between
 * the reads and the writes.
 *
 * The fence has one row for each resource, in a table in the database of the data ({@link SqlStatements.createTable}).
 * It works with any database client: the caller passes a function that runs the statements.
 *
 * @publicApi
 */
export class SqlFence {
  /** The statements of the fence, for migrations. */
  readonly statements: SqlStatements;

  /**
   * Creates a fence. Runs nothing, so one may serve all resources.
   *
   * @throws {LockConfigError} if the dialect is unknown, or `table` is not a valid name.
   */
  constructor(dialect: SqlDialect, { table = 'fences' }: SqlFenceOptions = {}) {
    if (!Object.hasOwn(DIALECTS, dialect)) {
      throw new LockConfigError(`dialect is ${Object.keys(DIALECTS).join(', ')}, not ${JSON.stringify(dialect)}.`);
    }
    const names = table.split('.');
    if (names.length > 2 || !names.every((name) => NAME.test(name))) {
      throw new LockConfigError(`table is a name like 'fences' or 'app.fences', not ${JSON.stringify(table)}.`);
    }
    this.statements = DIALECTS[dialect](names);
  }

  /**
   * Opens the fence for a token. From now on `write` accepts only this token, until a higher one opens the fence. Call
   * it before the first read, best in its own transaction. In the transaction that reads, it must be the first
   * statement. May be repeated with the same token.
   *
   * @throws {StaleFenceError} if a higher token has opened the fence, which belongs to a later holder.
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
   * transaction that writes, before the writes. Outside of a transaction it protects nothing, because another holder
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
    checkResource(resource);
    checkToken(token, resource);
    const check = (rows: unknown): void => {
      if (!Array.isArray(rows)) throw noRows(resource);
      if (rows.length === 0) throw staleError(resource, token);
      // Some clients return rows with a count, or rows as arrays. Those must not count as an accepted token.
      if (Number((rows[0] as { token?: unknown } | null)?.token) !== token) throw noRows(resource);
    };
    const runFrom = (at: number): unknown => {
      const next = at + 1 < statements.length ? () => runFrom(at + 1) : check;
      return andThen(run(statements[at] ?? '', [resource, token]), next);
    };
    return runFrom(0);
  }
}

function noRows(resource: string): LockConfigError {
  return new LockConfigError('`run` has to answer the rows of the statement, as an array of objects.', { resource });
}

/** Continues at once if the client is synchronous, because a promise would end its transaction. */
function andThen(result: unknown, onRows: (rows: unknown) => unknown): unknown {
  const isPromise = typeof result === 'object' && result !== null && 'then' in result;
  return isPromise ? Promise.resolve(result).then(onRows) : onRows(result);
}
