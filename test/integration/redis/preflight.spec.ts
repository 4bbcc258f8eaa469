import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type DynamicModule, type INestApplication, Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockConfigError, type LockService, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { findingsIn } from '../../../lib/redis/preflight.js';
import { lockModule } from '../../support/lock-module.js';
import type { RedisProxy } from '../../support/proxy.js';
import { RedisCluster, startRedis } from '../../support/redis/index.js';
import { eventually, type InstanceOptions } from '../../support/redis-locks.js';
import type { RequestLog } from '../../support/request-log.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';

/** No limit of a request ends during a test. */
const PATIENT = { requestTimeoutMs: 60_000, waitMs: 60_000 };

const here = forTests(new Contention());
let proxy: RedisProxy;
let log: RequestLog;

beforeEach(async () => {
  ({ proxy, log } = await here.way());
});
afterEach(() => configure('noeviction', '0'));

async function configure(policy: string, maxmemory: string): Promise<void> {
  await here.admin.config('SET', 'maxmemory-policy', policy);
  await here.admin.config('SET', 'maxmemory', maxmemory);
}

// The ready check of ioredis is an INFO, too.
const start = (options: RedisLockModuleOptions = {}): LockService =>
  here.instance({ ...PATIENT, redis: { host: '127.0.0.1', port: proxy.port, enableReadyCheck: false }, ...options });

/** Waits until the reply to the last INFO has come: the next reply comes after it. */
async function looked(locks: LockService, times: number): Promise<void> {
  await eventually(`INFO is sent ${times} times`, () => log.count('info') === times);
  await locks.using('goods:300', () => undefined);
}

const evicts = (policy: string, address: string): string =>
  `Redis at ${address} may delete locks that are held, because its maxmemory-policy is ${policy}. ` +
  'Set the policy to noeviction, and keep a cache on another server.';

/** The warnings without those of an outage. */
const findings = (): readonly string[] => here.warnings.filter((line) => line.startsWith('Redis at'));

const viaProxy = (): string => `127.0.0.1:${proxy.port}`;

describe('the preflight on one server', () => {
  it.each([
    ['token()', {}],
    ['redisson()', { store: redisson() }],
    ['timestamp()', { store: timestamp() }],
  ])('warns %s of a policy that evicts locks', async (_, options) => {
    await configure('volatile-lru', '100mb');
    await looked(start(options), 1);
    expect(here.warnings).toEqual([evicts('volatile-lru', viaProxy())]);
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
    const replica = await startRedis({ local: true, args: ['--replicaof', '127.0.0.1', String(here.server.port)] });
    try {
      here.instance({ ...PATIENT, redis: replica.url });
      const at = `127.0.0.1:${replica.port}`;
      const line = `Redis at ${at} is a replica and refuses writes. Connect to the master, for example through Sentinel.`;
      await eventually('it warns', () => here.warnings.length > 0);
      expect(here.warnings).toEqual([line]);
    } finally {
      await here.clear();
      await replica.stop();
    }
  });

  it('says nothing if INFO is refused', async () => {
    await configure('volatile-lru', '100mb');
    await here.guest('&*', '+@all', '-info');
    const guest = { host: '127.0.0.1', port: proxy.port, username: 'guest', password: 'any', enableReadyCheck: false };
    const locks = start({ redis: guest, checks: 'error' });
    await looked(locks, 1);
    await here.running.preflight();
    expect([...here.warnings, ...here.running.errors]).toEqual([]);
  });

  it('sends no INFO if it is off', async () => {
    await configure('volatile-lru', '100mb');
    const locks = start({ checks: 'off' });
    await locks.using('goods:300', () => undefined);
    proxy.reset();
    await locks.using('goods:300', () => undefined);
    expect([log.count('info'), findings()]).toEqual([0, []]);
  });

  it('connects a lazy client of the caller only if findings are an error', async () => {
    await configure('volatile-lru', '100mb');
    const lazy = () => here.client({ lazyConnect: true, enableReadyCheck: false }, proxy.url);
    const [warned, failed] = [lazy(), lazy()];
    start({ redis: warned });
    expect(warned.status).toBe('wait');
    start({ redis: failed, checks: 'error' });
    await expect(here.running.preflight()).rejects.toThrow(evicts('volatile-lru', viaProxy()));
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
      here.instance({ ...PATIENT, store: quorum(servers.map(({ url }) => url)) });
      const lines = [
        evicts('volatile-ttl', `127.0.0.1:${servers[0].port}`),
        evicts('allkeys-random', `127.0.0.1:${servers[2].port}`),
      ];
      await eventually('it warns of two', () => here.warnings.length > 1);
      expect(here.warnings.toSorted()).toEqual(lines.toSorted());
    } finally {
      await here.clear();
      await Promise.all(servers.map((one) => one.stop()));
    }
  });
});

it('the preflight in a cluster warns once of each master that has a policy', async () => {
  const cluster = await RedisCluster.start({ replicas: false });
  try {
    const [first, , last] = cluster.masters;
    for (const { admin } of [first, last]) {
      await admin.config('SET', 'maxmemory-policy', 'volatile-lfu');
      await admin.config('SET', 'maxmemory', '100mb');
    }
    here.instance({ ...PATIENT, redis: { nodes: cluster.nodes } });
    const lines = [first, last].map(({ server: { port } }) => evicts('volatile-lfu', `127.0.0.1:${port}`));
    await eventually('it warns of two', () => here.warnings.length > 1);
    expect(here.warnings.toSorted()).toEqual(lines.toSorted());
  } finally {
    await here.clear();
    await cluster.close();
  }
});

