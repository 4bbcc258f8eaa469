import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());

const INSTANCE = 'api-1-AbCdEfGhIjKlMnOp';
const HELD_MS = 60_000;

/** What an instance of the next wire version may write. Only the beginning is known. */
const VALUES = [
  ['a holder', `v3-${INSTANCE}:7 {"token":1}`, 'api-1'],
  ['a closed lock', `v3-!${INSTANCE}:7`, 'api-1'],
  ['sharers', 'v3-*', undefined],
] as const;

describe.each(VALUES)('the value of the next wire version for %s', (_who, value, identity) => {
  const message = `goods:300 is used by ${identity ?? 'an instance'} with wire version 3, and this instance has wire version 2: `;

  it('is held by others in every mode, and the error names both versions', async () => {
    const locks = here.instance();
    await here.admin.set(here.key, value, 'PX', HELD_MS);
    const requests = [{}, { mode: 'shared' }, { permits: 2 }] as const;
    for (const request of requests) {
      const refused = locks.acquire('goods:300', { ...request, waitMs: 0 });
      await expect(refused).rejects.toThrow(message);
      await expect(refused).rejects.toBeInstanceOf(LockTimeoutError);
    }
    expect(await locks.tryAcquire(['goods:200', 'goods:300'])).toBeNull();
    await expect(locks.using('goods:300', { onceMs: HELD_MS, waitMs: 0 }, () => 'done')).rejects.toThrow(message);
    expect(await here.admin.get(here.key)).toBe(value);
  });

  it('is shown with its version, and stays as it is', async () => {
    const locks = here.instance();
    await here.admin.set(here.key, value, 'PX', HELD_MS);
    await here.admin.zadd(`${here.key}|queue`, 1, `v3-${INSTANCE}:8`);
    const shown = { isHeld: true, isOwn: false, identity, wireVersion: 3 };
    const waiting = [{ identity: 'api-1', isOwn: false, wireVersion: 3 }];
    expect(await locks.inspect('goods:300')).toMatchObject({ ...shown, waiting });
    for await (const listed of locks.list()) expect(listed).toMatchObject({ ...shown, waiting });
    expect(await here.admin.get(here.key)).toBe(value);
  });

  it('is waited for', async () => {
    const locks = here.instance();
    await here.admin.set(here.key, value, 'PX', HELD_MS);
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await here.admin.del(here.key);
    const { fencingToken } = await granted;
    expect(await here.admin.get(here.key)).toMatch(new RegExp(`^v2-.* ${fencingToken}$`));
  });
});
