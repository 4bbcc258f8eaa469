import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { createClient } from 'redis';
import { getLockServiceToken, LockUnavailableError, memory, type LockService } from 'nestjs-redis-lock';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { eventually } from '../support/async.js';
import { lockModule } from '../support/lock-module.js';
import { RedisProxy } from '../support/proxy.js';
import type { InstanceOptions } from '../support/redis-locks.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';

/** An application, with what its module instance has logged. */
interface Started {
  readonly app: INestApplicationContext;
  readonly locks: LockService;
  readonly infos: readonly string[];
  readonly warnings: readonly string[];
}

const apps: INestApplicationContext[] = [];
const servers: (() => Promise<void>)[] = [];
let starts = 0;
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  for (const close of servers.splice(0)) await close();
});

/** Starts an application. Its module instance has a name, because an earlier one may still log. */
async function start(options: InstanceOptions, name = `start-${++starts}`): Promise<Started> {
  const imports = [lockModule({ shutdownGraceMs: 0, name, ...options })];
  @Module({ imports })
  class AppModule {}
  const [infos, warnings]: [string[], string[]] = [[], []];
  const context = name === 'default' ? 'RedisLockModule' : `RedisLockModule:${name}`;
  const keep = (lines: string[]) => (line: unknown, of: unknown) => void (of === context && lines.push(String(line)));
  const logger = { log: keep(infos), warn: keep(warnings), error: keep(warnings) };
  const app = await NestFactory.createApplicationContext(AppModule, { logger, abortOnError: false });
  apps.push(app);
  return { app, locks: app.get(getLockServiceToken(name)), infos, warnings };
}

