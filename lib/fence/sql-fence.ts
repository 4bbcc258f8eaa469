import { LockConfigError } from '../core/errors.js';
import { checkResource } from '../core/keys/resource-key.js';
import { checkToken, opensTooLate, writesTooLate } from './check-token.js';
import { DIALECTS, type SqlDialect, type SqlStatements } from './sql-statements.js';

export type { SqlDialect, SqlStatements } from './sql-statements.js';

/** How a {@link SqlFence} is kept. */
export interface SqlFenceOptions {
  /**
   * The table: letters, digits and underscores, with a schema before it if need be, `app.fences`. It is quoted, so that
   * upper and lower case differ where the database makes a difference.
   *
   * @default 'fences'
   */
  readonly table?: string;
}

/**
 * Runs one statement in the caller's transaction and answers its rows, at once or by a promise. What it answers to a
 * statement without rows does not matter.
 */
export type SqlRun<Answer> = (sql: string, params: (string | number)[]) => Answer;

/** At most as long as PostgreSQL takes it. */
const NAME = /^[A-Za-z_]\w{0,62}$/;

/**
 * Keeps holders of a lock who come too late from writing to a database. Every holder opens it with its fencing token before
 * its first read, and calls `write` in the transaction that writes. That one is let in if the same token has opened the
 * fence last, and keeps others from opening it until it ends, so that between a holder's reads and its writes no other
 * holder has begun.
 *
 * It knows no client of a database: it has them run its statements, with parameters. The fence is a row for each resource in
 * a table beside the data, {@link SqlStatements.createTable}.
 *
 * @publicApi
 */
export class SqlFence {
  /** For migrations, and for whoever would rather run them by hand. */
  readonly statements: SqlStatements;

  /** @throws {LockConfigError} on a dialect that is not known, or a table's name that is none. */
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
   * Lets this token in, and keeps lower ones out from now on. To be called before the first read, best in a transaction of
   * its own; in the one that reads, it has to be the first statement. May be called again with the same token.
   *
   * @throws {StaleFenceError} if a higher token has opened it: there is a later holder.
   * @throws {LockKeyError} if `resource` is no name of a resource.
   * @throws {LockConfigError} if the token is none, or `run` answers no rows.
   */
  open(run: SqlRun<PromiseLike<unknown>>, resource: string, token: number): Promise<void>;
  open(run: SqlRun<unknown>, resource: string, token: number): void;
  open(run: SqlRun<unknown>, resource: string, token: number): unknown {
    return this.pass(run, this.statements.open, resource, token, opensTooLate);
  }

  /**
   * Lets the transaction go on if this token has opened the fence last, and keeps the fence as it is until the transaction
   * ends. To be called in the transaction that writes, before the writes. Outside of one, the fence may be opened right
   * behind the check, and protects nothing.
   *
   * @throws {StaleFenceError} if a later holder has opened the fence, or it was not opened with this token, or its row is gone:
   * the transaction has to be rolled back, and what was read is worth nothing.
   * @throws {LockKeyError} if `resource` is no name of a resource.
   * @throws {LockConfigError} if the token is none, or `run` answers no rows.
   */
  write(run: SqlRun<PromiseLike<unknown>>, resource: string, token: number): Promise<void>;
  write(run: SqlRun<unknown>, resource: string, token: number): void;
  write(run: SqlRun<unknown>, resource: string, token: number): unknown {
    return this.pass(run, [this.statements.write], resource, token, writesTooLate);
  }

  /** Runs the statements one after the other; the last one answers a row if the token is let in. */
  private pass(
    run: SqlRun<unknown>,
    statements: readonly string[],
    resource: string,
    token: number,
    refusal: (resource: string, token: number) => Error,
  ): unknown {
    checkResource(resource);
    checkToken(token, resource);
    const judge = (rows: unknown): void => {
      if (!Array.isArray(rows)) throw answersNoRows(resource);
      if (rows.length === 0) throw refusal(resource, token);
      // Some clients answer rows and a count, or rows as lists: what is not understood must not pass for a row.
      if (Number((rows[0] as { token?: unknown } | null)?.token) !== token) throw answersNoRows(resource);
    };
    const runFrom = (at: number): unknown => {
      const next = at + 1 < statements.length ? () => runFrom(at + 1) : judge;
      return andThen(run(statements[at] ?? '', [resource, token]), next);
    };
    return runFrom(0);
  }
}

function answersNoRows(resource: string): LockConfigError {
  return new LockConfigError('`run` has to answer the rows of the statement, as an array of objects.', { resource });
}

/** Goes on at once where the client is synchronous: its transactions must not be left for a promise. */
function andThen(answer: unknown, goOn: (rows: unknown) => unknown): unknown {
  const isPromise = typeof answer === 'object' && answer !== null && 'then' in answer;
  return isPromise ? Promise.resolve(answer).then(goOn) : goOn(answer);
}
