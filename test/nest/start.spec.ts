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

/** Starts a server that does this with each connection. Returns its host. */
async function serve(onConnection: (socket: Socket) => unknown): Promise<string> {
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
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A port of this machine that nobody listens to. */
const CLOSED = 1;
const { host, port } = new URL(testRedisUrl());
const KEYS = 'keys begin with lock_';

describe('the line of the start', () => {
  const nodes = [`redis://:secret@127.0.0.1:${CLOSED}`, { host: '127.0.0.1', port: 2 }];
  const sentinels = [{ host: '127.0.0.1', port: CLOSED }, { host: 'b' }];
  const masters = [1, 2, 3].map((node) => `redis://:secret@127.0.0.1:${node}`);
  const ofUser = `rediss://me:secret@127.0.0.1:${CLOSED}/3`;
  const withPrefix = { host: '127.0.0.1', port: Number(port), keyPrefix: 'app:' };

  it.each<[string, InstanceOptions, line: string]>([
    ['a URL', { redis: testRedisUrl() }, `redis://${host}, ${KEYS}`],
    ['no option', {}, `redis://127.0.0.1:6379, ${KEYS}`],
    ['undefined', { redis: undefined }, `redis://127.0.0.1:6379, ${KEYS}`],
    ['TLS, a user and a database', { redis: ofUser, prefix: 'a:' }, 'rediss://127.0.0.1:1/3, keys begin with a:'],
    ['options with a key prefix', { redis: withPrefix }, `redis://${host}, keys begin with app:lock_`],
    ['no prefix', { redis: testRedisUrl(), prefix: '' }, `redis://${host}, keys have no prefix`],
    ['a key function', { redis: testRedisUrl(), key: (resource) => resource }, `redis://${host}`],
    ['a socket', { redis: '/run/there-is-none.sock?db=2' }, `/run/there-is-none.sock, database 2, ${KEYS}`],
    [
      'Sentinels',
      { redis: { sentinels, name: 'shop', password: 'secret' } },
      `shop of the Sentinels 127.0.0.1:1, b:6379, ${KEYS}`,
    ],
    ['a cluster', { redis: { nodes } }, `the cluster of 127.0.0.1:1, 127.0.0.1:2, ${KEYS}`],
    ['a quorum', { store: quorum(masters) }, `redis://127.0.0.1:1, redis://127.0.0.1:2, redis://127.0.0.1:3, ${KEYS}`],
    ['memory()', { store: memory() }, 'the memory of this process, so other processes do not see them'],
  ])('says where the locks are: %s', async (_, options, line) => {
    const { infos } = await start(options);
    expect(infos).toEqual([`Locks are in ${line}.`]);
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
  const resets = (socket: Socket): unknown => socket.once('data', () => socket.resetAndDestroy());
  const replies = (socket: Socket): unknown => socket.once('data', () => socket.write('-ERR what\r\n'));
  const NO_TLS = 'does the server expect no TLS (redis://)?';

  it.each([
    ['refuses the connection', async () => `redis://127.0.0.1:${CLOSED}`, 'ECONNREFUSED'],
    ['refuses the password', async () => testRedisUrl().replace('redis://', 'redis://me:secret@'), 'WRONGPASS'],
    ['resets the connection', async () => `redis://${await serve(resets)}`, 'does the server expect TLS (rediss://)?'],
    ['does not reply to the TLS handshake', async () => `rediss://${await serve(() => undefined)}`, NO_TLS],
    ['resets the connection in the TLS handshake', async () => `rediss://${await serve(resets)}`, NO_TLS],
    ['has no TLS', async () => testRedisUrl().replace('redis://', 'rediss://'), NO_TLS],
    ['replies to the TLS handshake with something else', async () => `rediss://${await serve(replies)}`, NO_TLS],
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
  const wrongUser = testRedisUrl().replace('redis://', 'redis://me:secret@');
  const minority = quorum([testRedisUrl(), 'redis://127.0.0.1:1', 'redis://127.0.0.1:2']);

  it.each<[string, InstanceOptions, place: string, reason: RegExp]>([
    [
      'one server',
      { redis: `redis://:secret@127.0.0.1:${CLOSED}` },
      'redis://127.0.0.1:1',
      /: connect ECONNREFUSED 127\.0\.0\.1:1\.$/,
    ],
    ['a server that refuses the password', { redis: wrongUser }, `redis://${host}`, /(?:WRONGPASS|NOAUTH).*[^.]\.$/],
    [
      'a cluster',
      { redis: { nodes: [{ host: '127.0.0.1', port: CLOSED }] } },
      'the cluster of 127.0.0.1:1',
      /: slots without a known master: 16384 \(.*\)\.$/,
    ],
    ['a quorum', { store: minority }, testRedisUrl(), /: 127\.0\.0\.1:1: connect ECONNREFUSED .*; 127\.0\.0\.1:2: /],
  ])('fails the start without Redis, and leaves nothing open: %s', async (_, options, place, reason) => {
    const starting = start({ checks: 'error', requestTimeoutMs: 300, ...options });
    const failure = (await starting.catch((error: unknown) => error)) as Error;
    expect(failure).toBeInstanceOf(LockUnavailableError);
    expect(failure.message).toContain(`Redis cannot be reached at ${place}, `);
    expect(failure.message).toMatch(reason);
    expect(failure.message).not.toContain('secret');
  });

  it.each<[string, InstanceOptions]>([
    ['Redis', { redis: testRedisUrl() }],
    ['memory()', { store: memory() }],
  ])('starts with %s', async (_, options) => {
    const { warnings } = await start({ checks: 'error', ...options });
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
