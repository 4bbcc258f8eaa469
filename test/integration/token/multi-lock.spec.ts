import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type Lock,
  LockConfigError,
  LockLostError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { crossTasks } from '../../support/crossing.js';
import { deferred } from '../../support/async.js';
import { commandsIn, sectionOf } from '../../support/pages.js';
import { eventually } from '../../support/redis-locks.js';
import { ownerOf } from '../../support/inside.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

const ACCOUNTS = ['account:1', 'account:2', 'account:3'];
const MIXED = ['order:7', ...ACCOUNTS];

/** Returns those of the keys that are locked. */
async function locked(resources: readonly string[]): Promise<readonly string[]> {
  const there = await Promise.all(resources.map((resource) => here.admin.exists(here.keyOf(resource))));
  return resources.filter((_, i) => there[i] === 1);
}

// A lease would last longer.
const nothingLeft = async (): Promise<void> => {
  await here.clock.advanceUntil('nothing is left', async () => (await here.leftovers()).length === 0, 5_000);
};

/** Returns all locks and queues in Redis except what time alone changes. */
async function contents(): Promise<unknown> {
  const keys = (await here.leftovers()).toSorted();
  return Promise.all(keys.map(async (key) => [key, await here.admin.dump(key)]));
}

describe('a multi-lock of free locks of one family', () => {
  it('costs one request, and its locks share one token', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using(ACCOUNTS, () => undefined);
    log.clear();
    const all = await locks.acquire(['account:3', 'account:1', 'account:2', 'account:1']);
    expect(log.lockRequests).toEqual(['tokenAcquireMany']);
    expect(all.resources).toEqual(['account:3', 'account:1', 'account:2']);
    for (const resource of ACCOUNTS) {
      const lock = all.of(resource);
      const { fencingToken } = lock;
      expect(fencingToken).toBe(all.locks[0].fencingToken);
      expect(await here.admin.get(here.keyOf(resource))).toBe(`v2-${ownerOf(lock)} ${fencingToken}`);
      expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(25_000);
      expect(await here.instance().tryAcquire(resource)).toBeNull();
    }
    log.clear();
    expect(await all.release()).toBe(true);
    expect(log.lockRequests).toEqual(['tokenReleaseMany']);
    expect(await here.leftovers()).toEqual([]);
  });

  it('gets a higher token with every grant, alone or together', async () => {
    const [locks, other] = [here.instance(), here.instance()];
    const tokens: number[] = [];
    const note = ({ fencingToken }: Lock): void => void tokens.push(fencingToken);
    for (let round = 0; round < 5; round++) {
      await locks.using(ACCOUNTS, (all) => note(all.of('account:2')));
      await other.using('account:2', note);
      await other.using(['account:2', 'account:1'], (both) => note(both.of('account:2')));
    }
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  });

  it('renews each lock, and extends all of them together', async () => {
    const locks = here.instance();
    const all = await locks.acquire(ACCOUNTS, { ttlMs: 1_200 });
    await here.clock.advance(1_500);
    all.assertHeld();
    await all.extend(20_000);
    for (const resource of ACCOUNTS) expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(15_000);
    expect(all.expiresInMs).toBeGreaterThan(15_000);
    expect(await all.release()).toBe(true);
  });

  it('is granted by a server that has forgotten the script', async () => {
    const locks = here.instance();
    await locks.using(ACCOUNTS, () => undefined);
    await here.admin.script('FLUSH');
    const all = await locks.acquire(ACCOUNTS, { waitMs: 0 });
    expect(await locked(ACCOUNTS)).toEqual(ACCOUNTS);
    await all.release();
  });

  it('is granted if it has more keys than one script takes', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const many = Array.from({ length: 300 }, (_, i) => `account:${i}`);
    await locks.using(many, async () => {
      // One script takes 64.
      expect(log.count('tokenAcquireMany')).toBe(5);
      expect(await locked(many)).toHaveLength(300);
    });
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a multi-lock with one lock that is held', () => {
  it('keeps no other lock if the caller does not wait', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('account:9', () => undefined);
    await here.instance().acquire('account:2');
    const before = await contents();
    log.clear();
    expect(await locks.tryAcquire(ACCOUNTS)).toBeNull();
    await eventually('the others are free', async () => (await locked(ACCOUNTS)).join() === 'account:2');
    expect(log.lockRequests).toEqual(['tokenAcquireMany', 'tokenReleaseMany']);
    expect(await contents()).toEqual(before);
  });

  it('is granted once the held lock was handed off to the waiter', async () => {
    const holder = await here.holder();
    const { granted } = await here.enqueue(() => here.instance().acquire(['goods:301', 'goods:300', 'account:1']));
    await holder.release();
    const all = await granted;
    expect(all.of('goods:300').fencingToken).toBeGreaterThan(holder.fencingToken);
    expect(await locked(all.resources)).toEqual(all.resources);
    await all.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it.each([0, 200])('keeps no lock after waiting %i ms, and the error names the held one', async (waitMs) => {
    await here.instance().acquire('account:2');
    const locks = here.instance();
    // In lock order order:7 comes after it and account:1 before it.
    const waited = locks.acquire(MIXED, { waitMs }).catch((reason: unknown) => reason);
    const error = await here.clock.until(waited);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ resource: 'account:2' });
    await eventually('the others are free', async () => (await locked(MIXED)).join() === 'account:2');
    expect(await locks.inspect('account:2')).toMatchObject({ waiting: [] });
  });

  it('does not apply minHoldMs to the other locks, as no work has begun', async () => {
    await here.instance().acquire('order:7');
    expect(await here.instance().tryAcquire(MIXED, { minHoldMs: 60_000 })).toBeNull();
    await eventually('they are free', async () => (await locked(MIXED)).join() === 'order:7');
  });

  it('is granted if only dead waiters queue for a free lock', async () => {
    await here.admin.zadd(`${here.keyOf('account:2')}|queue`, 1, 'dead:1');
    const all = await here.instance().tryAcquire(ACCOUNTS);
    expect(all?.resources).toEqual(ACCOUNTS);
    expect(await all?.release()).toBe(true);
    await nothingLeft();
  });

  it('is granted after the live waiters of that lock', async () => {
    const holder = await here.holder();
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const both = here.instance().acquire(['goods:299', 'goods:300']);
    await here.queueOf(2);
    await holder.release();
    const first = await granted;
    expect(await locked(['goods:299'])).toEqual(['goods:299']);
    await first.release();
    expect((await both).of('goods:300').fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('ends its wait on a signal, and releases the locks it has', async () => {
    await here.holder();
    const stop = new AbortController();
    const { granted } = await here.enqueue(() =>
      here.instance().acquire(['goods:299', 'goods:300'], { signal: stop.signal }),
    );
    stop.abort(new Error('enough'));
    await expect(granted).rejects.toThrow('enough');
    await eventually('it is released', async () => (await here.leftovers()).join() === here.key);
  });
});

describe('requests that overlap', () => {
  it('never deadlock: 50 tasks, 10 resources, 4 instances', async () => {
    const instances = Array.from({ length: 4 }, () => here.instance({ requestTimeoutMs: 10_000 }));
    const resources = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));
    const crossing = crossTasks(instances, resources, () => here.admin.ping());
    const { faults, nested, refusals } = await here.clock.until(crossing);
    expect(faults).toEqual([]);
    expect(nested).toBeGreaterThan(0);
    expect(nested + refusals.length).toBe(17 * 3);
    expect(refusals.filter((code) => code !== 'LOCK_TIMEOUT')).toEqual([]);
    expect(here.warnings).toEqual([]);
    await nothingLeft();
  }, 60_000);

  it('for the same resources in opposite order are both granted', async () => {
    const [one, other] = [here.instance(), here.instance()];
    let turns = 0;
    const transfer = (locks: LockService, from: string, to: string): Promise<void> =>
      locks.using([from, to], async () => {
        await here.admin.ping();
        turns += 1;
      });
    await Promise.all(
      Array.from({ length: 20 }, () => [
        transfer(one, 'account:1', 'order:7'),
        transfer(other, 'order:7', 'account:1'),
      ]).flat(),
    );
    expect(turns).toBe(40);
    await nothingLeft();
  });

  it('in nested holds end by waitMs, and the first timeout lets the other in', async () => {
    const [one, other] = [here.instance(), here.instance()];
    const [in1, in2] = [deferred(), deferred()];
    const crosswise = [
      one.using('account:1', async () => {
        in1.resolve();
        await in2.promise;
        return one.using(['account:1', 'account:2'], { waitMs: 100 }, () => 'one');
      }),
      other.using('account:2', async () => {
        in2.resolve();
        await in1.promise;
        return other.using(['account:1', 'account:2'], { waitMs: 20_000 }, () => 'other');
      }),
    ];
    const [gaveUp, gotIn] = await here.clock.until(Promise.allSettled(crosswise));
    expect(gaveUp).toMatchObject({ reason: { code: 'LOCK_TIMEOUT', resource: 'account:2' } });
    expect(gotIn).toEqual({ status: 'fulfilled', value: 'other' });
    await nothingLeft();
  });

  it('in nested holds cost no request if all locks are held already', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using(MIXED, async (outer) => {
      log.clear();
      await locks.using(ACCOUNTS.toReversed(), { waitMs: 0 }, (inner) => {
        for (const resource of ACCOUNTS) expect(inner.of(resource).fencingToken).toBe(outer.of(resource).fencingToken);
      });
      await locks.using('account:2', { waitMs: 0 }, () => undefined);
      expect(log.lockRequests).toEqual([]);
      expect(await locked(MIXED)).toEqual(MIXED);
    });
    await nothingLeft();
  });
});

