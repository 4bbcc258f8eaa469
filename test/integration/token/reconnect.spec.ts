import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type Lock, LockLostError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';

needWallClocks();

let servers: StoppedServers;
let clock: ServerManualClock;
let running: RedisLocks;
let clients: Redis[];

beforeEach(async () => {
  servers = await StoppedServers.start();
  clock = servers.clock();
  running = new RedisLocks(clock);
  clients = [];
});
afterEach(async () => {
  await running.close();
  for (const client of clients) client.disconnect();
  await servers.stop();
});

const connect = (): Redis => {
  const client = new Redis(servers.url, { maxRetriesPerRequest: null }).on('error', () => undefined);
  clients.push(client);
  return client;
};

/** Waits until a client whose connection has ended is connected again. */
const untilReady = (client: Redis): Promise<void> =>
  eventually('it is connected again', () => client.status === 'ready');

/** Waits for the loss of a lock. Returns how many milliseconds that takes. */
async function untilLost({ signal }: Lock): Promise<number> {
  const takesMs = await clock.advanceUntil('it is lost', () => signal.aborted);
  expect(signal.reason).toBeInstanceOf(LockLostError);
  return takesMs;
}

/** Restarts the server without its data. */
async function restart(): Promise<void> {
  const [server] = servers.servers;
  await server.kill();
  await server.restart();
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
    await restart();
    await untilReady(client);
    expect(await untilLost(lock)).toBe(0);
  });

  it('shows it to a holder whose lease is not renewed, and the next holder keeps its lock', async () => {
    const client = connect();
    const options = { ttlMs: 90_000, maxHoldMs: 60_000 };
    const lock = await running.start({ redis: client }).acquire('goods:300', options);
    const other = running.start({ redis: servers.url, waitMs: 60_000 });
    await restart();
    const next = await other.acquire('goods:300');
    await untilReady(client);
    expect(await untilLost(lock)).toBe(0);
    expect(await lock.release()).toBe(false);
    next.assertHeld();
    expect(await next.release()).toBe(true);
  });

  it('shows it to the holder of 1,000 locks if two are left', async () => {
    const client = connect();
    const locks = running.start({ redis: client, requestTimeoutMs: 10_000 });
    const held = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    let connections = 0;
    client.on('ready', () => (connections += 1));
    // The connection breaks, and the locks are gone except for two.
    const kept = [0, 999].map((id) => running.keyOf('goods', String(id)));
    const gone = held.slice(1, -1).map(({ key }) => key);
    await servers.admin
      .multi()
      .del(...gone)
      .call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      .exec();
    await eventually('it is connected again', () => connections === 1);
    expect(await untilLost(held[500])).toBe(0);
    expect(await servers.admin.exists(...kept)).toBe(2);
    held[0].assertHeld();
    held[999].assertHeld();
  });
});
