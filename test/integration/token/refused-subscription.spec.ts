import { describe, expect, it } from '@jest/globals';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';
import { subscriptionOf } from '../../support/subscriber-of.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());

describe('a user that may not SUBSCRIBE', () => {
  it('holds a lock without a warning, until a caller waits', async () => {
    const locks = here.instance({ redis: await here.guest('+@all', 'resetchannels') });
    const lock = await locks.acquire('goods:301');
    await lock.extend();
    expect(await locks.ping()).toMatchObject({ isUp: true, handoff: 'subscription', degraded: undefined });
    expect(here.warnings).toEqual([]);
    const first = await here.holder();
    const waiting = locks.acquire('goods:300');
    await eventually('it is refused', () => subscriptionOf(locks)?.state === 'refused');
    const polling = { isUp: true, handoff: 'polling', degraded: expect.stringContaining('costs more requests') };
    expect(await locks.ping()).toMatchObject(polling);
    await first.release();
    await (await waiting).release();
    await lock.release();
    expect(here.warnings).toEqual([expect.stringContaining('Waiting for locks costs more requests')]);
  });
});
