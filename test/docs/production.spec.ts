import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import { page, root } from '../support/pages.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { eventually, RedisLocks } from '../support/redis-locks.js';

const FILE = 'docs/production.md';
const IDENTITY = 'api-7f9c-31';

let server: RedisServer;
let admin: Redis;
const running = new RedisLocks();

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
afterAll(async () => {
  await running.close();
  admin.disconnect();
  await server.stop();
});

const bytesOf = async (key: string): Promise<number> => Number(await admin.call('MEMORY', 'USAGE', key));

function startInstance(): LockService {
  const options = {
    redis: server.url,
    prefix: 'lock_',
    identity: IDENTITY,
    checks: { server: 'off' },
    waitMs: 60_000,
  } as const;
  return running.start(options);
}

/** Measures the rows of the table, in its order. */
async function measure(): Promise<readonly (readonly [string, number])[]> {
  const instances = Array.from({ length: 11 }, startInstance);
  const [first, ...others] = instances;
  const held = await first.acquire('goods:300');
  const lock = await bytesOf('{lock_goods}:300');
  const token = await bytesOf('{lock_}|fence');
  const stop = new AbortController();
  const queue: number[] = [];
  for (const [i, other] of others.entries()) {
    other.acquire('goods:300', { signal: stop.signal }).catch(() => undefined);
    await eventually('it waits', async () => (await first.inspect('goods:300'))?.waiting.length === i + 1);
    queue.push(await bytesOf('{lock_goods}:300|queue'));
  }
  stop.abort();
  await held.release();
  await eventually('nobody waits', async () => (await first.inspect('goods:300')) === null);
  await Promise.all(others.map((other) => other.acquire('goods:300', { mode: 'shared' })));
  const shared = await bytesOf('{lock_goods}:300|queue');
  return [
    ['a held lock', lock],
    ['the queue of a lock, with one waiting instance', queue[0]],
    ['each further waiting instance', Math.round((queue[9] - queue[0]) / 9)],
    ['each of ten instances that share a lock', Math.round(shared / 10)],
    ['the token key, one for each slot in a cluster', token],
  ];
}

describe('the page on production', () => {
  it('has the memory that Redis needs, as measured', async () => {
    const measured = await measure();
    if (process.env['WRITE_FIGURES'] === '1') {
      let text = readFileSync(join(root, FILE), 'utf8');
      for (const [row, bytes] of measured) {
        const start = text.indexOf(`| ${row} `);
        const end = text.indexOf('\n', start);
        const [before] = text.slice(start, end).split(/\d+ *\|$/);
        text = `${text.slice(0, start)}${before}${String(bytes).padEnd(5)} |${text.slice(end)}`;
      }
      writeFileSync(join(root, FILE), text);
    }
    const rows = [...page(FILE).text.matchAll(/^\| ([^|]*?) +\| (\d+) +\|$/gm)];
    const written = new Map(rows.map(([, row, bytes]) => [row, Number(bytes)]));
    expect([...written.keys()]).toEqual(measured.map(([row]) => row));
    // Versions of Redis and its allocator differ.
    const off = measured.filter(([row, bytes]) => Math.abs(bytes / (written.get(row) ?? 0) - 1) > 0.5);
    expect(off).toEqual([]);
  });

  it('has an example of a prefix that works', async () => {
    process.env['REDIS_URL'] = server.url;
    const { AppModule } = await import('./prefix.js');
    const app = await Test.createTestingModule({ imports: [AppModule] }).compile();
    await app.init();
    expect(await app.get(LockService).using('goods:300', ({ key }) => key)).toBe('{shop:lock_goods}:300');
    await app.close();
  });
});