describe('a shared multi-lock', () => {
  const shared = { mode: 'shared' } as const;

  it('is held beside other readers, and excludes a writer of one of its locks', async () => {
    const { proxy, log } = await here.way();
    const [one, other] = [here.instance({ redis: proxy.url }), here.instance()];
    await one.using('account:9', () => undefined);
    log.clear();
    const readers = [await one.acquire(ACCOUNTS, shared), await other.acquire(['account:2', 'account:3'], shared)];
    expect(log.lockRequests).toEqual(['tokenAcquireMany']);
    expect(await one.tryAcquire(['account:3', 'account:4'])).toBeNull();
    await eventually('the other is free', async () => (await locked(['account:4'])).length === 0);
    const writing = one.acquire(['account:4', 'account:3']);
    await readers[0].release();
    expect(await other.inspect('account:3')).toMatchObject({ mode: 'shared' });
    await readers[1].release();
    await (await writing).release();
    await nothingLeft();
  });

  it('with permits admits that many, and refuses a different number', async () => {
    const locks = here.instance();
    const permits = { permits: 2, waitMs: 0 };
    const holds = [await locks.acquire(ACCOUNTS, permits), await here.instance().acquire(ACCOUNTS, permits)];
    expect(await locks.tryAcquire(ACCOUNTS, { permits: 2 })).toBeNull();
    await expect(locks.tryAcquire(['account:4', 'account:3'], { permits: 3 })).rejects.toThrow(LockConfigError);
    await holds[0].release();
    const next = await locks.acquire(ACCOUNTS, permits);
    for (const hold of [holds[1], next]) expect(await hold.release()).toBe(true);
    await nothingLeft();
  });

  it('of many readers and writers keeps writers exclusive', async () => {
    const instances = Array.from({ length: 3 }, () => here.instance());
    const [readers, writers] = [new Map<string, number>(), new Map<string, number>()];
    const faults: string[] = [];
    const visit = async (locks: LockService, i: number): Promise<void> => {
      const pair = [ACCOUNTS[i % 3], i % 2 === 0 ? 'order:7' : ACCOUNTS[(i + 1) % 3]];
      const writes = i % 4 === 0;
      const mine = writes ? writers : readers;
      await locks.using(pair, writes ? {} : shared, async () => {
        for (const resource of pair) {
          mine.set(resource, (mine.get(resource) ?? 0) + 1);
          const [reading = 0, writing = 0] = [readers.get(resource), writers.get(resource)];
          if (writing > 1 || (writing > 0 && reading > 0)) faults.push(`${resource}: ${reading} beside ${writing}`);
        }
        await here.admin.ping();
        for (const resource of pair) mine.set(resource, (mine.get(resource) as number) - 1);
      });
    };
    await here.clock.until(Promise.all(Array.from({ length: 60 }, (_, i) => visit(instances[i % 3], i))));
    expect(faults).toEqual([]);
    await nothingLeft();
  }, 30_000);
});

