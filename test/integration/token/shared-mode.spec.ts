import { asked } from '../../support/asked.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, type LockService, LockUnavailableError } from 'nestjs-redis-lock';
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
