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
import { Contention } from '../../support/contention.js';
import { crossTasks } from '../../support/crossing.js';
import { deferred } from '../../support/locks.js';
import { commandsIn, sectionOf } from '../../support/pages.js';
import { eventually } from '../../support/redis-locks.js';

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

const ACCOUNTS = ['account:1', 'account:2', 'account:3'];
const MIXED = ['order:7', ...ACCOUNTS];

/** The keys that are locked, of these. */
async function locked(resources: readonly string[]): Promise<readonly string[]> {
  const there = await Promise.all(resources.map((resource) => here.admin.exists(here.keyOf(resource))));
  return resources.filter((_, i) => there[i] === 1);
}

const nothingLeft = (): Promise<void> =>
  eventually('nothing is left', async () => (await here.leftovers()).length === 0);

/** Everything that Redis knows, but for what time does by itself. */
async function contents(): Promise<unknown> {
  const keys = (await here.admin.keys('*')).toSorted();
  return Promise.all(keys.map(async (key) => [key, await here.admin.dump(key)]));
}

describe('several free locks of one family', () => {
  it('cost one request to take, and share one token', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using(ACCOUNTS, () => undefined);
    log.clear();
    const all = await locks.acquire(['account:3', 'account:1', 'account:2', 'account:1']);
    expect(log.names).toEqual(['tokenAcquireMany']);
    expect(all.resources).toEqual(['account:3', 'account:1', 'account:2']);
    for (const resource of ACCOUNTS) {
      const { shared, fencingToken } = all.of(resource);
      expect(fencingToken).toBe(all.locks[0].fencingToken);
      expect(await here.admin.get(here.keyOf(resource))).toBe(`${shared.owner} ${fencingToken}`);
      expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(25_000);
      expect(await here.instance().tryAcquire(resource)).toBeNull();
    }
    log.clear();
    expect(await all.release()).toBe(true);
    expect(log.names).toEqual(ACCOUNTS.map(() => 'tokenRelease'));
    expect(await here.leftovers()).toEqual([]);
  });

  it('have higher tokens with every grant, alone or together', async () => {
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

  it('are renewed each, and may be given a longer lease together', async () => {
    const locks = here.instance();
    const all = await locks.acquire(ACCOUNTS, { ttlMs: 600 });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    all.assertHeld();
    await all.extend(20_000);
    for (const resource of ACCOUNTS) expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(15_000);
    expect(all.expiresInMs).toBeGreaterThan(15_000);
    expect(await all.release()).toBe(true);
  });

  it('are taken by a server that has forgotten the script', async () => {
    const locks = here.instance();
    await locks.using(ACCOUNTS, () => undefined);
    await here.admin.script('FLUSH');
    const all = await locks.acquire(ACCOUNTS, { waitMs: 0 });
    expect(await locked(ACCOUNTS)).toEqual(ACCOUNTS);
    await all.release();
  });

  it('of more than one script takes are locked, too', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const many = Array.from({ length: 300 }, (_, i) => `account:${i}`);
    await locks.using(many, async () => {
      expect(log.count('tokenAcquireMany')).toBe(2);
      expect(await locked(many)).toHaveLength(300);
    });
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('where one of them is held', () => {
  it('none is touched by whoever does not wait', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('account:9', () => undefined);
    await here.instance().acquire('account:2');
    const before = await contents();
    log.clear();
    expect(await locks.tryAcquire(ACCOUNTS)).toBeNull();
    expect(log.names).toEqual(['tokenAcquireMany']);
    expect(await contents()).toEqual(before);
  });

  it('whoever waits is handed it, and has all then', async () => {
    const holder = await here.holder();
    const { granted } = await here.enqueue(() => here.instance().acquire(['goods:301', 'goods:300', 'account:1']));
    await holder.release();
    const all = await granted;
    expect(all.of('goods:300').fencingToken).toBeGreaterThan(holder.fencingToken);
    expect(await locked(all.resources)).toEqual(all.resources);
    await all.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it.each([0, 200])(
    'none is kept by whoever waits %i ms and not longer, and the error tells which it was',
    async (waitMs) => {
      await here.instance().acquire('account:2');
      const locks = here.instance();
      // order:7 comes behind it and account:1 before it, for everybody.
      const error: unknown = await locks.acquire(MIXED, { waitMs }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect(error).toMatchObject({ resource: 'account:2' });
      await eventually('the others are free', async () => (await locked(MIXED)).join() === 'account:2');
      expect(await locks.inspect('account:2')).toMatchObject({ waiting: [] });
    },
  );

  it('the others are not kept closed by a minHoldMs either: no work has begun', async () => {
    await here.instance().acquire('order:7');
    expect(await here.instance().tryAcquire(MIXED, { minHoldMs: 60_000 })).toBeNull();
    await eventually('they are free', async () => (await locked(MIXED)).join() === 'order:7');
  });

  it('by nobody but those who died waiting, it is free', async () => {
    await here.admin.zadd(`${here.keyOf('account:2')}|queue`, 1, 'dead:1');
    const all = await here.instance().tryAcquire(ACCOUNTS);
    expect(all?.resources).toEqual(ACCOUNTS);
    expect(await all?.release()).toBe(true);
    await nothingLeft();
  });

  it('those who live and wait for it go first', async () => {
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

  it('a signal ends the waiting, and what was taken is given back', async () => {
    await here.holder();
    const stop = new AbortController();
    const { granted } = await here.enqueue(() =>
      here.instance().acquire(['goods:299', 'goods:300'], { signal: stop.signal }),
    );
    stop.abort(new Error('enough'));
    await expect(granted).rejects.toThrow('enough');
    await eventually('it is given back', async () => (await here.leftovers()).join() === here.key);
  });
});

describe('requests that cross', () => {
  it('all end, whatever they hold and in whatever order they ask: 50 tasks, 10 resources, 4 instances', async () => {
    const instances = Array.from({ length: 4 }, () => here.instance({ requestTimeoutMs: 10_000 }));
    const resources = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));
    const { faults, nested, refusals } = await crossTasks(instances, resources, () => here.admin.ping());
    expect(faults).toEqual([]);
    expect(nested).toBeGreaterThan(0);
    expect(nested + refusals.length).toBe(17 * 3);
    expect(refusals.filter((code) => code !== 'LOCK_TIMEOUT')).toEqual([]);
    expect(here.warnings).toEqual([]);
    await nothingLeft();
  }, 60_000);

  it('of the same resources in opposite order both end', async () => {
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

  it('in nested holds end by waitMs: whoever gives up first lets the other one in', async () => {
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
    const [gaveUp, gotIn] = await Promise.allSettled(crosswise);
    expect(gaveUp).toMatchObject({ reason: { code: 'LOCK_TIMEOUT', resource: 'account:2' } });
    expect(gotIn).toEqual({ status: 'fulfilled', value: 'other' });
    await nothingLeft();
  });

  it('in nested holds cost nothing where all is held already', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using(MIXED, async (outer) => {
      log.clear();
      await locks.using(ACCOUNTS.toReversed(), { waitMs: 0 }, (inner) => {
        for (const resource of ACCOUNTS) expect(inner.of(resource).fencingToken).toBe(outer.of(resource).fencingToken);
      });
      await locks.using('account:2', { waitMs: 0 }, () => undefined);
      expect(log.names).toEqual([]);
      expect(await locked(MIXED)).toEqual(MIXED);
    });
    await nothingLeft();
  });
});

describe('several shared locks', () => {
  const shared = { mode: 'shared' } as const;

  it('are held together beside others, and kept from whoever wants one of them alone', async () => {
    const { proxy, log } = await here.way();
    const [one, other] = [here.instance({ redis: proxy.url }), here.instance()];
    await one.using('account:9', () => undefined);
    log.clear();
    const readers = [await one.acquire(ACCOUNTS, shared), await other.acquire(['account:2', 'account:3'], shared)];
    expect(log.names).toEqual(['tokenAcquireMany']);
    expect(await one.tryAcquire(['account:3', 'account:4'])).toBeNull();
    expect(await locked(['account:4'])).toEqual([]);
    const writing = one.acquire(['account:4', 'account:3']);
    await readers[0].release();
    expect(await other.inspect('account:3')).toMatchObject({ mode: 'shared' });
    await readers[1].release();
    await (await writing).release();
    await nothingLeft();
  });

  it('with permits are held by as many as there are, and refused to whoever names another number', async () => {
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

  it('of many readers and writers exclude whom they should', async () => {
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
    await Promise.all(Array.from({ length: 60 }, (_, i) => visit(instances[i % 3], i)));
    expect(faults).toEqual([]);
    await nothingLeft();
  }, 30_000);
});

describe('one of several locks that is lost', () => {
  it.each([
    ['deleted', (key: string) => here.admin.del(key)],
    ['taken by somebody else', (key: string) => here.admin.set(key, 'stranger:1 1', 'PX', 2_000)],
  ])('because its key was %s: all of the work is told, and the others are released', async (_, take) => {
    const locks = here.instance();
    let told: unknown;
    const work = locks.using(MIXED, { ttlMs: 600 }, async (all) => {
      await take(here.keyOf('account:2'));
      await eventually('it is told', () => all.signal.aborted);
      told = all.signal.reason;
      for (const { signal } of all.locks) expect(signal.reason).toBe(told);
      expect(() => all.assertHeld()).toThrow(LockLostError);
      // Others may not have what the work still touches.
      expect(await locked(['account:1', 'order:7'])).toEqual(['account:1', 'order:7']);
      return 'done';
    });
    await expect(work).rejects.toThrow(LockLostError);
    expect(told).toMatchObject({ code: 'LOCK_LOST', resource: 'account:2' });
    await eventually(
      'the others are free',
      async () => (await locked(['account:1', 'account:3', 'order:7'])).length === 0,
    );
    await eventually('so is this one', async () => (await here.leftovers()).length === 0);
  });

  it('while another one is waited for: nothing is handed out', async () => {
    const holder = await here.holder();
    const { granted } = await here.enqueue(() => here.instance().acquire(['account:1', 'goods:300'], { ttlMs: 600 }));
    await here.admin.del(here.keyOf('account:1'));
    await eventually('it was noticed', () => here.warnings.length > 0);
    await holder.release();
    await expect(granted).rejects.toThrow(LockLostError);
    await nothingLeft();
  });
});

describe('faults while several are asked for at once', () => {
  /** An instance on a faulty way, that has used it. */
  async function faulty(requestTimeoutMs = 300) {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs });
    await locks.using(ACCOUNTS, () => undefined);
    return { proxy, log, locks };
  }

  it('an answer that is lost leaves nothing locked', async () => {
    const { proxy, locks } = await faulty();
    proxy.drop('replies');
    const tried = locks.tryAcquire(ACCOUNTS);
    await eventually('it ran', async () => (await locked(ACCOUNTS)).length === 3);
    await expect(tried).rejects.toThrow(LockUnavailableError);
    proxy.resume('replies');
    await nothingLeft();
  });

  it('a request that is late does nothing', async () => {
    const { proxy, locks } = await faulty();
    await locks.using('order:7', () => undefined);
    const before = await contents();
    proxy.hold('requests');
    await expect(locks.tryAcquire(ACCOUNTS)).rejects.toThrow(LockUnavailableError);
    proxy.resume('requests');
    await eventually('it has come', async () => (await locks.inspect('account:1')) === null);
    // No token was given either.
    expect(await contents()).toEqual(before);
    await (await locks.acquire(ACCOUNTS)).release();
  });

  it.each([0, 20_000])('a connection that ends leaves nothing locked for whoever waits %i ms', async (waitMs) => {
    const { proxy, locks } = await faulty(2_000);
    proxy.hold('replies');
    const asked = locks.acquire(ACCOUNTS, { waitMs });
    asked.catch(() => undefined);
    await eventually('it ran', async () => (await locked(ACCOUNTS)).length === 3);
    proxy.reset();
    proxy.resume('replies');
    const [outcome] = await Promise.allSettled([asked]);
    if (outcome.status === 'fulfilled') await outcome.value.release();
    // Whoever waits is not refused because of one connection.
    expect(outcome.status === 'fulfilled' || waitMs === 0).toBe(true);
    await nothingLeft();
    expect(await (await locks.acquire(ACCOUNTS)).release()).toBe(true);
  });

  it('resets again and again cost nobody exclusion, and leave nothing', async () => {
    const ways = await Promise.all([1, 2, 3].map(() => faulty(2_000)));
    let resets = 0;
    const timer = setInterval(() => ways[resets++ % 3].proxy.reset(), 60);
    const instances = ways.map(({ locks }) => locks);
    const resources = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));
    const crossing = crossTasks(instances, resources, () => here.admin.ping(), { tasks: 20, turns: 2 });
    const { faults } = await crossing.finally(() => clearInterval(timer));
    expect(faults).toEqual([]);
    expect(resets).toBeGreaterThan(3);
    await nothingLeft();
  }, 60_000);

  it('an ACL with the documented commands is enough for waiting and sharing', async () => {
    const [lists] = sectionOf('docs/permissions.md', '`token()`').split('ioredis');
    const commands = commandsIn(lists).map((command) => `+${command}`);
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', 'allchannels', ...commands);
    const { store, clock } = here.instance({ redis: here.server.url.replace('redis://', 'redis://guest:any@') }).engine;
    const terms = { owner: 'guest:1', leaseMs: 1_000, handoffMs: 1_000, tokens: 1, queue: false };
    const keys = ACCOUNTS.map((account) => here.keyOf(account));
    await here.admin.zadd(`${keys[1]}|queue`, 1, 'somebody:1');
    for (const mode of ['exclusive', 'shared', 2] as const) {
      const answer = await store.acquire({ ...terms, keys, mode, expiresAt: clock.now() + 1_000 });
      expect(answer).toMatchObject({ status: 'held', remainingMs: undefined, key: keys[1] });
    }
  });

  it('where the script is refused, they are locked one after the other', async () => {
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
  it('keeps each of several closed that was not released, and is not believed in', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, lockDelayMs: 5_000, ttlMs: 1_000 });
    const all = await locks.acquire(ACCOUNTS);
    expect(all.expiresInMs).toBeLessThan(1_000);
    for (const resource of ACCOUNTS) expect(await here.admin.pttl(here.keyOf(resource))).toBeGreaterThan(5_000);
    await proxy.refuseConnections();
    proxy.reset();
    await eventually('they are lost', () => all.locks.every(({ signal }) => signal.aborted));
    expect(await here.instance().tryAcquire(ACCOUNTS)).toBeNull();
    expect(await locked(ACCOUNTS)).toEqual(ACCOUNTS);
  });
});

describe('a store that takes them one after the other', () => {
  it.each([
    ['redisson()', redisson()],
    ['timestamp()', timestamp({ unit: 'ms' })],
  ])('%s gives all or none, and lets requests cross', async (_, store) => {
    const [one, other] = [here.instance({ store }), here.instance({ store })];
    await one.using(MIXED, async (all) => {
      expect(all.resources).toEqual(MIXED);
      expect(await locked(MIXED)).toEqual(MIXED);
      expect(await other.tryAcquire(['account:4', 'account:3'])).toBeNull();
    });
    await eventually('all are free', async () => (await locked([...MIXED, 'account:4'])).length === 0);
    let turns = 0;
    const turn = (locks: LockService, list: string[]) => locks.using(list, () => void (turns += 1));
    await Promise.all(Array.from({ length: 10 }, () => [turn(one, MIXED), turn(other, MIXED.toReversed())]).flat());
    expect(turns).toBe(20);
  });
});
