import { describe, expect, it } from '@jest/globals';
import { LockUnavailableError } from 'nestjs-redis-lock';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { ownerOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const shared = { mode: 'shared' } as const;

describe('readers', () => {
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
  const without = (...commands: string[]): Promise<string> =>
    here.guest('allchannels', '+@all', ...commands.map((command) => `-${command}`));

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
