import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import { Client } from 'pg';
import type { SqlDialect } from 'nestjs-redis-lock/fence';
import { freePort } from '../redis/local-server.js';
import { findProgram, SqlServer } from './server.js';

/** One connection, with at most one open transaction. */
export interface Session {
  /** Runs a statement with parameters and returns its rows. */
  readonly run: (sql: string, params?: (string | number)[]) => Promise<unknown[]>;
  /** Returns whether this session's statement is blocked by another transaction. Queries it on another session. */
  readonly isBlocked: (other: Session) => Promise<boolean>;
  close(): Promise<void>;
}

export interface Database {
  readonly version: string;
  readonly url: string;
  connect(): Promise<Session>;
  stop(): Promise<void>;
}

export interface DatabaseKind {
  readonly title: string;
  readonly dialect: SqlDialect;
  /** The program that is missing on this machine. Undefined if none is. */
  readonly missing: string | undefined;
  start(): Promise<Database>;
}

const missingOf = (...programs: string[]): string | undefined =>
  programs.find((name) => findProgram(name) === undefined);

async function databaseOn(server: SqlServer, url: string, open: () => Promise<Session>): Promise<Database> {
  const session = await server.ready(open);
  const [{ version }] = (await session.run('SELECT version() AS version')) as [{ version: string }];
  await session.close();
  return { version, url, connect: open, stop: () => server.stop() };
}

async function postgresSession(url: string): Promise<Session> {
  const client = new Client(url);
  client.on('error', () => undefined);
  await client.connect();
  const run: Session['run'] = async (sql, params) => (await client.query(sql, params)).rows as unknown[];
  const [{ pid }] = (await run('SELECT pg_backend_pid() AS pid')) as [{ pid: number }];
  const waiting = `SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'`;
  return {
    run,
    isBlocked: async (other) => (await other.run(waiting, [pid])).length > 0,
    close: () => client.end(),
  };
}

async function mysqlSession(url: string): Promise<Session> {
  const connection = await createConnection(url);
  connection.on('error', () => undefined);
  await connection.query('CREATE DATABASE IF NOT EXISTS test');
  await connection.query('USE test');
  const { threadId } = connection;
  const waiting = `SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ? AND trx_state = 'LOCK WAIT'`;
  return {
    run: async (sql, params) => {
      type Result = RowDataPacket[] | ResultSetHeader;
      // Prepared statements send numbers as numbers, not as text.
      const [result] = await (params ? connection.execute<Result>(sql, params) : connection.query<Result>(sql));
      return result as unknown[];
    },
    isBlocked: async (other) => {
      // InnoDB caches this table for 100 ms.
      await sleep(150);
      return (await other.run(waiting, [threadId])).length > 0;
    },
    close: () => connection.end(),
  };
}

const postgres: DatabaseKind = {
  title: 'PostgreSQL',
  dialect: 'postgres',
  missing: missingOf('postgres', 'initdb'),
  async start() {
    const port = await freePort();
    const url = `postgres://test@127.0.0.1:${port}/postgres`;
    return databaseOn(await SqlServer.postgres(port), url, () => postgresSession(url));
  },
};

const mariadb: DatabaseKind = {
  title: 'MariaDB',
  dialect: 'mysql',
  missing: missingOf('mariadbd', 'mariadb-install-db'),
  async start() {
    const port = await freePort();
    const url = `mysql://root@127.0.0.1:${port}`;
    return databaseOn(await SqlServer.mariadb(port), url, () => mysqlSession(url));
  },
};

export const SERVERS = { postgres, mariadb } as const;

/** Wraps a test that needs a server. Without the server it prints that the test did not run. In CI it fails. */
export function onServer({ title, missing }: DatabaseKind, body: () => Promise<void>): () => Promise<void> {
  if (missing === undefined) return body;
  return () => {
    if (process.env['CI'] === 'true') throw new Error(`${missing} is missing: install ${title}`);
    process.stdout.write(`NOT RUN, because ${missing} is missing: ${expect.getState().currentTestName}\n`);
    return Promise.resolve();
  };
}

/** Returns what adds a test that needs this server. */
export const itOnServer =
  (kind: DatabaseKind) =>
  (name: string, body: () => Promise<void>): void =>
    // oxlint-disable-next-line jest/valid-title, jest/expect-expect -- the caller has both
    it(name, onServer(kind, body));
