import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';
import { subscriptionOf } from '../../support/subscriber-of.js';

let here: Contention;
let redis: string;

beforeAll(async () => {
  here = await Contention.start();
  redis = here.server.url.replace('redis://', 'redis://guest:any@');
});
beforeEach(async () => {
  await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', '+@all', 'resetchannels');
});
afterEach(async () => {
  await here.clear();
  await here.admin.acl('DELUSER', 'guest');
});
afterAll(() => here.close());

/** Waits until the server has refused the subscription. */
const untilRefused = (locks: LockService): Promise<void> =>
  eventually('it is refused', () => subscriptionOf(locks)?.state === 'refused');

describe('a user that may not SUBSCRIBE', () => {
  it('holds a lock without a warning, until a caller waits', async () => {
    const locks = here.instance({ redis });
    const lock = await locks.acquire('goods:301');
    await lock.extend();
    expect(await locks.ping()).toMatchObject({ isUp: true, handoff: 'subscription', degraded: undefined });
    expect(here.warnings).toEqual([]);
    const first = await here.holder();
    const waiting = locks.acquire('goods:300');
    await untilRefused(locks);
    const polling = { isUp: true, handoff: 'polling', degraded: expect.stringContaining('costs more requests') };
    expect(await locks.ping()).toMatchObject(polling);
    await first.release();
    await (await waiting).release();
    await lock.release();
    expect(here.warnings).toEqual([expect.stringContaining('Waiting for locks costs more requests')]);
  });

  it('is warned at its first wait, even if the lock is held only briefly', async () => {
    const locks = here.instance({ redis });
    const first = await here.holder();
    const waiting = locks.acquire('goods:300');
    await eventually('it is said', () => here.warnings.length > 0);
    expect(await locks.ping()).toMatchObject({ handoff: 'polling' });
    await first.release();
    await (await waiting).release();
  });
});
