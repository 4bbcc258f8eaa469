import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { RedisProxy } from '../../support/proxy.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';

const here = forTests(new Contention());
let proxy: RedisProxy;
let direct: LockService;

beforeEach(async () => {
  ({ proxy } = await here.way());
  direct = here.instance();
});

const start = (options = {}) => here.instance({ redis: proxy.url, requestTimeoutMs: 100, ...options });

describe('a connection that carries requests and no replies', () => {
  it('is replaced, and the callers that wait get their locks', async () => {
    const locks = start();
    await locks.using('goods:300', () => undefined);
    proxy.swallowReplies();
    const waiting = Promise.all([locks.acquire('goods:300'), locks.acquire('goods:301')]);
    for (const lock of await waiting) {
      lock.assertHeld();
      expect(await lock.release()).toBe(true);
    }
    await (await direct.acquire('goods:300')).release();
  });

  it('is an outage with its reason, until then', async () => {
    const locks = start({ unavailableAfterMs: 0 });
    await locks.using('goods:300', () => undefined);
    proxy.swallowReplies();
    await expect(locks.acquire('goods:300')).rejects.toThrow('no reply within 100 ms');
    // So callers of other locks need not find out.
    expect(locks.engine.servers()).toEqual([expect.objectContaining({ isUp: false })]);
  });

  it('stays if the caller has given its client, and does not keep the lock from others', async () => {
    const client = here.client({}, proxy.url);
    let closes = 0;
    client.on('close', () => (closes += 1));
    const locks = start({ redis: client });
    await locks.using('goods:300', () => undefined);
    proxy.swallowReplies();
    const leaving = new AbortController();
    const waiting = locks.acquire('goods:300', { ttlMs: 1_000, signal: leaving.signal });
    await eventually('a request has got the lock', async () => (await direct.inspect('goods:300')) !== null);
    // The owner that gets no replies asks again, but not without end.
    await (await direct.acquire('goods:300')).release();
    expect(closes).toBe(0);
    leaving.abort(new Error('it waits no longer'));
    await expect(waiting).rejects.toThrow('it waits no longer');
    client.disconnect(true);
    await locks.using('goods:300', () => undefined);
    await eventually('nothing is left', async () => (await direct.inspect('goods:300')) === null);
  });
});
