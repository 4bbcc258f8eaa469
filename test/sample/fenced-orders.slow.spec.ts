import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/async.js';
import { forkSource } from '../support/lock-process.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';

const MAIN = '../../sample/fenced-orders/src/main.ts';
/** Longer than a machine stands still. */
const LEASE_MS = 5_000;
const { postgres } = SERVERS;

/** The supplier that the application requests between reading and writing. It replies when the test says so. */
class Supplier {
  private readonly requests = new Map<string, ServerResponse>();
  private readonly server: Server = createServer((request, response) => {
    this.requests.set((request.url ?? '').slice(1), response);
  });

  async start(): Promise<string> {
    await once(this.server.listen(0, '127.0.0.1'), 'listening');
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Resolves when the application has read and is about to write. */
  isRequestedFor(article: string): Promise<void> {
    return eventually(`the price of ${article} is requested`, () => this.requests.has(article));
  }

  reply(article: string, price: number): void {
    this.requests.get(article)?.end(String(price));
    this.requests.delete(article);
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}

describe('fenced orders', () => {
  const instances: ChildProcess[] = [];
  const supplier = new Supplier();
  let database: Database;
  let env: NodeJS.ProcessEnv;
  let id = Date.now() % 1_000_000_000;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    env = {
      PORT: '0',
      REDIS_URL: testRedisUrl(),
      DATABASE_URL: database.url,
      PRICES_URL: await supplier.start(),
      LEASE_MS: String(LEASE_MS),
    };
  });
  beforeEach(() => {
    id += 1;
  });
  afterEach(async () => {
    const ended = instances.splice(0).map(async (instance) => {
      const exit = once(instance, 'exit');
      instance.kill('SIGKILL');
      await exit;
    });
    await Promise.all(ended);
  });
  afterAll(async () => {
    supplier.stop();
    await database?.stop();
  });

  async function start() {
    const instance = forkSource(MAIN, {}, env);
    instances.push(instance);
    const [url] = (await once(instance, 'message')) as [string];
    const add = async (path: string, article: string) => {
      const body = new URLSearchParams({ article });
      const response = await fetch(`${url}/orders/${id}/${path}`, { method: 'POST', body });
      return { status: response.status, body: await response.json() };
    };
    return { instance, url, add };
  }

  /**
   * One instance reads and is paused longer than its lease. The other acquires the lock and adds its line. The first
   * continues.
   */
  async function stoppedHolder(path: string) {
    const [first, second] = await Promise.all([start(), start()]);
    const late = first.add(path, 'tea');
    await supplier.isRequestedFor('tea');
    first.instance.kill('SIGSTOP');
    supplier.reply('tea', 3);
    const inTime = second.add(path, 'milk');
    await supplier.isRequestedFor('milk');
    supplier.reply('milk', 2);
    expect(await inTime).toEqual({ status: 201, body: [{ article: 'milk', price: 2 }] });
    first.instance.kill('SIGCONT');
    const end = await late;
    const lines = await (await fetch(`${second.url}/orders/${id}`)).json();
    return { end, lines, first };
  }

  it(
    'refuse the late write of a holder that was paused longer than its lease',
    onServer(postgres, async () => {
      const { end, lines, first } = await stoppedHolder('lines');
      expect(end).toMatchObject({ status: 409, body: { code: 'LOCK_STALE' } });
      expect(lines).toEqual([{ article: 'milk', price: 2 }]);

      // A new attempt has a newer token.
      const again = first.add('lines', 'sugar');
      await supplier.isRequestedFor('sugar');
      supplier.reply('sugar', 1);
      expect((await again).status).toBe(201);
    }),
  );

  it(
    'lose an update without the fence',
    onServer(postgres, async () => {
      const { end, lines } = await stoppedHolder('lines-unfenced');
      expect(end.status).toBe(201);
      expect(lines).toEqual([{ article: 'tea', price: 3 }]);
    }),
  );

  it(
    'lose and refuse nothing while all holders keep their leases',
    onServer(postgres, async () => {
      const both = await Promise.all([start(), start()]);
      const articles = ['a', 'b', 'c', 'd', 'e', 'f'];
      const responses = articles.map((article, n) => both[n % 2].add('lines', article));
      await Promise.all(
        articles.map((article) => supplier.isRequestedFor(article).then(() => supplier.reply(article, 1))),
      );
      expect((await Promise.all(responses)).map(({ status }) => status)).toEqual(articles.map(() => 201));
      const lines = (await (await fetch(`${both[0].url}/orders/${id}`)).json()) as { article: string }[];
      expect(lines.map(({ article }) => article).toSorted()).toEqual(articles);
    }),
  );
});
