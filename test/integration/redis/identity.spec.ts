import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { type LockOptions, type LockService, LockTimeoutError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention(3));

const start = (identity: string | undefined, options: RedisLockModuleOptions = {}): LockService =>
  here.instance({ checks: 'off', identity, ...options });

async function refusal(locks: LockService, options?: LockOptions): Promise<LockTimeoutError> {
  const error: unknown = await locks.acquire('goods:300', { waitMs: 0, ...options }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LockTimeoutError);
  return error as LockTimeoutError;
}

describe('token()', () => {
  it('names the holder and how long it has had the lock, and not the owner', async () => {
    const [one, other] = [start('api-7f9c-31'), start('api-1')];
    const lock = await one.acquire('goods:300');
    const [value] = String(await here.admin.get(lock.key)).split(' ');
    await here.clock.advance(300);
    const error = await refusal(other);
    expect(error).toMatchObject({ heldBy: 'api-7f9c-31', isOwn: false, holderCount: undefined });
    expect(error.heldForMs).toBe(300);
    expect(error.message).toMatch(/^goods:300 is locked, held by api-7f9c-31 for 300 ms: refused after/);
    for (const part of [value, one.engine.instanceId]) {
      expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(part);
    }
    expect(await other.inspect('goods:300')).toMatchObject({ identity: 'api-7f9c-31', isOwn: false });
  });

  it('does not show the value of another system', async () => {
    await here.admin.set(here.key, `password ${'x'.repeat(100_000)}`, 'PX', 60_000);
    const error = await refusal(start('api-1'));
    expect(error).toMatchObject({ heldBy: undefined, heldForMs: undefined });
    expect(error.message).toMatch(/^goods:300 is locked by others: refused after/);
    expect(inspect(error)).not.toContain('password');
  });
});

it.each([
  ['quorum()', () => quorum(here.servers.urls)],
  ['redisson()', () => redisson()],
  ['timestamp()', () => timestamp()],
])('%s names the holder', async (_name, store) => {
  const [one, other] = [1, 2].map((i) => start(`api-${i}`, { store: store() }));
  const lock = await one.acquire('goods:300');
  const error = await refusal(other);
  expect(error).toMatchObject({ heldBy: 'api-1', heldForMs: undefined, isOwn: false });
  expect(error.message).toMatch(/^goods:300 is locked, held by api-1: refused after/);
  await lock.release();
});

it('timestamp() names nobody if another client has written the key since', async () => {
  const [one, other] = [1, 2].map((i) => start(`api-${i}`, { store: timestamp() }));
  const lock = await one.acquire('goods:300');
  await here.admin.set(lock.key, String(Math.floor(here.clock.wallTime() / 1_000) + 60));
  expect((await refusal(other)).heldBy).toBeUndefined();
  await here.admin.del(lock.key);
});

it('timestamp() without scripts knows no identities of other instances', async () => {
  const [one, other] = [1, 2].map((i) => start(`api-${i}`, { store: timestamp({ scripts: false }) }));
  const lock = await one.acquire('goods:300');
  expect(await refusal(one)).toMatchObject({ heldBy: 'api-1', isOwn: true, heldForMs: expect.any(Number) });
  expect((await refusal(other)).heldBy).toBeUndefined();
  await lock.release();
});
