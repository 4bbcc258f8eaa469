import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Lock } from 'nestjs-redis-lock';
import { scripts } from '../../../lib/stores/token/scripts.js';
import { channelEnd } from '../../../lib/stores/token/wire.js';
import { outcome } from '../../support/async.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { embeddedScripts } from '../../support/embedded-scripts.js';
import { eventually } from '../../support/redis-locks.js';
import { ownerOf } from '../../support/inside.js';
import { untilSubscribed } from '../../support/subscriber-of.js';

// Renewals find out after 20 s. What is known sooner came by a message.
const LONG = { ttlMs: 60_000 };
const FORCED = 'it was released by force';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(async () => {
  await here.clear();
  await here.admin.acl('DELUSER', 'guest');
});
afterAll(() => here.close());

const lossOf = (lock: Lock): string => (lock.signal.reason as Error | undefined)?.message ?? '';

/** Waits until a holder has learned by a message that its hold was ended. Its instance must be subscribed. */
async function untilForced(lock: Lock): Promise<void> {
  await here.clock.advanceUntil('the signal aborts', () => lossOf(lock).includes(FORCED), 5_000);
}

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

  it('rejects if its reply is lost, because it may have ended the hold, and ends no other', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 });
    await locks.using('goods:301', () => undefined);
    await here.holder(LONG);
    const { granted } = await here.enqueue(() => here.instance(LONG).acquire('goods:300'));
    let isSent = false;
    proxy.filter = (words) => {
      if (words[1] === embeddedScripts.get('tokenForceRelease') && !isSent) {
        isSent = true;
        proxy.drop('replies');
      }
      return undefined;
    };
    const released = outcome(locks.forceRelease('goods:300'));
    const next = await granted;
    proxy.resume('replies');
    proxy.reset();
    await eventually('it has a result', () => 'value' in released || 'error' in released);
    expect(released.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
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
    const client = (): Redis => new Redis(here.server.url, { keyPrefix: 'shop:' });
    const clients = [client(), client()];
    const [one, other] = clients.map((redis) => here.instance({ ...LONG, redis }));
    const held = await other.acquire('goods:300');
    const waiting = one.acquire('goods:300');
    await untilSubscribed(one);
    await held.release();
    const lock = await here.clock.until(waiting);
    expect(await other.forceRelease('goods:300')).toBe(true);
    await untilForced(lock);
    for (const each of clients) each.disconnect();
  });

  it('is known by the next renewal if no message may be received', async () => {
    await here.admin.acl('SETUSER', 'guest', 'reset', 'on', 'nopass', '~*', '+@all', 'resetchannels');
    const redis = here.server.url.replace('redis://', 'redis://guest:any@');
    const lock = await here.instance({ redis, ttlMs: 3_000 }).acquire('goods:300');
    expect(await here.instance({ redis }).forceRelease('goods:300')).toBe(true);
    await here.clock.advanceUntil('it is lost', () => lock.signal.aborted);
    expect(lossOf(lock)).toContain('its key is gone or belongs to someone else');
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
    const garbage = [
      '',
      ' ',
      owner,
      `${owner} - `,
      `${owner} ${here.key}`,
      `${owner}7 - ${here.key}`,
      `elsewhere:1 - ${here.key}`,
    ];
    for (const message of garbage) expect(await here.admin.publish(channel, message)).toBe(1);
    await eventually('it has asked', async () => /cmdstat_pexpire/.test(await here.admin.info('commandstats')));
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });
});
