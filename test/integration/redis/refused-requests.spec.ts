import { afterEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import {
  type Lock,
  type LockOptions,
  type LockService,
  LockUnavailableError,
  type StoreFactory,
} from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually } from '../../support/redis-locks.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

// Before the servers are cleared.
afterEach(async () => {
  for (const fault of Object.values(FAULTS)) await onAll(fault.end);
});
const here = forTests(new StoppedContention(3));

const onAll = (command: (admin: Redis) => Promise<unknown>): Promise<unknown> =>
  Promise.all(here.servers.admins.map(command));

interface Fault {
  readonly begin: (admin: Redis) => Promise<unknown>;
  readonly end: (admin: Redis) => Promise<unknown>;
  readonly reason: RegExp;
}

/** Every command of the tests is refused until the fault ends. */
const FAULTS: Record<string, Fault> = {
  READONLY: {
    // Its master does not exist.
    begin: (admin) => admin.replicaof('127.0.0.1', 1),
    end: (admin) => admin.replicaof('NO', 'ONE'),
    reason: /this server is a read-only replica: connect to the master/,
  },
  OOM: {
    begin: (admin) => admin.config('SET', 'maxmemory', '1'),
    end: (admin) => admin.config('SET', 'maxmemory', '0'),
    reason: /OOM command not allowed/,
  },
  NOPERM: {
    begin: (admin) => admin.acl('SETUSER', 'default', 'resetkeys', '~other'),
    end: (admin) => admin.acl('SETUSER', 'default', '~*'),
    reason: /"Permissions" on the page .* lists what the user needs/,
  },
};

const refusedBy = (code: string): unknown => expect.stringMatching(FAULTS[code].reason);

const STORES: Record<string, { readonly nodes: number; readonly store: () => StoreFactory | undefined }> = {
  'token()': { nodes: 1, store: () => undefined },
  'redisson()': { nodes: 1, store: () => redisson() },
  'timestamp()': { nodes: 1, store: () => timestamp() },
  'timestamp() without scripts': { nodes: 1, store: () => timestamp({ scripts: false }) },
  'quorum()': { nodes: 3, store: () => quorum(here.servers.urls) },
};

describe.each(Object.keys(STORES))('%s', (name) => {
  const { nodes, store } = STORES[name];
  const start = (): LockService => here.instance({ store: store(), checks: 'off' });

  it.each(Object.keys(FAULTS))('logs %s once for each server', async (code) => {
    const locks = start();
    await locks.using('goods:300', () => undefined);
    await onAll(FAULTS[code].begin);
    for (let i = 0; i < 25; i++) {
      await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockUnavailableError);
    }
    expect(here.warnings).toEqual(Array.from({ length: nodes }, () => refusedBy(code)));
    await onAll(FAULTS[code].end);
    await locks.using('goods:300', () => undefined);
    expect(here.warnings).toHaveLength(nodes);
  });
});

it('several locks of one tick that a server refuses as it refuses every script are not requested one by one', async () => {
  const locks = here.instance({ unavailableAfterMs: 0, checks: 'off' });
  await locks.using(['goods:1', 'goods:2'], () => undefined);
  await onAll(FAULTS['READONLY'].begin);
  await here.admin.config('RESETSTAT');
  const calls = Array.from({ length: 5 }, (_, i) => locks.acquire(`goods:${i}`, { waitMs: 0 }));
  for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected');
  expect(await here.admin.info('commandstats')).toMatch(/cmdstat_evalsha:calls=1,/);
});

