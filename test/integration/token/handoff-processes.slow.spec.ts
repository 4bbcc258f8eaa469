import { describe, expect, it } from '@jest/globals';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());

describe('processes that end or stop', () => {
  it('a dead first waiter is skipped at once', async () => {
    const head = await here.process();
    const first = await here.holder();
    await here.enqueue(() => head.call('acquire', 'goods:300'));
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await eventually('both waiters are subscribed', async () => (await here.listening()) === 2);
    await head.kill();
    await eventually('its subscription is gone', async () => (await here.listening()) === 1);
    await first.release();
    // The release has handed it to the second.
    expect(await here.admin.exists(here.key)).toBe(1);
    await granted;
  });

  it('a stopped first waiter loses the lock after one handoff lease', async () => {
    const head = await here.process();
    const first = await here.holder();
    const { granted: late } = await here.enqueue(() => head.call('acquire', 'goods:300'));
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    head.pause();
    await first.release();
    const second = await granted;
    head.resume();
    await here.queueOf(1);
    second.assertHeld();
    expect(await second.release()).toBe(true);
    expect(await late).toBeGreaterThan(second.fencingToken);
    expect(await head.call('release', 'goods:300')).toBe(true);
  });
});
