import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { InjectLockService, Locked, LockService, runInLockScope } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually } from '../support/async.js';
import { lockModule } from '../support/lock-module.js';
import { Masters } from '../support/masters.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { closeApps, startApp, type TestApp } from './support/app.js';

@Injectable()
class Accounts {
  constructor(
    @InjectLockService() readonly locks: LockService,
    @InjectLockService('php') readonly php: LockService,
    @InjectLockService('java') readonly java: LockService,
    @InjectLockService('masters') readonly masters: LockService,
  ) {}

  @Locked('account:<id>', { name: 'php' })
  async pay(id: number, work: () => Promise<void> = () => Promise.resolve()): Promise<readonly (string | undefined)[]> {
    const resource = `account:${id}`;
    return this.java.using(resource, () =>
      this.masters.using(resource, () =>
        this.locks.using(resource, async () => {
          await work();
          return [this.locks, this.php, this.java, this.masters].map((locks) => locks.current()?.key);
        }),
      ),
    );
  }
}

let masters: Masters;
let redis: Redis;

beforeAll(async () => {
  masters = await new Masters(3).start();
  redis = new Redis(testRedisUrl());
});
afterEach(closeApps);
afterAll(async () => {
  await redis.quit();
  await masters.close();
});

async function start(): Promise<TestApp> {
  const prefix = uniquePrefix();
  const app = await startApp({
    prefix,
    lockModules: () => {
      const shared = { redis: testRedisUrl(), prefix, waitMs: 0, requestTimeoutMs: 120_000 };
      return [
        lockModule(shared),
        lockModule({
          ...shared,
          name: 'php',
          store: timestamp(),
          key: (resource) => `${prefix}${resource}_lock`,
        }),
        lockModule({ ...shared, name: 'java', store: redisson(), key: (resource) => prefix + resource }),
        lockModule({
          ...shared,
          name: 'masters',
          store: quorum(masters.urls, { nodeTimeoutMs: 60_000 }),
        }),
      ];
    },
    providers: [Accounts],
  });
  // A vote does not wait for a node that still connects.
  const { masters: quorumLocks } = app.nest.get(Accounts);
  await eventually('all masters are up', async () => (await quorumLocks.ping()).servers.every(({ isUp }) => isUp));
  return app;
}

/** Waits until every master has the lock. A majority is enough for its grant. */
const onAllMasters = (key: string): Promise<void> =>
  eventually('all masters have it', async () => {
    const found = await Promise.all(masters.admins.map((admin) => admin.exists(key)));
    return found.every((count) => count === 1);
  });

it('one application uses module instances with every store', async () => {
  const app = await start();
  const accounts = app.nest.get(Accounts);
  const own = `{${app.prefix}account}:1`;
  const [php, java] = [`${app.prefix}account:1_lock`, `${app.prefix}account:1`];
  const types = async (client: Redis, keys: string[]) => Promise.all(keys.map((key) => client.type(key)));
  const keys = await accounts.pay(1, async () => {
    expect(await types(redis, [own, php, java])).toEqual(['string', 'string', 'hash']);
    const [now] = (await redis.time()).map(Number);
    expect(Number(await redis.get(php))).toBeGreaterThan(now);
    await onAllMasters(own);
    for (const admin of masters.admins)
      expect(await types(admin, [own, php, java])).toEqual(['string', 'none', 'none']);
  });
  expect(keys).toEqual([own, php, java, own]);
  expect(await redis.exists(own, php, java)).toBe(0);
});

it('a lock scope keeps the locks of all stores until it has settled', async () => {
  const app = await start();
  const accounts = app.nest.get(Accounts);
  const own = `{${app.prefix}account}:1`;
  const keys = [own, `${app.prefix}account:1_lock`, `${app.prefix}account:1`];
  await runInLockScope(async () => {
    await accounts.pay(1);
    expect(await redis.exists(...keys)).toBe(3);
    await onAllMasters(own);
    // With a `waitMs` of 0, only nested holds can get them.
    await accounts.pay(1);
  });
  expect(await redis.exists(...keys)).toBe(0);
  for (const admin of masters.admins) expect(await admin.exists(own)).toBe(0);
});