describe('a multi-lock that loses one lock', () => {
  it.each([
    ['deleted', (key: string) => here.admin.del(key)],
    ['taken by someone else', (key: string) => here.admin.set(key, 'stranger:1 1', 'PX', 2_000)],
  ])('because its key was %s aborts its signal and releases the others', async (_, take) => {
    const locks = here.instance();
    let told: unknown;
    const work = locks.using(MIXED, { ttlMs: 1_200 }, async (all) => {
      await take(here.keyOf('account:2'));
      await here.clock.advanceUntil('its signal aborts', () => all.signal.aborted);
      told = all.signal.reason;
      for (const { signal } of all.locks) expect(signal.reason).toBe(told);
      expect(() => all.assertHeld()).toThrow(LockLostError);
      // Others must not get what the work still uses.
      expect(await locked(['account:1', 'order:7'])).toEqual(['account:1', 'order:7']);
      return 'done';
    });
    await expect(work).rejects.toThrow(LockLostError);
    expect(told).toMatchObject({ code: 'LOCK_LOST', resource: 'account:2' });
    await eventually(
      'the others are free',
      async () => (await locked(['account:1', 'account:3', 'order:7'])).length === 0,
    );
    // The stranger does not release its lock.
    await here.clock.advance(2_000);
    expect(await here.leftovers()).toEqual([]);
  });

  it('while it waits for another one is not granted', async () => {
    const holder = await here.holder();
    const { granted } = await here.enqueue(() => here.instance().acquire(['account:1', 'goods:300'], { ttlMs: 1_200 }));
    await here.admin.del(here.keyOf('account:1'));
    await here.clock.advanceUntil('it was noticed', () => here.warnings.length > 0);
    await holder.release();
    await expect(here.clock.until(granted)).rejects.toThrow(LockLostError);
    await nothingLeft();
  });
});

