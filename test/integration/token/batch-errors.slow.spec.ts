import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/async.js';
import { COUNT, ManyLocks, RESOURCES } from '../../support/many-locks.js';
import type { RedisProxy } from '../../support/proxy.js';
import { renewAllOf } from '../../support/inside.js';

let many: ManyLocks;

beforeAll(async () => {
  many = await ManyLocks.start();
});
afterEach(() => many.clear());
afterAll(() => many.here.close());

/** Makes the server reply this error to every script, until the returned function is called. */
function refuseScripts(proxy: RedisProxy, error: string): () => void {
  const { filter } = proxy;
  proxy.filter = (words) => {
    filter?.(words);
    return /^eval/i.test(words[0]) ? error : undefined;
  };
  return () => (proxy.filter = filter);
}

describe('requests that travel together', () => {
  it('leave no lock if the client sends them again after their callers have left', async () => {
    const { locks, proxy } = await many.behindProxy({ requestTimeoutMs: 200 }, { autoResendUnfulfilledCommands: true });
    proxy.hold('requests');
    const calls = RESOURCES.map((resource) => locks.acquire(resource, { waitMs: 0 }));
    const results = await Promise.allSettled(calls);
    expect(results.map((result) => result.status === 'rejected' && result.reason.code)).toEqual(
      RESOURCES.map(() => 'LOCK_UNAVAILABLE'),
    );
    proxy.reset();
    proxy.resume('requests');
    await locks.using('first:2', () => undefined);
    await eventually('all are released', async () => (await many.locked()) === 0);
  });

  it('are served if a blocked event loop sends them late', async () => {
    const { locks } = await many.behindProxy({ requestTimeoutMs: 100 });
    const calls = RESOURCES.map((resource) => locks.acquire(resource));
    for (const until = performance.now() + 150; performance.now() < until;);
    expect(await many.faultsOf(await Promise.all(calls))).toEqual([]);
  });

  it('still travel together if the server has forgotten the scripts', async () => {
    const { locks, log } = await many.behindProxy();
    await many.here.admin.script('FLUSH');
    const held = await many.acquireAll(locks);
    await many.here.admin.script('FLUSH');
    await many.halveLeases();
    renewAllOf(locks);
    await eventually('all leases are renewed', () => many.areRenewed());
    await many.here.admin.script('FLUSH');
    expect(await many.releaseAll(held)).toBe(held.length);
    const alone = ['tokenAcquire', 'tokenRelease', 'tokenExtend'].map((name) => log.count(name));
    expect(Math.max(...alone)).toBeLessThan(COUNT);
    expect(await many.here.leftovers()).toEqual([]);
  });

  it('read a reply of many packets', async () => {
    const { locks, proxy } = await many.behindProxy();
    const held = await many.acquireAll(many.here.instance());
    proxy.packetSize = 100;
    const tried = RESOURCES.map((resource) => locks.tryAcquire(resource));
    expect(await Promise.all(tried)).toEqual(RESOURCES.map(() => null));
    expect(await many.releaseAll(held)).toBe(held.length);
    const own = await many.acquireAll(locks);
    renewAllOf(locks);
    expect(await many.faultsOf(own)).toEqual([]);
  });

  it('are all served once a server that is out of memory has some again', async () => {
    const { locks } = await many.behindProxy();
    const held = await many.acquireAll(locks);
    await many.here.admin.config('SET', 'maxmemory', '1');
    const refused = await Promise.allSettled(RESOURCES.map((_, i) => locks.acquire(`new:${i}`, { waitMs: 0 })));
    expect(refused.filter((result) => result.status === 'fulfilled' || !/OOM/.test(result.reason.message))).toEqual([]);
    renewAllOf(locks);
    const later = RESOURCES.map((_, i) => locks.acquire(`new:${i}`));
    expect(await many.releaseAll(held)).toBe(held.length);
    await many.here.admin.config('SET', 'maxmemory', '0');
    expect(await many.releaseAll(await Promise.all(later))).toBe(COUNT);
    expect(await many.here.leftovers()).toEqual([]);
  });

  it.each([
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    'LOADING Redis is loading the dataset in memory',
    'MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to no.',
    'MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
    "READONLY You can't write against a read only replica.",
  ])('are not sent one by one to a server that refuses every script: %s', async (refusal) => {
    const { locks, proxy, log } = await many.behindProxy();
    const held = await many.acquireAll(locks);
    const accept = refuseScripts(proxy, refusal);
    log.clear();
    const [code] = refusal.split(' ');
    const calls = RESOURCES.map((_, i) => locks.acquire(`new:${i}`, { waitMs: 0 }));
    const released = held.slice(1).map((lock) => lock.release());
    const results = await Promise.allSettled([...calls, ...released]);
    const reasons = results.map((result) => (result.status === 'rejected' ? String(result.reason) : 'none'));
    expect(reasons.filter((reason) => !reason.includes(code))).toEqual([]);
    renewAllOf(locks);
    await eventually('the renewal is sent', () => log.count('tokenExtend') > 0);
    // Failed releases are repeated together as well.
    expect(log.count('tokenAcquire')).toBeLessThan(COUNT);
    accept();
    held[0].assertHeld();
    await held[0].release();
    await eventually('nothing is left', async () => (await many.here.leftovers()).length === 0);
  });

  it('leave no lock if the server refuses them together after their callers have left', async () => {
    const { locks, proxy, log } = await many.behindProxy();
    const given = new AbortController();
    const accept = refuseScripts(proxy, 'NOPERM this user has no permissions to access one of the keys used');
    proxy.hold('replies');
    const calls = RESOURCES.map((resource) => locks.acquire(resource, { signal: given.signal }));
    await eventually('they are sent', () => log.count('tokenAcquireMany') > 0);
    given.abort(new Error('gone'));
    expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual(RESOURCES.map(() => 'rejected'));
    accept();
    // No release overtakes its request.
    expect(log.count('tokenRelease') + log.count('tokenReleaseMany')).toBe(0);
    proxy.resume('replies');
    await locks.using('first:2', () => undefined);
    await eventually('nothing is left', async () => (await many.here.leftovers()).length === 0);
  });
});
