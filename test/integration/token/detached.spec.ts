import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Lock, LockClosedError, LockLostError } from 'nestjs-redis-lock';
import { outcome } from '../../support/async.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';

const DOC = 'goods:300';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Returns everything that Redis has, as text. */
async function everything(): Promise<string> {
  const names = await here.admin.keys('*');
  const values = await Promise.all(names.map((name) => here.admin.get(name).catch(() => '')));
  return [...names, ...values].join('\n');
}

describe('a detached lock in Redis', () => {
  it('shows who inspects, lists and waits no ticket, and Redis itself has only its hash', async () => {
    const [one, other] = [here.instance(), here.instance()];
    const lock = await one.acquire(DOC);
    const ticket = await lock.detach();
    const stored = await everything();
    expect(stored).toContain('v2-detached:');
    expect(stored).not.toContain(ticket.slice(3));
    const shown = { holder: 'detached', identity: undefined, isOwn: false, fencingToken: lock.fencingToken };
    expect(await other.inspect(DOC)).toMatchObject(shown);
    for await (const each of other.list()) expect(each).toMatchObject({ resource: DOC, ...shown });
    const refused = await other.acquire(DOC, { waitMs: 0 }).catch((error: unknown) => error);
    expect(String(refused)).not.toContain(ticket);
    // The hash is not the ticket.
    const [, hash] = /detached:([\w-]+)/.exec(stored) ?? [];
    await expect(other.release(DOC, `t1-${hash.slice(0, 30)}`)).resolves.toBe(false);
    expect(await one.release(DOC, ticket)).toBe(true);
    expect(await other.inspect(DOC)).toBeNull();
  });

  it('survives a server without memory, and a forgotten script', async () => {
    const one = here.instance();
    const lock = await one.acquire(DOC);
    await here.admin.config('SET', 'maxmemory', '1');
    try {
      const ticket = await lock.detach();
      await here.admin.script('FLUSH');
      const resumed = await one.resume(DOC, ticket);
      expect(resumed.fencingToken).toBe(lock.fencingToken);
      expect(await resumed.release()).toBe(true);
    } finally {
      await here.admin.config('SET', 'maxmemory', '0');
    }
  });

  it('is resumed although the connection ends before the reply', async () => {
    const { proxy } = await here.way();
    const [one, other] = [here.instance(), here.instance({ redis: proxy.url })];
    const lock = await one.acquire(DOC);
    const ticket = await lock.detach();
    // The scripts are known.
    await here.clock.until(other.extend(DOC, ticket));
    proxy.hold('replies');
    const resumed = outcome(other.resume(DOC, ticket));
    await here.clock.advanceUntil('the request has run', async () => {
      const info = await one.inspect(DOC);
      return info?.holder !== 'detached';
    });
    proxy.reset();
    proxy.resume('replies');
    await here.clock.advanceUntil('there is a lock', () => resumed.value !== undefined);
    const again = resumed.value as Lock;
    expect(again.fencingToken).toBe(lock.fencingToken);
    await here.clock.advance(90_000);
    expect(await again.release()).toBe(true);
    expect(await one.inspect(DOC)).toBeNull();
  });

  it('is given back to its ticket by a shutdown during resume()', async () => {
    const { proxy } = await here.way();
    const [one, other] = [here.instance(), here.instance({ redis: proxy.url })];
    const ticket = await (await one.acquire(DOC)).detach();
    await here.clock.until(other.extend(DOC, ticket));
    proxy.hold('replies');
    const resumed = outcome(other.resume(DOC, ticket));
    await here.clock.advance(1);
    const closing = other.engine.close(0);
    await here.clock.advance(10);
    proxy.resume('replies');
    await here.clock.until(closing);
    expect(resumed.error).toBeInstanceOf(LockClosedError);
    (await one.resume(DOC, ticket)).assertHeld();
  });

  it('stays closed for lockDelayMs after its lease, and after maxHoldMs', async () => {
    const start = () => here.instance({ lockDelayMs: 60_000 });
    const [one, other] = [start(), start()];
    const short = await (await one.acquire('goods:1')).detach({ ttlMs: 5_000 });
    const limited = await (await one.acquire('goods:2', { maxHoldMs: 40_000 })).detach();
    const given = await (await one.acquire('goods:3')).detach();
    expect((await other.resume('goods:3', given)).expiresInMs).toBeLessThanOrEqual(30_000);
    await here.clock.advance(39_000);
    await other.extend('goods:1', short);
    await other.extend('goods:2', limited);
    await here.clock.advance(1_100);
    await expect(other.extend('goods:2', limited)).rejects.toBeInstanceOf(LockLostError);
    await expect(other.resume('goods:2', limited)).rejects.toBeInstanceOf(LockLostError);
    await here.clock.advance(58_000);
    for (const name of ['goods:1', 'goods:2']) expect(await one.tryAcquire(name)).toBeNull();
    await here.clock.advance(6_000);
    for (const name of ['goods:1', 'goods:2']) expect(await one.inspect(name)).toBeNull();
  });
});
