import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { type Lock, LockLostError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { eventually } from '../../support/redis-locks.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

/** Waits until a client whose connection has ended is connected again. */
const untilReady = (client: Redis): Promise<void> =>
  eventually('it is connected again', () => client.status === 'ready');

/** Waits for the loss of a lock. Returns how many milliseconds that takes. */
async function untilLost({ signal }: Lock): Promise<number> {
  const takesMs = await here.clock.advanceUntil('it is lost', () => signal.aborted);
  expect(signal.reason).toBeInstanceOf(LockLostError);
  return takesMs;
}

/** Restarts the server without its data. */
async function restart(): Promise<void> {
  await here.server.kill();
  await here.server.restart();
}

const STORES: Record<string, RedisLockModuleOptions> = {
  'token()': {},
  'token() with lockDelayMs': { lockDelayMs: 5_000 },
  'redisson()': { store: redisson() },
  'timestamp()': { store: timestamp() },
  'timestamp() without scripts': { store: timestamp({ scripts: false }) },
};

describe('a Redis that restarts without its data', () => {
  it.each(Object.keys(STORES))('shows the holder at once that its lock is lost, with %s', async (store) => {
    const client = here.client();
    const lock = await here.instance({ redis: client, ...STORES[store] }).acquire('goods:300');
    await restart();
    await untilReady(client);
    expect(await untilLost(lock)).toBe(0);
  });

  it('shows it to a holder whose lease is not renewed, and the next holder keeps its lock', async () => {
    const client = here.client();
    const options = { ttlMs: 90_000, maxHoldMs: 60_000 };
    const lock = await here.instance({ redis: client }).acquire('goods:300', options);
    const other = here.instance({ waitMs: 60_000 });
    await restart();
    const next = await other.acquire('goods:300');
    await untilReady(client);
    expect(await untilLost(lock)).toBe(0);
    expect(await lock.release()).toBe(false);
    next.assertHeld();
    expect(await next.release()).toBe(true);
  });

  it('shows it to the holder of 1,000 locks if two are left', async () => {
    const client = here.client();
    const locks = here.instance({ redis: client, requestTimeoutMs: 10_000 });
    const held = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    let connections = 0;
    client.on('ready', () => (connections += 1));
    // The connection breaks, and the locks are gone except for two.
    const kept = [0, 999].map((id) => here.keyOf(`goods:${id}`));
    const gone = held.slice(1, -1).map(({ key }) => key);
    await here.admin
      .multi()
      .del(...gone)
      .call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      .exec();
    await eventually('it is connected again', () => connections === 1);
    expect(await untilLost(held[500])).toBe(0);
    expect(await here.admin.exists(...kept)).toBe(2);
    held[0].assertHeld();
    held[999].assertHeld();
  });
});
