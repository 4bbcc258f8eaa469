import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type Lock, LockLostError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { RedisLocks } from '../../support/redis-locks.js';

/** Three times what the library promises, because the machine may be busy. */
const WITHIN_MS = 600;

let server: RedisServer;
let running: RedisLocks;
let clients: Redis[];

beforeEach(async () => {
  server = await startRedis({ local: true });
  running = new RedisLocks();
  clients = [];
});
afterEach(async () => {
  await running.close();
  for (const client of clients) client.disconnect();
  await server.stop();
});

const connect = (): Redis => {
  const client = new Redis(server.url, { maxRetriesPerRequest: null }).on('error', () => undefined);
  clients.push(client);
  return client;
};

/** Resolves with the time from the client's next `ready` to the loss of the lock, in milliseconds. */
async function lossAfterReady(client: Redis, { signal }: Lock): Promise<number> {
  const lost = new Promise<number>((resolve) => {
    signal.addEventListener('abort', () => resolve(performance.now()), { once: true });
  });
  const readyAt = await new Promise<number>((resolve) => client.once('ready', () => resolve(performance.now())));
  const lostAt = await lost;
  expect(signal.reason).toBeInstanceOf(LockLostError);
  return lostAt - readyAt;
}

const STORES: Record<string, RedisLockModuleOptions> = {
  'token()': {},
  'token() with lockDelayMs': { lockDelayMs: 5_000 },
  'redisson()': { store: redisson() },
  'timestamp()': { store: timestamp() },
  'timestamp() without scripts': { store: timestamp({ scripts: false }) },
};

describe('a Redis that restarts without its data', () => {
  it.each(Object.keys(STORES))('shows the holder at once that its lock is lost, with %s', async (store) => {
    const client = connect();
    const lock = await running.start({ redis: client, ...STORES[store] }).acquire('goods:300');
    const losing = lossAfterReady(client, lock);
    await server.kill();
    await server.restart();
    expect(await losing).toBeLessThan(WITHIN_MS);
  });

  it('shows it to the holder of renew: false, and the next holder keeps its lock', async () => {
    const client = connect();
    const options = { ttlMs: 60_000, renew: false };
    const lock = await running.start({ redis: client }).acquire('goods:300', options);
    const other = running.start({ redis: server.url, waitMs: 60_000 });
    const losing = lossAfterReady(client, lock);
    await server.kill();
    await server.restart();
    const next = await other.acquire('goods:300');
    expect(await losing).toBeLessThan(WITHIN_MS);
    expect(await lock.release()).toBe(false);
    next.assertHeld();
    expect(await next.release()).toBe(true);
  });

  it('shows it to the holder of 1,000 locks, of which two are left', async () => {
    const client = connect();
    const locks = running.start({ redis: client, requestTimeoutMs: 10_000 });
    const held = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    const admin = new Redis(server.url);
    clients.push(admin);
    // The connection breaks, and the locks are gone except for two.
    const kept = [0, 999].map((id) => running.keyOf('goods', String(id)));
    const losing = lossAfterReady(client, held[500]);
    const gone = held.slice(1, -1).map(({ key }) => key);
    await admin
      .multi()
      .del(...gone)
      .call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      .exec();
    expect(await losing).toBeLessThan(3 * WITHIN_MS);
    expect(await admin.exists(...kept)).toBe(2);
    held[0].assertHeld();
    held[999].assertHeld();
  });
});
