import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { RedisProxy } from '../../support/proxy.js';
import { RedisCluster, type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { RequestLog } from '../../support/request-log.js';

/** No limit of a request ends during a test. */
const PATIENT = { requestTimeoutMs: 60_000, waitMs: 60_000 };

let server: RedisServer;
let admin: Redis;
let proxy: RedisProxy;
let log: RequestLog;
let running: RedisLocks;
const clients: Redis[] = [];

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
beforeEach(async () => {
  proxy = await RedisProxy.start(server.url);
  log = new RequestLog(proxy);
  running = new RedisLocks();
});
afterEach(async () => {
  await running.close();
  for (const client of clients.splice(0)) client.disconnect();
  await proxy.close();
  await admin.flushall();
  await configure('noeviction', '0');
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

async function configure(policy: string, maxmemory: string): Promise<void> {
  await admin.config('SET', 'maxmemory-policy', policy);
  await admin.config('SET', 'maxmemory', maxmemory);
}

// The ready check of ioredis is an INFO, too.
const start = (options: RedisLockModuleOptions = {}): LockService =>
  running.start({ ...PATIENT, redis: { port: proxy.port, enableReadyCheck: false }, ...options });

/** Waits until the reply to the last INFO has come: the next reply comes after it. */
async function looked(locks: LockService, times: number): Promise<void> {
  await eventually(`INFO is sent ${times} times`, () => log.count('info') === times);
  await locks.using('goods:300', () => undefined);
}

const evicts = (policy: string, ...addresses: readonly string[]): string =>
  `Redis at ${addresses.join(', ')} may delete locks that are held, because its maxmemory-policy is ${policy}. ` +
  'Set the policy to noeviction, and keep a cache on another server.';

/** The warnings without those of an outage. */
const findings = (): readonly string[] => running.warnings.filter((line) => line.startsWith('Redis at'));

const viaProxy = (): string => `127.0.0.1:${proxy.port}`;

describe('the preflight on one server', () => {
  it.each([
    ['token()', {}],
    ['redisson()', { store: redisson() }],
    ['timestamp()', { store: timestamp() }],
  ])('warns %s of a policy that evicts locks', async (_, options) => {
    await configure('volatile-lru', '100mb');
    await looked(start(options), 1);
    expect(running.warnings).toEqual([evicts('volatile-lru', viaProxy())]);
  });

  it('looks again after a reconnect, and warns only of what has changed', async () => {
    const locks = start();
    await looked(locks, 1);
    expect(findings()).toEqual([]);
    const again = async (times: number): Promise<void> => {
      proxy.reset();
      await looked(locks, times);
    };
    // Without a limit nothing is evicted.
    await configure('volatile-lru', '0');
    await again(2);
    expect(findings()).toEqual([]);
    await configure('volatile-lru', '100mb');
    await again(3);
    await again(4);
    expect(findings()).toEqual([evicts('volatile-lru', viaProxy())]);
    await configure('allkeys-lfu', '100mb');
    await again(5);
    await configure('noeviction', '100mb');
    await again(6);
    await configure('allkeys-lfu', '100mb');
    await again(7);
    const changed = evicts('allkeys-lfu', viaProxy());
    expect(findings()).toEqual([evicts('volatile-lru', viaProxy()), changed, changed]);
  });

  it('warns of a replica', async () => {
    const replica = await startRedis({ local: true, args: ['--replicaof', '127.0.0.1', String(server.port)] });
    try {
      running.start({ ...PATIENT, redis: replica.url });
      const at = `127.0.0.1:${replica.port}`;
      const line = `Redis at ${at} is a replica and refuses writes. Connect to the master, for example through Sentinel.`;
      await eventually('it warns', () => running.warnings.length > 0);
      expect(running.warnings).toEqual([line]);
    } finally {
      await running.close();
      await replica.stop();
    }
  });

  it('says nothing if INFO is refused', async () => {
    await configure('volatile-lru', '100mb');
    await admin.call('ACL', 'SETUSER', 'limited', 'on', 'nopass', '~*', '&*', '+@all', '-info');
    const locks = start({
      redis: { port: proxy.port, username: 'limited', password: 'any', enableReadyCheck: false },
      checks: { server: 'error' },
    });
    await looked(locks, 1);
    await running.preflight();
    expect([...running.warnings, ...running.errors]).toEqual([]);
  });

  it('sends no INFO if it is off', async () => {
    await configure('volatile-lru', '100mb');
    const locks = start({ checks: { server: 'off' } });
    await locks.using('goods:300', () => undefined);
    proxy.reset();
    await locks.using('goods:300', () => undefined);
    expect([log.count('info'), findings()]).toEqual([0, []]);
  });

  it('sends one INFO for each connection, which no lock waits for', async () => {
    let held = 0;
    proxy.filter = (words) => {
      if (words[0].toLowerCase() === 'info') held += 1;
      return undefined;
    };
    const locks = start();
    await locks.using('goods:300', () => undefined);
    await locks.using('goods:300', () => undefined);
    expect(held).toBe(1);
  });

  it('leaves a client of the caller as it was', async () => {
    await configure('volatile-lru', '100mb');
    const client = new Redis({ port: proxy.port, enableReadyCheck: false });
    clients.push(client);
    await client.ping();
    const listeners = () => client.eventNames().map((name) => [name, client.listenerCount(name)]);
    const before = listeners();
    await looked(start({ redis: client }), 1);
    expect(running.warnings).toEqual([evicts('volatile-lru', viaProxy())]);
    await running.close();
    expect(listeners()).toEqual(before);
    expect(client.status).toBe('ready');
  });

  it('connects a lazy client of the caller only if findings are an error', async () => {
    await configure('volatile-lru', '100mb');
    const lazy = (): Redis => new Redis({ port: proxy.port, lazyConnect: true, enableReadyCheck: false });
    const [warned, failed] = [lazy(), lazy()];
    clients.push(warned, failed);
    start({ redis: warned });
    expect(warned.status).toBe('wait');
    start({ redis: failed, checks: { server: 'error' } });
    await expect(running.preflight()).rejects.toThrow(evicts('volatile-lru', viaProxy()));
  });
});

describe('the preflight on the nodes of a quorum', () => {
  it('warns of each', async () => {
    const servers = await Promise.all(
      ['volatile-ttl', 'noeviction', 'allkeys-random'].map((policy) =>
        startRedis({ local: true, args: ['--maxmemory-policy', policy, '--maxmemory', '100mb'] }),
      ),
    );
    try {
      running.start({ ...PATIENT, store: quorum(servers.map(({ url }) => url)) });
      const lines = [
        evicts('volatile-ttl', `127.0.0.1:${servers[0].port}`),
        evicts('allkeys-random', `127.0.0.1:${servers[2].port}`),
      ];
      await eventually('it warns of two', () => running.warnings.length > 1);
      expect(running.warnings.toSorted()).toEqual(lines.toSorted());
    } finally {
      await running.close();
      await Promise.all(servers.map((one) => one.stop()));
    }
  });
});

describe('the preflight in a cluster', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: false });
  });
  afterAll(() => cluster.close());

  it('says nothing if nothing is wrong', async () => {
    const locks = running.start({ ...PATIENT, redis: { nodes: cluster.nodes }, checks: { server: 'error' } });
    await running.preflight();
    await locks.using('goods:300', () => undefined);
    expect([...running.warnings, ...running.errors]).toEqual([]);
  });

  it('warns once of a policy, and names the masters that have it', async () => {
    const [first, , last] = cluster.masters;
    for (const { admin: node } of [first, last]) {
      await node.config('SET', 'maxmemory-policy', 'volatile-lfu');
      await node.config('SET', 'maxmemory', '100mb');
    }
    running.start({ ...PATIENT, redis: { nodes: cluster.nodes } });
    await eventually('it warns', () => running.warnings.length === 1);
    const ports = [first, last].map(({ server: { port } }) => `127.0.0.1:${port}`);
    const both = [ports, ports.toReversed()].map((addresses) => evicts('volatile-lfu', ...addresses));
    expect(both).toContain(running.warnings[0]);
  });

  it('warns if a node is used as one server', async () => {
    const { url, port } = cluster.masters[1].server;
    running.start({ ...PATIENT, redis: url });
    const line =
      `Redis at 127.0.0.1:${port} is a node of a cluster, and its client cannot use locks on other nodes. ` +
      'Pass { nodes: [...] } or an ioredis Cluster.';
    await eventually('it warns', () => running.warnings.length > 0);
    expect(running.warnings).toEqual([line]);
  });
});
