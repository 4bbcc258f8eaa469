// What a transaction reads after it was granted a lock, on real servers. Under REPEATABLE READ it is a snapshot of the
// moment of its first read, which no lock scope changes.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { RedisLocks } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { type Database, type DatabaseKind, itOnServer, SERVERS, type Session } from '../../support/sql/databases.js';

type Level = 'READ COMMITTED' | 'REPEATABLE READ';

/** Runs what another process would do: outside of the lock scope of the test. */
const elsewhere = AsyncLocalStorage.snapshot();

/** The errors of both servers for an update of a row that another transaction has changed since the snapshot. */
const REFUSED = 'could not serialize access|Record has changed since last read';

describe.each(Object.values(SERVERS))('a transaction in $title that waits for a lock', (kind: DatabaseKind) => {
  const { title, dialect, missing } = kind;
  let database: Database;
  /** The session of the transaction under test. */
  let session: Session;
  /** A session without transactions. */
  let plain: Session;
  let instances: RedisLocks;
  let locks: LockService;
  let others: LockService;
  /** Whether the server refuses to update a row that has changed since the snapshot. */
  let refusesUpdates: boolean;

  const itHere = itOnServer(kind);

  beforeAll(async () => {
    if (missing !== undefined) return;
    database = await kind.start();
    [session, plain] = [await database.connect(), await database.connect()];
    await plain.run('CREATE TABLE goods (id INTEGER PRIMARY KEY, sold INTEGER NOT NULL)');
    await plain.run('CREATE TABLE tickets (buyer VARCHAR(20) NOT NULL)');
    refusesUpdates = dialect === 'postgres' || (await snapshotsAreIsolated());
    process.stdout.write(`${title} for the tests: ${database.version}\n`);
  });
  beforeEach(async () => {
    instances = new RedisLocks();
    [locks, others] = [instances.start({ redis: testRedisUrl() }), instances.start({ redis: testRedisUrl() })];
    for (const sql of ['DELETE FROM goods', 'DELETE FROM tickets', 'INSERT INTO goods VALUES (1, 0)']) {
      await plain?.run(sql);
    }
  });
  afterEach(() => instances.close());
  afterAll(async () => {
    await session?.close();
    await plain?.close();
    await database?.stop();
  });

  /** MariaDB refuses such updates since 11.6 by default, and before with this option. MySQL has no such option. */
  async function snapshotsAreIsolated(): Promise<boolean> {
    const rows = (await plain.run(`SHOW VARIABLES LIKE 'innodb_snapshot_isolation'`)) as { Value: string }[];
    return rows[0]?.Value === 'ON';
  }

  async function begin(level: Level): Promise<void> {
    if (dialect === 'postgres') await session.run(`BEGIN ISOLATION LEVEL ${level}`);
    else {
      await session.run(`SET TRANSACTION ISOLATION LEVEL ${level}`);
      await session.run('START TRANSACTION');
    }
  }

  async function soldIn(reader: Session): Promise<number> {
    const [{ sold }] = (await reader.run('SELECT sold FROM goods WHERE id = 1')) as [{ sold: number }];
    return sold;
  }

  async function ticketsIn(reader: Session): Promise<number> {
    return (await reader.run('SELECT buyer FROM tickets')).length;
  }

  const write = (sold: number, writer: Session) => writer.run(`UPDATE goods SET sold = ${sold} WHERE id = 1`);

  /** Another instance sells one and writes a ticket, under the lock. */
  function sellElsewhere(): Promise<void> {
    return elsewhere(() =>
      others.using('goods:1', async () => {
        await write((await soldIn(plain)) + 1, plain);
        await plain.run(`INSERT INTO tickets VALUES ('other')`);
      }),
    );
  }

  /** Commits what `work` does in a scope. Rolls back if it fails, and returns the error's text. */
  function commit(work: () => Promise<unknown>): Promise<string> {
    return locks.scope(async () => {
      try {
        await work();
        await session.run('COMMIT');
        return 'committed';
      } catch (error) {
        await session.run('ROLLBACK');
        return String(error);
      }
    });
  }

  itHere('under REPEATABLE READ reads old rows if it read before, and updates amiss', async () => {
    let readUnderLock: number | undefined;
    const end = await commit(async () => {
      await begin('REPEATABLE READ');
      expect(await soldIn(session)).toBe(0);
      await sellElsewhere();
      await locks.using('goods:1', async () => {
        readUnderLock = await soldIn(session);
        await write(readUnderLock + 1, session);
      });
    });
    process.stdout.write(`${title}, an update of the row: ${end}\n`);
    expect(readUnderLock).toBe(0);
    expect(end).toMatch(refusesUpdates ? new RegExp(REFUSED) : /^committed$/);
    // Two callers have sold, or one of them was refused. The row says 1 in both cases.
    expect(await soldIn(plain)).toBe(1);
  });

  itHere('under REPEATABLE READ sells twice if it read before and writes another row', async () => {
    const end = await commit(async () => {
      await begin('REPEATABLE READ');
      expect(await ticketsIn(session)).toBe(0);
      await sellElsewhere();
      await locks.using('goods:1', async () => {
        if ((await ticketsIn(session)) === 0) await session.run(`INSERT INTO tickets VALUES ('late')`);
      });
    });
    expect(end).toBe('committed');
    expect(await ticketsIn(plain)).toBe(2);
  });

  itHere('under REPEATABLE READ reads new rows if the lock comes first', async () => {
    await sellElsewhere();
    const end = await locks.using('goods:1', () =>
      commit(async () => {
        await begin('REPEATABLE READ');
        expect(await ticketsIn(session)).toBe(1);
        await write((await soldIn(session)) + 1, session);
      }),
    );
    expect(end).toBe('committed');
    expect(await soldIn(plain)).toBe(2);
  });

  itHere('under REPEATABLE READ reads new rows if its first read is after the grant', async () => {
    const end = await commit(async () => {
      await begin('REPEATABLE READ');
      await sellElsewhere();
      await locks.using('goods:1', async () => write((await soldIn(session)) + 1, session));
    });
    expect(end).toBe('committed');
    expect(await soldIn(plain)).toBe(2);
  });

  itHere('under READ COMMITTED reads new rows, even if it read before', async () => {
    const end = await commit(async () => {
      await begin('READ COMMITTED');
      expect([await soldIn(session), await ticketsIn(session)]).toEqual([0, 0]);
      await sellElsewhere();
      await locks.using('goods:1', async () => {
        expect(await ticketsIn(session)).toBe(1);
        await write((await soldIn(session)) + 1, session);
      });
    });
    expect(end).toBe('committed');
    expect(await soldIn(plain)).toBe(2);
  });

  itHere('has the default isolation level of the page', async () => {
    const sql = dialect === 'postgres' ? 'SHOW default_transaction_isolation' : 'SELECT @@tx_isolation';
    const [level] = (await plain.run(sql)) as [Record<string, string>];
    expect(Object.values(level)).toEqual([dialect === 'postgres' ? 'read committed' : 'REPEATABLE-READ']);
  });
});
