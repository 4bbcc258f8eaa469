import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { forkSource } from '../support/lock-process.js';
import { eventually } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../support/sql/databases.js';

jest.setTimeout(90_000);

const MAIN = '../../sample/fenced-orders/src/main.ts';
const LEASE_MS = 500;
const { postgres } = SERVERS;

/** The supplier whom the application asks between reading and writing; it answers when the test says so. */
class Supplier {
  private readonly asked = new Map<string, ServerResponse>();
  private readonly server: Server = createServer((request, response) => {
    this.asked.set((request.url ?? '').slice(1), response);
  });

  async start(): Promise<string> {
    await once(this.server.listen(0, '127.0.0.1'), 'listening');
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** From then on who wants to write has read. */
  isAskedFor(article: string): Promise<void> {
    return eventually(`the price of ${article} is asked for`, () => this.asked.has(article));
  }

  tell(article: string, price: number): void {
    this.asked.get(article)?.end(String(price));
    this.asked.delete(article);
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
      const answer = await fetch(`${url}/orders/${id}/${path}`, { method: 'POST', body });
      return { status: answer.status, body: await answer.json() };
    };
    return { instance, url, add };
  }

  /** One instance reads and is stopped past its lease, the other takes the lock and adds its line, the first wakes up. */
  async function stoppedHolder(path: string) {
    const [first, second] = await Promise.all([start(), start()]);
    const late = first.add(path, 'tea');
    await supplier.isAskedFor('tea');
    first.instance.kill('SIGSTOP');
    supplier.tell('tea', 3);
    const inTime = second.add(path, 'milk');
    await supplier.isAskedFor('milk');
    supplier.tell('milk', 2);
    expect(await inTime).toEqual({ status: 201, body: [{ article: 'milk', price: 2 }] });
    first.instance.kill('SIGCONT');
    const end = await late;
    const lines = await (await fetch(`${second.url}/orders/${id}`)).json();
    return { end, lines, first };
  }

  it(
    'refuse the late write of a holder that was stopped past its lease: nothing is lost',
    onServer(postgres, async () => {
      const { end, lines, first } = await stoppedHolder('lines');
      expect(end).toMatchObject({ status: 409, body: { code: 'LOCK_STALE' } });
      expect(lines).toEqual([{ article: 'milk', price: 2 }]);

      // Done anew, it is let in.
      const again = first.add('lines', 'sugar');
      await supplier.isAskedFor('sugar');
      supplier.tell('sugar', 1);
      expect((await again).status).toBe(201);
    }),
  );

  it(
    'lose the update of the other without the fence: the control',
    onServer(postgres, async () => {
      const { end, lines } = await stoppedHolder('lines-unfenced');
      expect(end.status).toBe(201);
      expect(lines).toEqual([{ article: 'tea', price: 3 }]);
    }),
  );

  it(
    'take turns as long as nobody is late, with nothing lost and nothing refused',
    onServer(postgres, async () => {
      const both = await Promise.all([start(), start()]);
      const articles = ['a', 'b', 'c', 'd', 'e', 'f'];
      const answers = articles.map((article, n) => both[n % 2].add('lines', article));
      await Promise.all(articles.map((article) => supplier.isAskedFor(article).then(() => supplier.tell(article, 1))));
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(articles.map(() => 201));
      const lines = (await (await fetch(`${both[0].url}/orders/${id}`)).json()) as { article: string }[];
      expect(lines.map(({ article }) => article).toSorted()).toEqual(articles);
    }),
  );
});
