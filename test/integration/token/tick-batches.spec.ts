import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-redis-lock';
import { eventually } from '../../support/async.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { renewAllOf } from '../../support/inside.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const RESOURCES = Array.from({ length: 300 }, (_, i) => `goods:${i}`);

describe('the requests of one tick', () => {
  it('concern their own lock alone: held, waited for, of another type, shared, and free', async () => {
    const [other, locks] = [here.instance(), here.instance()];
    await here.admin.lpush(here.keyOf('goods:7'), 'a list');
    const held = await other.acquire('goods:1');
    const shared = await other.acquire('goods:2', { mode: 'shared' });
    const permit = await other.acquire('goods:3', { permits: 2 });
    const waiting = { waitMs: 10_000 };
    const [busy, shares, differs, wrongType, reads, patient, ...free] = [
      locks.acquire('goods:1', { waitMs: 0 }),
      locks.acquire('goods:2', { waitMs: 0 }),
      locks.acquire('goods:3', { permits: 3, waitMs: 0 }),
      locks.acquire('goods:7', { waitMs: 0 }),
      locks.acquire('goods:2', { mode: 'shared', waitMs: 0 }),
      locks.acquire('goods:1', waiting),
      ...RESOURCES.slice(10, 90).map((resource) => locks.acquire(resource, { waitMs: 0 })),
      ...RESOURCES.slice(100, 190).map((resource) => locks.acquire(resource, waiting)),
    ];
    const results = await Promise.allSettled([busy, shares, differs, wrongType]);
    expect(results.map((result) => result.status === 'rejected' && String(result.reason))).toEqual([
      expect.stringMatching(/^LockTimeoutError/),
      expect.stringMatching(/^LockTimeoutError/),
      expect.stringMatching(/^LockConfigError/),
      expect.stringMatching(/^LockUnavailableError.*WRONGTYPE/),
    ]);
    expect(await Promise.all(free)).toHaveLength(170);
    await held.release();
    const granted = [await reads, await patient, shared, permit, ...(await Promise.all(free))];
    expect(await Promise.all(granted.map((lock) => lock.release()))).toEqual(granted.map(() => true));
  });

  it('are sent again one by one if the server has forgotten the script, or refuses a key', async () => {
    const locks = here.instance();
    await Promise.all(RESOURCES.map((resource) => locks.using(resource, () => undefined)));
    await here.admin.script('FLUSH');
    await Promise.all(RESOURCES.map((resource) => locks.using(resource, () => undefined)));

    const keys = [`~{${here.prefix}*|fence`, `~${here.keyOf('goods:1')}*`, `~${here.keyOf('first:1')}*`];
    const guest = here.instance({ redis: await here.guest('resetkeys', 'allchannels', '+@all', ...keys) });
    const requests = RESOURCES.slice(1, 60).map((resource) => guest.acquire(resource, { waitMs: 0 }));
    const results = await Promise.allSettled(requests);
    const granted = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    expect(granted.map(({ resource }) => resource)).toEqual(RESOURCES.slice(1, 60).filter((one) => /:1/.test(one)));
    const reasons = results.flatMap((result) => (result.status === 'rejected' ? [String(result.reason)] : []));
    expect(reasons.filter((reason) => !reason.includes('"Permissions" on the page'))).toEqual([]);
    expect(await Promise.all(granted.map((lock) => lock.release()))).toEqual(granted.map(() => true));
  });

  it('go alone for a while if the server refuses one of them, and are not refused in each tick', async () => {
    const allowed = [`~{${here.prefix}*|fence`, `~${here.keyOf('goods:')}*`, `~${here.keyOf('first:1')}*`];
    await here.guest('resetkeys', 'allchannels', '+@all', ...allowed);
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: { host: '127.0.0.1', port: proxy.port, username: 'guest', password: 'any' } });
    await locks.using('first:1', () => undefined);
    log.clear();
    for (let tick = 0; tick < 40; tick++) {
      here.clock.jump(1);
      const calls = [
        ...RESOURCES.slice(0, 20).map((resource) => locks.acquire(resource)),
        locks.acquire('secret:1', { waitMs: 0 }),
      ];
      const results = await Promise.allSettled(calls);
      const held = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(held).toHaveLength(20);
      expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
    }
    // Those of one tick, or of two, are on their way before the first refusal. It counts for 5 s.
    expect(log.count('tokenAcquireMany')).toBeLessThan(8);
    expect(log.count('tokenReleaseMany')).toBeLessThan(8);
  });

  it('are not sent one by one to a server that refuses every script', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    await locks.using('first:1', () => undefined);
    const { filter } = proxy;
    proxy.filter = (words) => {
      filter?.(words);
      return /^eval/i.test(words[0]) ? 'BUSY Redis is busy running a script.' : undefined;
    };
    log.clear();
    const calls = RESOURCES.slice(0, 60).map((resource) => locks.acquire(resource, { waitMs: 0 }));
    const results = await here.clock.until(Promise.allSettled(calls));
    expect(new Set(results.map((result) => result.status === 'rejected' && result.reason.refusal))).toEqual(
      new Set(['BUSY']),
    );
    expect(log.count('tokenAcquire')).toBe(0);
    proxy.filter = filter;
  });

  it('get free locks although dead instances are in their queues', async () => {
    const locks = here.instance();
    const resources = RESOURCES.slice(0, 60);
    for (const resource of resources) await here.admin.zadd(`${here.keyOf(resource)}|queue`, 1, 'v2-dead:1');
    for (let i = 1; i <= 70; i++) await here.admin.zadd(`${here.keyOf('goods:90')}|queue`, i, `v2-dead:${i}`);
    const tried = [...resources, 'goods:90'].map((resource) => locks.tryAcquire(resource));
    // The script leaves some to the next request.
    const held = await here.clock.until(Promise.all(tried));
    expect(held.filter((lock) => lock === null)).toEqual([]);
    await Promise.all(held.map((lock) => (lock as Lock).release()));
  });

  it('show a client that its server is read-only now, so that it can reconnect', async () => {
    let shown = 0;
    const reconnectOnError = (error: Error): boolean => {
      if (error.message.includes('READONLY')) shown += 1;
      return false;
    };
    const locks = here.instance({ redis: here.client({ reconnectOnError }) });
    const held = await Promise.all(RESOURCES.slice(0, 10).map((resource) => locks.acquire(resource)));
    await here.admin.replicaof('127.0.0.1', '1');
    renewAllOf(locks);
    await eventually('the client has seen it', () => shown > 0);
    await here.admin.replicaof('NO', 'ONE');
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(held.map(() => true));
  });

  it('hand the lock of a dead holder to all sharers that wait, although they repeat nothing', async () => {
    const locks = here.instance();
    const subscriber = here.admin.duplicate();
    await subscriber.subscribe(`${here.prefix}nestjs-redis-lock:v2-other`);
    const resources = ['goods:1', 'goods:2', 'goods:3'];
    const queues = resources.map((resource) => `${here.keyOf(resource)}|queue`);
    for (const queue of queues) {
      // One script run goes through 128 entries.
      for (let n = 1; n <= 40; n++) await here.admin.zadd(queue, n, `v2-other:${n} *`);
    }
    const modes = [{}, { mode: 'shared' }, { permits: 2 }] as const;
    const held = await Promise.all(resources.map((resource, i) => locks.tryAcquire(resource, modes[i])));
    const waiting = async (): Promise<number> => {
      const counts = await Promise.all(queues.map((queue) => here.admin.zcount(queue, '(0', '+inf')));
      return counts.reduce((sum, count) => sum + count);
    };
    await eventually('nobody waits', async () => (await waiting()) === 0);
    // A reader joins them.
    expect(held.map((lock) => lock?.resource)).toEqual([undefined, 'goods:2', undefined]);
    subscriber.disconnect();
  });

  it('are released before the same keys are acquired again', async () => {
    const locks = here.instance({ fairness: 'strict' });
    let held: readonly Lock[] = await Promise.all(RESOURCES.slice(0, 40).map((resource) => locks.acquire(resource)));
    for (let round = 0; round < 5; round++) {
      const released = held.map((lock) => lock.release());
      const next = held.map(({ resource }) => locks.acquire(resource, { waitMs: 0 }));
      expect(await Promise.all(released)).toEqual(held.map(() => true));
      held = await Promise.all(next);
    }
    const released = held.map((lock) => lock.release());
    expect(await locks.inspect(held[39].resource)).toBeNull();
    await Promise.all(released);
  });

  it('renew many locks by a few script calls, and show the loss of each', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url });
    const resources = RESOURCES.slice(0, 150);
    const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
    const readers = await Promise.all(resources.map((resource) => locks.acquire(`r${resource}`, { mode: 'shared' })));
    const [deleted, taken, listed] = held;
    await here.admin.del(deleted.key);
    await here.admin.set(taken.key, 'another:1', 'PX', 60_000);
    await here.admin.del(listed.key);
    await here.admin.lpush(listed.key, 'a list');
    log.clear();
    renewAllOf(locks);
    const renewals = () => log.requestsOf('tokenExtendMany');
    await here.clock.advanceUntil('all are sent', () => renewals().length >= 5);
    await eventually('both losses are known', () => deleted.signal.aborted && taken.signal.aborted, 5_000);
    expect(renewals()).toHaveLength(5);
    // An error is not a loss: the store may reply the next time.
    expect(listed.signal.aborted).toBe(false);
    for (const lock of [...held.slice(3), ...readers]) lock.assertHeld();
    const leases = await Promise.all(held.slice(3).map(({ key }) => here.admin.pttl(key)));
    expect(Math.min(...leases)).toBeGreaterThan(25_000);
    await Promise.all([...held, ...readers].map((lock) => lock.release().catch(() => false)));
    await here.admin.del(listed.key);
  });

  it('are sent again by a client that collects its commands, after its connection has ended', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: here.client({ enableAutoPipelining: true }, proxy.url) });
    await locks.using('goods:1', () => undefined);
    proxy.hold('replies');
    const granted = ['goods:2', 'goods:3', 'goods:4'].map((resource) => locks.acquire(resource));
    const keys = ['goods:2', 'goods:3', 'goods:4'].map((resource) => here.keyOf(resource));
    await eventually('all run', async () => (await here.admin.exists(...keys)) === 3);
    log.clear();
    proxy.reset();
    proxy.resume('replies');
    await eventually('they are sent again', () => log.names.some((name) => name.startsWith('tokenAcquire')));
    for (const lock of await here.clock.until(Promise.all(granted))) expect(await lock.release()).toBe(true);
    expect(await here.admin.exists(...keys)).toBe(0);
  });
});

it('get their replies although the code that gets another one fails', async () => {
  // In a process of its own, because nobody catches that error.
  const program = `
    import { createLocks } from './lib/standalone/index.ts';
    import { KeyQueue } from './lib/engine/key-queue.ts';
    const { onReply } = KeyQueue.prototype;
    KeyQueue.prototype.onReply = function (...given) {
      if (this.key.endsWith(':1')) throw new Error('a fault');
      onReply.apply(this, given);
    };
    process.once('uncaughtException', ({ message }) => console.log(message));
    const locks = createLocks({ redis: process.argv[1], logger: { log() {}, warn() {}, error() {} } });
    await locks.using('goods:3', () => undefined);
    void locks.acquire('goods:1').catch(() => undefined);
    console.log(await locks.using('goods:2', () => 'sold').catch(({ code }) => code));
    process.exit();
  `;
  const hooks = ['--import', './test/support/typescript-hooks.mjs', '--input-type=module'];
  const options = { cwd: join(__dirname, '../../..') };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...hooks, '--eval', program, here.servers.url],
    options,
  );
  expect(stdout).toBe('a fault\nsold\n');
});
