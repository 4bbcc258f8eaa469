import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Contention } from '../../support/contention.js';

let here: Contention;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

describe('waiters that are frozen', () => {
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
