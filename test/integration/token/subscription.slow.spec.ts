import { describe, expect, it } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import { LockClosedError, type LockService } from 'nestjs-redis-lock';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { Contention } from '../../support/contention.js';
import { CUT_MS, longestTimerAtEndOf } from '../../support/ends-by-itself.js';
import { eventually } from '../../support/redis-locks.js';
import { silent } from '../../support/silent-logger.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());
const there = forTests(new Contention());

/** Returns how many of these instances the first server counts as subscribed. */
async function subscribedHere(...instances: readonly LockService[]): Promise<number> {
  const channels = await here.channels();
  return instances.filter(({ engine }) => channels.some((name) => name.endsWith(`:v2-${engine.instanceId}`))).length;
}

/** Ends the request connections only. */
async function cutAsking(): Promise<void> {
  const clients = (await here.admin.client('LIST')) as string;
  const ids = [...clients.matchAll(/^id=(\d+) .* name=nestjs-redis-lock /gm)].map(([, id]) => id);
  expect(ids).not.toHaveLength(0);
  for (const id of ids) await here.admin.call('CLIENT', 'KILL', 'ID', id);
}

/** Lets an instance wait until another one hands it the lock. */
async function hearOnce(locks: LockService): Promise<void> {
  const first = await here.holder();
  const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
  await first.release();
  await (await granted).release();
}

describe('a request connection that leads to another server', () => {
  it('makes the subscription follow, and handoffs arrive at once', async () => {
    const { proxy } = await here.way();
    const [one, other] = [1, 2].map(() => here.instance({ redis: proxy.url, fairness: 'strict' }));
    for (const locks of [one, other]) await hearOnce(locks);
    expect(await subscribedHere(one, other)).toBe(2);
    proxy.retarget(there.server.url);
    await cutAsking();
    await eventually('both are subscribed there', async () => (await there.listening()) === 2);
    expect(await subscribedHere(one, other)).toBe(0);
    for (const [holder, waiter] of [
      [one, other],
      [other, one],
    ]) {
      const lock = await holder.acquire('goods:300');
      const granted = waiter.acquire('goods:300');
      const queued = async (): Promise<boolean> => (await there.admin.zcard(`${here.key}|queue`)) === 1;
      await eventually('it waits in the queue there', queued);
      await lock.release();
      // The release has handed it off.
      expect(await there.admin.exists(here.key)).toBe(1);
      await (await granted).release();
    }
  });
});

describe('a subscription to a server other than that of the requests', () => {
  const doubted = (): readonly string[] => here.warnings.filter((line) => line.includes('may lead to another server'));

  it('is logged once, and not relied on', async () => {
    const redis = here.twoWays(here.server.url, there.server.url);
    const locks = here.instance({ redis, requestTimeoutMs: 100 });
    const first = await here.holder();
    const granted = locks.acquire('goods:300');
    await eventually('it is doubted', () => doubted().length > 0);
    expect(doubted()).toHaveLength(1);
    expect(await here.queueLength()).toBe(0);
    await first.release();
    await (await granted).release();
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a closed module', () => {
  it('opens no subscription, whatever replies arrive later', async () => {
    const { proxy, log } = await here.way();
    const client = here.twoWays(proxy.url, here.server.url);
    const copies: Redis[] = [];
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (override?: Partial<RedisOptions>) => {
      copies.push(duplicate(override));
      return copies[0];
    };
    const prefix = here.key.slice(1, here.key.indexOf('goods'));
    const options = { redis: client, prefix, shutdownGraceMs: 0, waitMs: 60_000, unavailableAfterMs: Infinity };
    const runtime = LockRuntime.start(options, undefined, { requestTimeoutMs: 2_000, logger: silent });
    await runtime.service.using('goods:1', () => undefined);
    await here.holder();
    log.clear();
    proxy.hold('replies');
    const waiting = runtime.service.acquire('goods:300');
    waiting.catch(() => undefined);
    await eventually('it requests', () => log.count('tokenAcquire') >= 1);
    await runtime.close();
    await expect(waiting).rejects.toBeInstanceOf(LockClosedError);
    proxy.resume('replies');
    await client.ping();
    for (const copy of copies) copy.disconnect();
    expect(copies.length).toBe(0);
  });
});

describe('a client without reconnection (retryStrategy: null)', () => {
  it('that its owner quits without closing the module lets the process end', async () => {
    const contended = `
      const clients = [1, 2].map(() => new Redis('${here.server.url}'));
      const [one, other] = clients.map((redis) => LockRuntime.start({ redis }, undefined, { logger: silent }).service);
      for (const [holder, waiter] of [[one, other], [other, one]]) {
        const first = await holder.acquire('goods:300');
        const waiting = waiter.acquire('goods:300');
        while (waiter.engine.store.channels?.subscriptions.all[0]?.state !== 'subscribed') {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        await first.release();
        await (await waiting).release();
      }
      await Promise.all(clients.map((client) => client.quit()));
    `;
    expect(await longestTimerAtEndOf(contended)).toBeLessThanOrEqual(CUT_MS);
  });
});
