import { describe, expect, it } from '@jest/globals';
import { type Lock } from 'nestjs-redis-lock';
import { outcome } from '../../support/async.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { forTests } from '../../support/for-tests.js';

const DOC = 'goods:300';

const here = forTests(new StoppedContention());

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
});
