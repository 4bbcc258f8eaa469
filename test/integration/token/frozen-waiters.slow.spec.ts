import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { RedisLockModuleOptions } from 'nestjs-redis-lock';
import type { RedisProxy } from '../../support/proxy.js';
import { Contention } from '../../support/contention.js';

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Returns an instance that waits for the lock, and its proxy. A held proxy is a stopped process to Redis. */
async function waiter(options: RedisLockModuleOptions = {}): Promise<RedisProxy> {
  const { proxy } = await here.way();
  await here.enqueue(() => here.instance({ redis: proxy.url, ...options }).acquire('goods:300'));
  return proxy;
}

describe('waiters that are frozen', () => {
  it('delay the others by 3 s at most if they are eight, not by a lease each', async () => {
    const first = await here.holder();
    const frozen: RedisProxy[] = [];
    for (let i = 0; i < 8; i += 1) frozen.push(await waiter());
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    for (const proxy of frozen) {
      proxy.hold('replies');
      proxy.hold('requests');
    }
    const from = performance.now();
    await first.release();
    const lock = await granted;
    // 3 s each, 24 s in all, if each had the lease of a handoff that a live holder has released.
    expect(performance.now() - from).toBeLessThan(10_000);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('come again when they are back', async () => {
    const first = await here.holder();
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const { granted: late } = await here.enqueue(() => locks.acquire('goods:300'));
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    proxy.hold('replies');
    proxy.hold('requests');
    await first.release();
    const second = await granted;
    proxy.resume('replies');
    proxy.resume('requests');
    await here.queueOf(1);
    second.assertHeld();
    await second.release();
    expect(await (await late).release()).toBe(true);
  });
});