describe('faults during a request for several locks', () => {
  /** An instance on a faulty connection that it has used once. */
  async function faulty(requestTimeoutMs = 300) {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs });
    await locks.using(ACCOUNTS, () => undefined);
    return { proxy, log, locks };
  }

  it('a lost reply leaves no lock', async () => {
    const { proxy, locks } = await faulty();
    proxy.drop('replies');
    const tried = locks.tryAcquire(ACCOUNTS);
    await eventually('it ran', async () => (await locked(ACCOUNTS)).length === 3);
    await expect(here.clock.until(tried)).rejects.toThrow(LockUnavailableError);
    proxy.resume('replies');
    await nothingLeft();
  });

  it('a late request leaves no lock', async () => {
    const { proxy, log, locks } = await faulty();
    log.clear();
    proxy.hold('requests');
    await expect(here.clock.until(locks.tryAcquire(ACCOUNTS))).rejects.toThrow(LockUnavailableError);
    proxy.resume('requests');
    await eventually('it has come', () => log.count('tokenAcquireMany') > 0);
    await nothingLeft();
    await (await locks.acquire(ACCOUNTS)).release();
  });

  it.each([0, 20_000])('a connection that ends leaves no lock (waitMs %i)', async (waitMs) => {
    const { proxy, locks } = await faulty(2_000);
    proxy.hold('replies');
    const asked = locks.acquire(ACCOUNTS, { waitMs });
    asked.catch(() => undefined);
    await eventually('it ran', async () => (await locked(ACCOUNTS)).length === 3);
    proxy.reset();
    proxy.resume('replies');
    const [outcome] = await Promise.allSettled([asked]);
    if (outcome.status === 'fulfilled') await outcome.value.release();
    // A waiter is not refused because of one connection.
    expect(outcome.status === 'fulfilled' || waitMs === 0).toBe(true);
    await nothingLeft();
    expect(await (await locks.acquire(ACCOUNTS)).release()).toBe(true);
  });

  it('an ACL with the documented commands is enough for waiting and sharing', async () => {
    const commands = commandsIn(sectionOf('SECURITY.md', '`token()`')).map((command) => `+${command}`);
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', 'allchannels', ...commands);
    const locks = here.instance({ redis: here.server.url.replace('redis://', 'redis://guest:any@') });
    for (const options of [{}, { mode: 'shared' }, { permits: 2 }] as const) {
      await here.admin.zadd(`${here.keyOf('account:2')}|queue`, 1, 'v2-dead:1');
      const holder = await here.instance().acquire('account:3');
      const waiting = locks.acquire(ACCOUNTS, options);
      await eventually('it waits', async () => (await locks.inspect('account:3'))?.waiting.length === 1, 5_000);
      await holder.release();
      expect(await (await waiting).release()).toBe(true);
    }
    expect(here.warnings).toEqual([]);
  });

  it('a refused script makes the locks be acquired one by one', async () => {
    const { proxy, log, locks } = await faulty();
    const { filter } = proxy;
    proxy.filter = (words) => {
      filter?.(words);
      return log.names.at(-1) === 'tokenAcquireMany' ? 'ERR bad lua script' : undefined;
    };
    log.clear();
    for (const waitMs of [0, 20_000]) {
      const all = await locks.acquire(ACCOUNTS, { waitMs });
      expect(await locked(ACCOUNTS)).toEqual(ACCOUNTS);
      await all.release();
    }
    expect(log.count('tokenAcquire')).toBe(6);
    await here.instance().acquire('account:3');
    expect(await locks.tryAcquire(ACCOUNTS)).toBeNull();
    await eventually('the others are free', async () => (await locked(ACCOUNTS)).join() === 'account:3');
  });
});