describe('an application on a Redis that evicts locks', () => {
  let apps: INestApplication[];
  let warnings: string[];
  let errors: string[];

  beforeEach(async () => {
    [apps, warnings, errors] = [[], [], []];
    await configure('volatile-lru', '100mb');
  });
  afterEach(async () => {
    await Promise.all(apps.map((app) => app.close()));
    Logger.overrideLogger(new Logger());
  });

  /** Makes an application with the module, whose log is recorded. */
  async function appOf(locks: DynamicModule): Promise<INestApplication> {
    const logger = {
      log: () => undefined,
      warn: (line: string) => warnings.push(line),
      error: (line: string) => errors.push(line),
    };
    const testing = await Test.createTestingModule({ imports: [locks] })
      .setLogger(logger)
      .compile();
    const app = testing.createNestApplication();
    apps.push(app);
    return app;
  }

  const create = (options: InstanceOptions): Promise<INestApplication> =>
    appOf(lockModule({ redis: proxy.url, ...options }));
  const finding = (): string => evicts('volatile-lru', viaProxy());

  it('starts without waiting for the reply by default, and warns later', async () => {
    proxy.hold('replies');
    await (await create({ requestTimeoutMs: 60_000 })).init();
    expect(warnings).toEqual([]);
    proxy.resume('replies');
    await eventually('it warns', () => warnings.length > 0);
    expect([warnings, errors]).toEqual([[finding()], []]);
  });

  it('does not start if findings are errors, and leaves no connection', async () => {
    const connectionName = 'refused';
    const redis = { host: '127.0.0.1', port: proxy.port, connectionName };
    const app = await create({ redis, checks: 'error', requestTimeoutMs: 60_000 });
    const failure: unknown = await app.init().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockConfigError);
    expect((failure as Error).message).toBe(finding());
    expect(warnings).toEqual([]);
    const connected = async (): Promise<boolean> => String(await here.admin.client('LIST')).includes(connectionName);
    await eventually('the connection is closed', async () => !(await connected()));
  });
});

/** What a server replies to INFO, with some fields changed or, if undefined, left out. */
function infoOf(changes: Readonly<Record<string, string | undefined>>): string {
  const fields: Record<string, string | undefined> = {
    redis_version: '7.2.4',
    maxmemory: '1048576',
    maxmemory_policy: 'noeviction',
    role: 'master',
    cluster_enabled: '0',
    ...changes,
  };
  const lines = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `# Server\r\n${lines.map(([name, value]) => `${name}:${value}`).join('\r\n')}\r\n`;
}

const problemsOf = (changes: Readonly<Record<string, string | undefined>>, isOfCluster = false): readonly string[] =>
  findingsIn(infoOf(changes), isOfCluster).map((finding) => finding.slice(0, finding.indexOf('. ')));

describe('the reply to INFO', () => {
  it('has no finding if nothing is wrong', () => {
    expect(problemsOf({})).toEqual([]);
  });

  it.each(['volatile-lru', 'volatile-lfu', 'volatile-ttl', 'volatile-random', 'allkeys-lru', 'allkeys-lfu'])(
    'has a finding if the policy is %s',
    (maxmemory_policy) => {
      const problem = `may delete locks that are held, because its maxmemory-policy is ${maxmemory_policy}`;
      expect(problemsOf({ maxmemory_policy })).toEqual([problem]);
      // Some services hide their limit.
      expect(problemsOf({ maxmemory_policy, maxmemory: undefined })).toEqual([problem]);
      expect(problemsOf({ maxmemory_policy }, true)).toEqual([problem]);
    },
  );

  it('has no finding if the policy has no limit that it could apply to', () => {
    expect(problemsOf({ maxmemory_policy: 'volatile-lru', maxmemory: '0' })).toEqual([]);
  });

  it.each([
    ['5.0.14', {}, true],
    ['6.0.20', {}, true],
    ['6.2.0', {}, false],
    ['6.10.0', {}, false],
    ['7.0.15', {}, false],
    ['10.0.0', {}, false],
    // For compatibility other servers report a version of Redis, which says nothing about them.
    ['4.0.0', { kvrocks_version: '2.9.0' }, false],
    ['6.0.0', { valkey_version: '9.0.0' }, false],
    ['255.255.255', {}, false],
    ['unstable', {}, false],
  ])('knows whether version %s is too old', (redis_version, others, isOld) => {
    const expected = isOld ? [`has version ${redis_version}`] : [];
    expect(problemsOf({ redis_version, ...others })).toEqual(expected);
  });

  it.each(['slave', 'replica'])('has a finding if the role is %s', (role) => {
    expect(problemsOf({ role, slave_read_only: '1' })).toEqual(['is a replica and refuses writes']);
    expect(problemsOf({ role, slave_read_only: '0' })).toEqual([
      'is a writable replica, and its master overwrites locks',
    ]);
    // The client of a cluster knows the roles.
    expect(problemsOf({ role }, true)).toEqual([]);
  });

  it('has a finding if a KeyDB accepts writes beside its master', () => {
    const problem = 'is an active replica, and the other server overwrites locks';
    expect(problemsOf({ role: 'active-replica', slave_read_only: '0' })).toEqual([problem]);
  });

  it.each(['', 'garbage', ':::', 'maxmemory_policy', '\r\n\r\n', 'redis_version:\r\nrole:\r\nmaxmemory_policy:'])(
    'has no finding if it is unparsable: %j',
    (info) => {
      expect(findingsIn(info, false)).toEqual([]);
    },
  );
});
