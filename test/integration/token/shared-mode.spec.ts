import { asked } from '../../support/asked.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, LockConfigError, LockLostError, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import { helperKey } from '../../../lib/keys/resource-key.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { ownerOf, storeOf } from '../../support/inside.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

const shared = { mode: 'shared' } as const;

/** Acquires a shared lock and never releases it. */
async function dies(locks: LockService, leaseMs: number): Promise<void> {
  const dead = { key: here.key, owner: 'dead:1', mode: 'shared', handoffMs: 500, wait: false } as const;
  const reply = await asked(storeOf<TokenStore>(locks)).acquire({ ...dead, leaseMs });
  expect(reply.status).toBe('granted');
}

describe('readers and writers', () => {
  it('hands a released lock to the readers of several instances by message', async () => {
    const writer = await here.holder();
    const readers = [1, 2, 3].map(() => here.instance().acquire('goods:300', shared));
    await here.queueOf(3);
    await writer.release();
    const locks = await Promise.all(readers);
    const tokens = locks.map(({ fencingToken }) => fencingToken);
    expect(new Set(tokens).size).toBe(3);
    for (const token of tokens) expect(token).toBeGreaterThan(writer.fencingToken);
    for (const lock of locks) await lock.extend();
    expect(await Promise.all(locks.map((lock) => lock.release()))).toEqual([true, true, true]);
    expect(await here.leftovers()).toEqual([]);
  });

  it('run beside each other, and no update is lost', async () => {
    const instances = Array.from({ length: 4 }, () => here.instance());
    const [counter, token] = [`${here.key}|test-counter`, `${here.key}|test-token`];
    let readersNow = 0;
    let mostReaders = 0;
    let writersNow = 0;
    const write = (locks: LockService): Promise<void> =>
      locks.using('goods:300', { waitMs: 60_000 }, async (lock: Lock) => {
        writersNow += 1;
        expect([writersNow, readersNow]).toEqual([1, 0]);
        const count = Number(await here.admin.get(counter));
        expect(lock.fencingToken).toBeGreaterThan(Number(await here.admin.get(token)));
        await here.admin.mset(counter, count + 1, token, lock.fencingToken);
        writersNow -= 1;
      });
    const read = (locks: LockService): Promise<void> =>
      locks.using('goods:300', { ...shared, waitMs: 60_000 }, async () => {
        readersNow += 1;
        mostReaders = Math.max(mostReaders, readersNow);
        expect(writersNow).toBe(0);
        await here.admin.get(counter);
        readersNow -= 1;
      });
    const visits = instances.flatMap((locks) =>
      Array.from({ length: 60 }, (_, i) => (i % 10 === 0 ? write(locks) : read(locks))),
    );
    await Promise.all(visits);
    expect(await here.admin.get(counter)).toBe('24');
    expect(mostReaders).toBeGreaterThan(1);
    await here.admin.del(counter, token);
    expect(await here.leftovers()).toEqual([]);
  });

  it('abort the signal of the reader whose lease was removed only', async () => {
    const [one, other] = [
      await here.instance().acquire('goods:300', { ...shared, ttlMs: 1_500 }),
      await here.instance().acquire('goods:300', { ...shared, ttlMs: 1_500 }),
    ];
    expect(await here.admin.zrem(helperKey(here.key, 'holders'), `v2-${ownerOf(one)} *`)).toBe(1);
    await here.clock.advanceUntil('its signal aborts', () => one.signal.aborted);
    expect(one.signal.reason).toBeInstanceOf(LockLostError);
    await here.clock.advanceUntil('the other one is renewed', () => other.expiresInMs > 1_250);
    expect(await other.release()).toBe(true);
    expect(await one.release()).toBe(false);
  });

  // Longer than the remaining life of the key that holds all sharers.
  it.each<[string, (locks: LockService) => Promise<Lock>]>([
    ['comes', (locks) => locks.acquire('goods:300', { ...shared, ttlMs: 300_000 })],
    [
      'extends its own',
      async (locks) => {
        const lock = await locks.acquire('goods:300', { ...shared, ttlMs: 1_000 });
        await lock.extend(300_000);
        return lock;
      },
    ],
  ])('a reader with a very long lease that %s leaves the other leases as they are', async (_, longOne) => {
    const locks = here.instance();
    await dies(locks, 700);
    const long = await longOne(locks);
    const others = async (): Promise<number | undefined> => (await locks.inspect('goods:300'))?.others.length;
    expect(await others()).toBe(1);
    await here.clock.advance(700);
    expect(await others()).toBe(0);
    expect((await locks.inspect('goods:300'))?.expiresInMs).toBeGreaterThan(290_000);
    expect(await long.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });

  it('are renewed by a write even if the lease gets no longer, so WAIT covers it', async () => {
    const locks = here.instance();
    const lock = await locks.acquire('goods:300', shared);
    const { store } = locks.engine;
    const owner = ownerOf(lock);
    const writes = async (): Promise<number> =>
      Number(/rdb_changes_since_last_save:(\d+)/.exec(await here.admin.info('persistence'))?.[1]);
    const before = await writes();
    expect(await store.extend([{ key: lock.key, owner, mode: 'shared', leaseMs: 100 }])).toEqual(['renewed']);
    expect(await writes()).toBeGreaterThan(before);
    expect((await locks.inspect('goods:300'))?.expiresInMs).toBeGreaterThan(20_000);
    await lock.release();
  });

  it('grant the lock to a writer once the lease of a dead reader ends', async () => {
    const locks = here.instance();
    await dies(locks, 500);
    expect(await (await here.clock.until(locks.acquire('goods:300'))).release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a user without the command', () => {
  const without = async (...commands: string[]): Promise<string> => {
    const rules = commands.map((command) => `-${command}`);
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', 'allchannels', '+@all', ...rules);
    return here.server.url.replace('redis://', 'redis://guest:any@');
  };

  it.each(['zcard', 'zremrangebyscore', 'zrange'])(
    '%s is refused the exclusive lock beside readers',
    async (command) => {
      const readers = here.instance();
      const reader = await readers.acquire('goods:300', shared);
      const writer = here.instance({ redis: await without(command) });
      await expect(writer.acquire('goods:300')).rejects.toThrow(LockUnavailableError);
      await reader.extend();
      expect(await reader.release()).toBe(true);
      expect(await (await writer.acquire('goods:300')).release()).toBe(true);
    },
  );

  it.each(['zremrangebyscore', 'zrange', 'zscore', 'zadd'])('%s gets no shared lock', async (command) => {
    const locks = here.instance({ redis: await without(command) });
    await expect(locks.acquire('goods:300', { permits: 1 })).rejects.toThrow(LockUnavailableError);
    expect(await (await here.holder()).release()).toBe(true);
  });

  it('needs none of them for exclusive locks', async () => {
    const redis = await without('zscore', 'zcard', 'zremrangebyscore');
    const [one, other] = [here.instance({ redis }), here.instance({ redis })];
    const lock = await one.acquire('goods:300');
    const { granted } = await here.enqueue(() => other.acquire('goods:300'));
    await lock.release();
    expect(await (await granted).release()).toBe(true);
  });
});

describe('permits', () => {
  it('admit that many holders over all instances, and are handed off by message', async () => {
    const instances = Array.from({ length: 4 }, () => here.instance());
    let inside = 0;
    let most = 0;
    const visit = (locks: LockService): Promise<void> =>
      locks.using('goods:300', { permits: 3, waitMs: 60_000 }, async () => {
        inside += 1;
        most = Math.max(most, inside);
        await here.admin.ping();
        inside -= 1;
      });
    await Promise.all(instances.flatMap((locks) => Array.from({ length: 30 }, () => visit(locks))));
    expect(most).toBe(3);
    expect(await here.leftovers()).toEqual([]);
  });

  it('are refused if the resource is held with another number', async () => {
    const lock = await here.instance().acquire('goods:300', { permits: 3 });
    await expect(here.instance().acquire('goods:300', { permits: 4 })).rejects.toThrow(LockConfigError);
    expect(await here.instance().inspect('goods:300')).toMatchObject({ mode: 'shared', permits: 3, others: [] });
    await lock.release();
  });
});