/** Starts a server that does this with each connection. Returns its port. */
async function serve(onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  servers.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** A port of this machine that nobody listens to. */
const CLOSED = 1;
const port = (): number => Number(new URL(testRedisUrl()).port);

describe('the line of the start', () => {
  it.each<[string, () => InstanceOptions, RegExp]>([
    ['a URL', () => ({ redis: testRedisUrl() }), /^Locks are in redis:\/\/127\.0\.0\.1:\d+, keys begin with lock_\.$/],
    ['no option', () => ({}), /^Locks are in redis:\/\/127\.0\.0\.1:6379, keys begin with lock_\.$/],
    ['undefined', () => ({ redis: undefined }), /^Locks are in redis:\/\/127\.0\.0\.1:6379, /],
    [
      'TLS, a user, a password and a database',
      () => ({ redis: `rediss://me:secret@127.0.0.1:${CLOSED}/3`, prefix: 'shop:' }),
      /^Locks are in rediss:\/\/127\.0\.0\.1:1\/3, keys begin with shop:\.$/,
    ],
    [
      'options with a key prefix',
      () => ({ redis: { host: '127.0.0.1', port: port(), keyPrefix: 'app:' } }),
      /^Locks are in redis:\/\/127\.0\.0\.1:\d+, keys begin with app:lock_\.$/,
    ],
    [
      'no prefix',
      () => ({ redis: testRedisUrl(), prefix: '' }),
      /^Locks are in redis:\/\/127\.0\.0\.1:\d+, keys have no prefix\.$/,
    ],
    [
      'a key function',
      () => ({ redis: testRedisUrl(), key: (resource) => resource }),
      /^Locks are in redis:\/\/127\.0\.0\.1:\d+\.$/,
    ],
    [
      'a socket',
      () => ({ redis: '/run/there-is-none.sock?db=2' }),
      /^Locks are in \/run\/there-is-none\.sock, database 2, keys begin/,
    ],
    [
      'Sentinels',
      () => ({
        redis: { sentinels: [{ host: '127.0.0.1', port: CLOSED }, { host: 'b' }], name: 'shop', password: 'secret' },
      }),
      /^Locks are in shop of the Sentinels 127\.0\.0\.1:1, b:6379, keys begin with lock_\.$/,
    ],
    [
      'a cluster',
      () => ({ redis: { nodes: [`redis://:secret@127.0.0.1:${CLOSED}`, { host: '127.0.0.1', port: 2 }] } }),
      /^Locks are in the cluster of 127\.0\.0\.1:1, 127\.0\.0\.1:2, keys begin with lock_\.$/,
    ],
    [
      'a quorum',
      () => ({ store: quorum([1, 2, 3].map((node) => `redis://:secret@127.0.0.1:${node}`)) }),
      /^Locks are in redis:\/\/127\.0\.0\.1:1, redis:\/\/127\.0\.0\.1:2, redis:\/\/127\.0\.0\.1:3, keys begin/,
    ],
    [
      'memory()',
      () => ({ store: memory() }),
      /^Locks are in the memory of this process, so other processes do not see them\.$/,
    ],
  ])('says where the locks are: %s', async (_, options, line) => {
    const { infos } = await start(options());
    expect(infos).toEqual([expect.stringMatching(line)]);
    expect(infos.join()).not.toContain('secret');
  });

  it('says it for clients of the application, and without a name', async () => {
    const cluster = new Cluster([{ host: '127.0.0.1', port: CLOSED }, 'redis://[::1]:2'], { lazyConnect: true });
    const ofCluster = await start({ redis: cluster });
    cluster.disconnect();
    const client = createClient({ url: `redis://:secret@127.0.0.1:${CLOSED}/5` });
    const ofClient = await start({ redis: fromNodeRedis(client) }, 'default');
    expect([...ofCluster.infos, ...ofClient.infos]).toEqual([
      'Locks are in the cluster of 127.0.0.1:1, [::1]:2, keys begin with lock_.',
      'Locks are in redis://127.0.0.1:1/5, keys begin with lock_.',
    ]);
  });
});

describe('a server that cannot be reached', () => {
  it.each([
    ['refuses the connection', async () => `redis://127.0.0.1:${CLOSED}`, 'ECONNREFUSED'],
    ['refuses the password', async () => testRedisUrl().replace('redis://', 'redis://me:secret@'), 'WRONGPASS'],
    [
      'resets the connection',
      async () => `redis://127.0.0.1:${await serve((socket) => socket.once('data', () => socket.resetAndDestroy()))}`,
      'does the server expect TLS (rediss://)?',
    ],
    [
      'does not reply to the TLS handshake',
      async () => `rediss://127.0.0.1:${await serve(() => undefined)}`,
      'does the server expect no TLS (redis://)?',
    ],
    [
      'resets the connection in the TLS handshake',
      async () => `rediss://127.0.0.1:${await serve((socket) => socket.once('data', () => socket.resetAndDestroy()))}`,
      'does the server expect no TLS (redis://)?',
    ],
    [
      'has no TLS',
      async () => testRedisUrl().replace('redis://', 'rediss://'),
      'does the server expect no TLS (redis://)?',
    ],
    [
      'replies to the TLS handshake with something else',
      async () =>
        `rediss://127.0.0.1:${await serve((socket) => socket.once('data', () => socket.write('-ERR what\r\n')))}`,
      'does the server expect no TLS (redis://)?',
    ],
  ])('is named with the reason: it %s', async (_, prepare, reason) => {
    const url = await prepare();
    const place = url.replace('me:secret@', '');
    const { locks, warnings } = await start({ redis: url, unavailableAfterMs: 100, requestTimeoutMs: 300 });
    const failure: unknown = await locks.acquire('goods:300').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockUnavailableError);
    const { message } = failure as Error;
    await eventually('it is logged', () => warnings.length > 0);
    const ping = (await locks.ping()).servers[0].error;
    expect(warnings[0]).toContain(`Redis cannot be reached at ${place}, `);
    expect(message).toContain(`Redis is at ${place}.`);
    for (const text of [warnings[0], message, ping]) expect(text).toContain(reason);
    expect([...warnings, message, ping].join()).not.toContain('secret');
  });

  it('is named when it goes and when it is back, without a question about TLS', async () => {
    const proxy = await RedisProxy.start(testRedisUrl());
    servers.push(() => proxy.close());
    const { locks, infos, warnings } = await start({ redis: proxy.url, requestTimeoutMs: 300 });
    await eventually('it is up', async () => (await locks.ping()).isUp);
    await proxy.refuseConnections();
    proxy.reset();
    await eventually('it is logged', () => warnings.length > 0);
    await proxy.acceptConnections();
    await eventually('it is back', () => infos.length > 1);
    expect(warnings).toEqual([expect.stringContaining(`Redis cannot be reached at ${proxy.url}, `)]);
    expect(warnings.join()).not.toContain('TLS');
    expect(infos[1]).toContain(`Redis can be reached again at ${proxy.url} after`);
  });
});

