import { describe, expect, it } from '@jest/globals';
import { scripts } from '../../../lib/stores/token/scripts.js';
import { channelEnd } from '../../../lib/stores/token/wire.js';
import { eventually } from '../../support/redis-locks.js';
import { ownerOf } from '../../support/inside.js';
import { untilSubscribed } from '../../support/subscriber-of.js';
import { forTests } from '../../support/for-tests.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';

const LONG = { ttlMs: 60_000 };
const here = forTests(new StoppedContention());

describe('a release by force', () => {
  it('ends a hold although its holder has written its names since it was read', async () => {
    const lock = await here.instance(LONG).acquire('goods:300');
    const [value, , digest] = (await here.admin.eval(scripts.inspect.lua, 1, here.key)) as string[];
    await here.admin.set(here.key, `${value} Shop.buy request%207`, 'KEEPTTL');
    const keys = [here.keyOf('fence'), here.key, `${here.key}|queue`, `${here.key}|holders`];
    expect(await here.admin.eval(scripts.forceRelease.lua, 4, ...keys, '1200', 'channel:', '0', digest, '')).toBe(1);
    expect(await here.admin.exists(here.key)).toBe(0);
    expect(await lock.release()).toBe(false);
  });

  it('that is sent again after a lost reply does not end the next hold', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await here.holder(LONG);
    const { granted } = await here.enqueue(() => here.instance(LONG).acquire('goods:300'));
    expect(await locks.forceRelease('goods:300')).toBe(true);
    const next = await granted;
    // As a client does whose connection has ended before the reply.
    const [[command, ...words]] = log.requestsOf('tokenForceRelease');
    expect(await here.admin.call(command, ...words)).toBe(0);
    next.assertHeld();
    await next.extend();
  });

  it('ends the lock of another system, which has no token', async () => {
    await here.admin.set(here.key, 'held by redlock');
    const locks = here.instance();
    expect(await locks.forceRelease('goods:300', { ifToken: 5 })).toBe(false);
    expect(await locks.forceRelease('goods:300')).toBe(true);
    await locks.using('goods:300', () => undefined);
    await here.admin.lpush(here.key, 'a list');
    await expect(locks.forceRelease('goods:300')).rejects.toMatchObject({ refusal: 'WRONGTYPE' });
  });

  it('works with the keyPrefix of a client', async () => {
    const start = () => here.instance({ ...LONG, redis: here.client({ keyPrefix: 'shop:' }) });
    const [one, other] = [start(), start()];
    const held = await other.acquire('goods:300');
    const waiting = one.acquire('goods:300');
    await untilSubscribed(one);
    await held.release();
    const lock = await here.clock.until(waiting);
    expect(await other.forceRelease('goods:300')).toBe(true);
    // A renewal finds out after 20 s.
    const isForced = () => String(lock.signal.reason).includes('it was released by force');
    await here.clock.advanceUntil('a message ends the hold', isForced, 5_000);
  });
});

describe('a message that is forged', () => {
  it('costs a holder renewals, and not its lock', async () => {
    const locks = here.instance(LONG);
    await here.subscribe(locks, here.instance(LONG));
    const lock = await locks.acquire('goods:300');
    const [engineLock] = locks.engine.holds();
    const owner = ownerOf(engineLock);
    const channel = (await here.channels()).find((name) => name.endsWith(channelEnd(locks.engine.instanceId))) ?? '';
    await here.admin.config('RESETSTAT');
    for (let i = 0; i < 50; i += 1) await here.admin.publish(channel, `${owner} - ${here.key}`);
    const garbage = ['', ' ', owner, `${owner} - `, `${owner} ${here.key}`, `${owner}7 - ${here.key}`];
    for (const message of [...garbage, `elsewhere:1 - ${here.key}`])
      expect(await here.admin.publish(channel, message)).toBe(1);
    await eventually('it has asked', async () => /cmdstat_pexpire/.test(await here.admin.info('commandstats')));
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });
});
