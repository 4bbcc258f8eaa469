// Runs the statements on real servers, in concurrent transactions.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from '@jest/globals';
import { SqlFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { eventually } from '../../support/redis-locks.js';
import { type Database, type DatabaseKind, itOnServer, SERVERS, type Session } from '../../support/sql/databases.js';

const LEVELS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;
type Level = (typeof LEVELS)[number];

/** The errors of the fence and of the database after which a transaction is rolled back. */
const REFUSED = /^StaleFenceError|could not serialize access|try restarting transaction|Record has changed/;

describe.each(Object.values(SERVERS))('a fence in $title', (kind: DatabaseKind) => {
  const { title, dialect, missing } = kind;
  const fence = new SqlFence(dialect);
  const placeholder = dialect === 'postgres' ? '$1' : '?';
  const sessions: Session[] = [];
  let database: Database;
  /** A session without transactions. */
  let plain: Session;

  const itHere = itOnServer(kind);

  beforeAll(async () => {
    if (missing !== undefined) return;
    database = await kind.start();
    plain = await database.connect();
    process.stdout.write(`${title} for the tests: ${database.version}\n`);
    await plain.run('CREATE TABLE items (name VARCHAR(20) PRIMARY KEY)');
    await plain.run(fence.statements.createTable);
    await plain.run(fence.statements.createTable);
  });
  beforeEach(async () => {
    await plain?.run('DELETE FROM items');
    await plain?.run('DELETE FROM fences');
  });
  afterEach(async () => {
    await Promise.all(sessions.splice(0).map((session) => session.close()));
  });
  afterAll(async () => {
    await plain?.close();
    await database?.stop();
  });

  async function begin(level: Level): Promise<Session> {
    const session = await database.connect();
    sessions.push(session);
    if (dialect === 'postgres') await session.run(`BEGIN ISOLATION LEVEL ${level}`);
    else {
      await session.run(`SET TRANSACTION ISOLATION LEVEL ${level}`);
      await session.run('START TRANSACTION');
    }
    return session;
  }

  const open = (token: number, session = plain) => fence.open(session.run, 'order:300', token);
  const write = (token: number, session: Session) => fence.write(session.run, 'order:300', token);
  const addLine = (name: string, session: Session) =>
    session.run(`INSERT INTO items (name) VALUES (${placeholder})`, [name]);
  const lines = async (session = plain) =>
    ((await session.run('SELECT name FROM items ORDER BY name')) as { name: string }[]).map(({ name }) => name);

  /** Starts a statement that another transaction blocks. Resolves with its outcome as soon as it is blocked. */
  async function blocked(session: Session, work: Promise<unknown>): Promise<() => Promise<string>> {
    const end = work.then(
      () => 'let in',
      (error: unknown) => String(error),
    );
    await eventually('it waits', () => session.isBlocked(plain));
    return () => end;
  }

  itHere('accepts only the holder that opened it last', async () => {
    await expect(write(5, plain)).rejects.toThrow(StaleFenceError);
    await open(5);
    await open(5);
    await write(5, plain);
    await write(5, plain);
    await open(6);
    await expect(write(5, plain)).rejects.toThrow(StaleFenceError);
    await expect(open(5)).rejects.toThrow(StaleFenceError);
    await write(6, plain);
    await expect(write(7, plain)).rejects.toThrow(StaleFenceError);
    await plain.run('DELETE FROM fences');
    await expect(write(6, plain)).rejects.toThrow(StaleFenceError);
  });

  itHere('distinguishes tokens up to 2^53, and resources by every character', async () => {
    const last = Number.MAX_SAFE_INTEGER;
    await open(last - 1);
    await open(last);
    await expect(write(last - 1, plain)).rejects.toThrow(StaleFenceError);
    await expect(open(last - 1)).rejects.toThrow(StaleFenceError);
    await write(last, plain);
    const other = `ORDER:300'"\`;--`;
    await expect(fence.write(plain.run, 'ORDER:300', last)).rejects.toThrow(StaleFenceError);
    await fence.open(plain.run, other, 1);
    await fence.write(plain.run, other, 1);
  });

  itHere('has no effect if its transaction is rolled back', async () => {
    await open(5);
    const session = await begin('READ COMMITTED');
    await open(6, session);
    await session.run('ROLLBACK');
    await expect(write(5, plain)).resolves.toBeUndefined();
  });

  itHere('keeps the higher token if two holders open it first at once', async () => {
    const later = await begin('READ COMMITTED');
    await open(6, later);
    const earlier = await begin('READ COMMITTED');
    const end = await blocked(earlier, open(5, earlier));
    await later.run('COMMIT');
    expect(await end()).toMatch(/^StaleFenceError/);
    await earlier.run('ROLLBACK');
    await write(6, plain);
  });

  describe.each(LEVELS)('in transactions at %s', (level) => {
    itHere('blocks open during a write transaction, whose writes are read then', async () => {
      await open(5);
      const writer = await begin(level);
      await write(5, writer);
      await addLine('five', writer);
      const opener = await database.connect();
      sessions.push(opener);
      const end = await blocked(opener, open(6, opener));
      expect(await lines()).toEqual([]);
      await writer.run('COMMIT');
      expect(await end()).toBe('let in');
      expect(await lines(opener)).toEqual(['five']);
    });

    itHere('refuses a write that waited while the next holder opened it', async () => {
      await open(5);
      const opener = await begin(level);
      await open(6, opener);
      const writer = await begin(level);
      const end = await blocked(
        writer,
        write(5, writer).then(() => addLine('five', writer)),
      );
      await opener.run('COMMIT');
      expect(await end()).toMatch(REFUSED);
      await writer.run('ROLLBACK');
      expect(await lines()).toEqual([]);
    });

    itHere('refuses a write whose transaction read before the next holder opened it', async () => {
      await open(5);
      const writer = await begin(level);
      expect(await lines(writer)).toEqual([]);
      await open(6);
      await expect(write(5, writer).catch((error: unknown) => String(error))).resolves.toMatch(REFUSED);
    });

    itHere('shows all earlier writes to a transaction that opens it first', async () => {
      await open(5);
      const writer = await begin('READ COMMITTED');
      await write(5, writer);
      await addLine('five', writer);
      const reader = await begin(level);
      const end = await blocked(
        reader,
        open(6, reader).then(async () => expect(await lines(reader)).toEqual(['five'])),
      );
      await writer.run('COMMIT');
      expect(await end()).toMatch(dialect === 'postgres' && level !== 'READ COMMITTED' ? REFUSED : /^let in$/);
    });
  });
});