describe('a held lock', () => {
  const hold = (store?: StoreFactory, options?: LockOptions): Promise<Lock> =>
    here.instance({ store, ttlMs: 3_000, checks: 'off' }).acquire('goods:300', options);

  it.each<readonly [store: string, options: LockOptions]>([
    ['token()', {}],
    ['token()', { mode: 'shared' }],
    ['token()', { permits: 2 }],
    ['redisson()', {}],
    ['timestamp()', {}],
    ['quorum()', {}],
  ])('of %s with %j is renewed and released by a full server', async (name, options) => {
    const lock = await hold(STORES[name].store(), options);
    await onAll(FAULTS['OOM'].begin);
    for (let i = 0; i < 15; i += 1) await here.clock.advance(600);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('is handed off to a waiter by a full server', async () => {
    const lock = await hold(undefined, { mode: 'shared' });
    const { granted } = await here.enqueue(() => hold());
    await onAll(FAULTS['OOM'].begin);
    expect(await lock.release()).toBe(true);
    expect(await (await granted).release()).toBe(true);
  });

  it('is lost at its deadline by a server that refuses every write', async () => {
    const lock = await hold();
    await here.admin.config('SET', 'min-replicas-to-write', '1');
    await here.clock.advanceUntil('it is lost', () => lock.signal.aborted, 3_000);
    await here.admin.config('SET', 'min-replicas-to-write', '0');
    const refused = /^Redis refuses requests to extend locks: .*NOREPLICAS/;
    expect(here.warnings).toEqual([expect.stringMatching(refused), expect.stringContaining('its lease ran out')]);
  });
});

describe('a command that is refused', () => {
  const start = (): LockService => here.instance({ ttlMs: 1_000, checks: 'off' });
  const without = (command: string): Promise<unknown> => here.admin.acl('SETUSER', 'default', `-${command}`);
  const withAll = (): Promise<unknown> => here.admin.acl('SETUSER', 'default', '+@all');
  afterEach(withAll);

  it('by each release is logged once, although locks are granted', async () => {
    const locks = start();
    await without('del');
    for (let i = 0; i < 3; i++) await here.clock.until(locks.using('goods:300', () => undefined));
    const line =
      /^Redis refuses requests to release locks, first for \S+:300: .*"Permissions" on the page .* lists what/;
    expect(here.warnings).toEqual([expect.stringMatching(line)]);
    await withAll();
    // A refusal stays if the request is repeated, so nothing is sent: the lock ends with its lease.
    await here.clock.advance(1_001);
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it('when a connection selects its database is an outage, and no lock is taken in database 0', async () => {
    await without('select');
    const redis = `${here.server.url}/1`;
    const locks = here.instance({ redis, requestTimeoutMs: 20_000, unavailableAfterMs: 0, checks: 'off' });
    await eventually('it is logged', () => here.warnings.length > 0);
    expect(here.warnings).toEqual([expect.stringMatching(/cannot be reached.*NOPERM.*'select'/)]);
    await expect(here.clock.until(locks.acquire('goods:300', { waitMs: 0 }))).rejects.toThrow(LockUnavailableError);
    expect(await here.admin.exists(here.key)).toBe(0);
    await withAll();
    await eventually('it is connected', () => here.infos.length > 0);
    await locks.acquire('goods:300');
    expect(await here.admin.exists(here.key)).toBe(0);
    expect(await here.admin.info('keyspace')).toMatch(/db1:keys=[1-9]/);
  });

  it('by each renewal is logged once', async () => {
    const locks = start();
    const lock = await locks.acquire('goods:300', { maxHoldMs: 10_000 });
    await without('pexpire');
    await here.clock.advanceUntil('it is lost', () => lock.signal.aborted, 1_000);
    expect(here.warnings).toEqual([
      expect.stringMatching(
        /^Redis refuses requests to extend locks, first for \S+:300: .*"Permissions" on the page .* lists what/,
      ),
      expect.stringContaining('was lost'),
    ]);
    await withAll();
  });
});

it('one node of a quorum that refuses is named, and locks go on', async () => {
  const locks = here.instance({ store: quorum(here.servers.urls), checks: 'off' });
  await locks.using('goods:300', () => undefined);
  await FAULTS['OOM'].begin(here.servers.admins[1]);
  for (let i = 0; i < 10; i++) await locks.using('goods:300', () => undefined);
  await eventually('it is logged', () => here.warnings.length > 0);
  const name = `127.0.0.1:${here.servers.servers[1].port}`;
  const line = new RegExp(`^Redis refuses requests to acquire locks: .* to ${name}: .*OOM command not allowed`);
  expect(here.warnings).toEqual([expect.stringMatching(line)]);
  await FAULTS['OOM'].end(here.servers.admins[1]);
});

it('one node of a quorum that is back is named', async () => {
  const locks = here.instance({ store: quorum(here.servers.urls), requestTimeoutMs: 400 });
  await locks.using('goods:300', () => undefined);
  here.servers.pause(here.servers.servers[1]);
  await locks.using('goods:300', () => undefined);
  await here.clock.advanceUntil('it is logged', () => here.warnings.length > 0);
  here.servers.resume(here.servers.servers[1]);
  await eventually('its end is logged', () => here.infos.length > 0);
  const name = `127.0.0.1:${here.servers.servers[1].port}`;
  expect(here.warnings).toEqual([expect.stringContaining(`${name} cannot be reached, locks continue`)]);
  expect(here.infos).toEqual([`${name} can be reached again.`]);
});

it('a single server that is given as a cluster: the log has the reason of Redis', async () => {
  const locks = here.instance({ redis: { nodes: [here.server.url] }, requestTimeoutMs: 20_000, unavailableAfterMs: 0 });
  const reason = 'ERR This instance has cluster support disabled';
  await eventually('it is logged', () => here.warnings.length > 0);
  expect(here.warnings).toEqual([expect.stringContaining(`Failed to refresh slots cache: ${reason}`)]);
  await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(reason);
});