describe('lockDelayMs', () => {
  it('keeps each unreleased lock of a multi-lock closed', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, lockDelayMs: 5_000, ttlMs: 1_000 });
    const all = await locks.acquire(ACCOUNTS);
    expect(all.expiresInMs).toBeLessThan(1_000);
    for (const resource of ACCOUNTS) expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(5_000);
    await proxy.refuseConnections();
    proxy.reset();
    await here.clock.advanceUntil('they are lost', () => all.locks.every(({ signal }) => signal.aborted));
    expect(await here.instance().tryAcquire(ACCOUNTS)).toBeNull();
    expect(await locked(ACCOUNTS)).toEqual(ACCOUNTS);
  });
});

describe('a store that acquires one lock at a time', () => {
  it.each([
    ['redisson()', redisson()],
    ['timestamp()', timestamp({ unit: 'ms' })],
  ])('%s grants all or none, and overlapping requests never deadlock', async (_, store) => {
    const [one, other] = [here.instance({ store }), here.instance({ store })];
    await one.using(MIXED, async (all) => {
      expect(all.resources).toEqual(MIXED);
      expect(await locked(MIXED)).toEqual(MIXED);
      expect(await other.tryAcquire(['account:4', 'account:3'])).toBeNull();
    });
    await eventually('all are free', async () => (await locked([...MIXED, 'account:4'])).length === 0);
    let turns = 0;
    const turn = (locks: LockService, list: string[]) => locks.using(list, () => void (turns += 1));
    const all = Array.from({ length: 10 }, () => [turn(one, MIXED), turn(other, MIXED.toReversed())]).flat();
    await here.clock.until(Promise.all(all));
    expect(turns).toBe(20);
  });
});