describe("checks: 'error'", () => {
  it.each<[string, () => InstanceOptions, RegExp]>([
    [
      'one server',
      () => ({ redis: `redis://:secret@127.0.0.1:${CLOSED}` }),
      /^Redis cannot be reached at redis:\/\/127\.0\.0\.1:1, .*: connect ECONNREFUSED 127\.0\.0\.1:1\.$/,
    ],
    [
      'a server that refuses the password',
      () => ({ redis: testRedisUrl().replace('redis://', 'redis://me:secret@') }),
      /^Redis cannot be reached at redis:\/\/127\.0\.0\.1:\d+, .*: .*(?:WRONGPASS|NOAUTH).*[^.]\.$/,
    ],
    [
      'a cluster',
      () => ({ redis: { nodes: [{ host: '127.0.0.1', port: CLOSED }] } }),
      /^Redis cannot be reached at the cluster of 127\.0\.0\.1:1, .*: slots without a known master: 16384 \(.*\)\.$/,
    ],
    [
      'a quorum',
      () => ({ store: quorum([testRedisUrl(), 'redis://127.0.0.1:1', 'redis://127.0.0.1:2']) }),
      /^Redis cannot be reached at .*: 127\.0\.0\.1:1: connect ECONNREFUSED .*; 127\.0\.0\.1:2: connect ECONNREFUSED/,
    ],
  ])('fails the start without Redis, and leaves nothing open: %s', async (_, options, message) => {
    const starting = start({ checks: 'error', requestTimeoutMs: 300, ...options() });
    const failure: unknown = await starting.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockUnavailableError);
    expect((failure as Error).message).toMatch(message);
    expect((failure as Error).message).not.toContain('secret');
  });

  it.each<[string, () => InstanceOptions]>([
    ['Redis', () => ({ redis: testRedisUrl() })],
    ['memory()', () => ({ store: memory() })],
  ])('starts with %s', async (_, options) => {
    const { warnings } = await start({ checks: 'error', ...options() });
    expect(warnings).toEqual([]);
  });
});

describe('a client of the application that quits first', () => {
  it.each([
    ['released later', 60_000],
    ['lost with the application', 0],
  ])('leaves a lock behind, and the log names the rest of the lease: %s', async (_, shutdownGraceMs) => {
    const client = new Redis(testRedisUrl());
    const own = { redis: client, prefix: uniquePrefix(), ttlMs: 600_000 };
    const { app, locks, warnings } = await start({ ...own, shutdownGraceMs });
    const lock = await locks.acquire('goods:300');
    await client.quit();
    // The reply to QUIT arrives before the connection is closed, and a request between them gets another error.
    await eventually('the connection is closed', () => client.status === 'end');
    const closing = app.close();
    await eventually('the shutdown begins', () => locks.isShuttingDown);
    await lock.release().catch(() => undefined);
    await closing;
    expect(warnings).toContain(
      'goods:300 may stay locked for 600.0 s, because its release failed during the shutdown: ' +
        'No usable reply for a release: there is no connection.',
    );
  });
});
