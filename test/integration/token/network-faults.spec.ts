import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type LockService, LockUnavailableError } from 'nestjs-redis-lock';
import type { RedisProxy } from '../../support/proxy.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';
import type { RequestLog } from '../../support/request-log.js';

const here = forTests(new Contention());
let proxy: RedisProxy;
let log: RequestLog;
let direct: LockService;

beforeEach(async () => {
  ({ proxy, log } = await here.way());
  direct = here.instance();
});

const start = (options = {}): LockService => here.instance({ redis: proxy.url, requestTimeoutMs: 200, ...options });

describe('a faulty network', () => {
  it('that delays a request past its time limit: it does nothing to the next holder', async () => {
    const locks = start();
    await locks.using('goods:300', () => undefined);
    proxy.hold('requests');
    await expect(locks.tryAcquire('goods:300')).rejects.toBeInstanceOf(LockUnavailableError);
    const held = await direct.acquire('goods:300');
    proxy.resume('requests');
    const inspected = () =>
      locks.inspect('goods:300').then(
        () => true,
        () => false,
      );
    await eventually('a later request has its reply', inspected);
    held.assertHeld();
    expect(await direct.inspect('goods:300')).toMatchObject({ fencingToken: held.fencingToken });
    expect(await held.release()).toBe(true);
    expect(await direct.inspect('goods:300')).toBeNull();
  });

  it('that connects after the caller has left: what its request brings is released', async () => {
    proxy.hold('replies');
    const locks = start({ requestTimeoutMs: 60_000 });
    const abort = new AbortController();
    const asking = locks.acquire('goods:300', { signal: abort.signal }).catch((reason: unknown) => reason);
    await eventually('the client connects', () => proxy.connectionCount > 0);
    abort.abort(new Error('gone home'));
    expect(await asking).toEqual(new Error('gone home'));
    proxy.resume('replies');
    await locks.using('other:1', () => undefined);
    expect(log.count('tokenAcquire')).toBe(2);
    await eventually('it is released', async () => (await direct.inspect('goods:300')) === null, 5_000);
  });

  it('that ends a connection: its request ends too, although the client would send it again', async () => {
    const client = here.client({}, proxy.url);
    const locks = start({ redis: client, requestTimeoutMs: 60_000 });
    await locks.using('goods:300', () => undefined);
    proxy.hold('replies');
    const trying = locks.tryAcquire('goods:300');
    await eventually('the request has run', async () => (await direct.inspect('goods:300')) !== null);
    await proxy.refuseConnections();
    proxy.reset();
    await expect(trying).rejects.toThrow('the connection ended before the reply');
    proxy.resume('replies');
    await proxy.acceptConnections();
    await eventually('nothing is left', async () => (await direct.inspect('goods:300')) === null);
  });

  it('that resets the connection before the reply: one retry gets the lock', async () => {
    const locks = start({ requestTimeoutMs: 1_000 });
    await locks.using('goods:300', () => undefined);
    proxy.hold('replies');
    const asking = locks.acquire('goods:300');
    await eventually('the ask has run', async () => (await direct.inspect('goods:300')) !== null);
    proxy.reset();
    proxy.resume('replies');
    const lock = await asking;
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    await eventually('nothing is left', async () => (await direct.inspect('goods:300')) === null);
  });

  it('that resets the connection before the replies: no request is sent twice or stays without an outcome', async () => {
    const locks = start({ requestTimeoutMs: 60_000 });
    await locks.using('goods:300', () => undefined);
    log.clear();
    proxy.hold('replies');
    const asking = [locks.inspect('goods:300'), locks.forceRelease('goods:300'), locks.ping()];
    const outcomes = Promise.allSettled(asking);
    await eventually('they are sent', () => log.count('tokenInspect') === 2 && log.count('time') === 1);
    proxy.reset();
    proxy.resume('replies');
    const [inspected, forced, pinged] = await outcomes;
    expect([inspected.status, forced.status]).toEqual(['rejected', 'rejected']);
    expect(pinged).toMatchObject({ value: { isUp: false } });
    await eventually('it is connected again', async () => (await locks.ping()).isUp);
    expect(log.count('tokenInspect')).toBe(2);
    expect(await locks.inspect('goods:300')).toBeNull();
  });
});

describe('a server that refuses commands', () => {
  it('grants locks where only EVAL is allowed', async () => {
    proxy.refuseCommands(['EVALSHA', 'SCRIPT'], "ERR unknown command 'EVALSHA'");
    const locks = start();
    await locks.using('goods:300', () => undefined);
    const held = await Promise.all([1, 2].map((id) => locks.acquire(`goods:${id}`)));
    await Promise.all(held.map((lock) => lock.extend()));
    expect(await Promise.all(held.map((lock) => lock.release()))).toEqual([true, true]);
  });
});

describe('a client given by the caller', () => {
  it('is used with its key prefix, and neither changed nor closed', async () => {
    const client = new Redis(here.server.url, { keyPrefix: 'app:', stringNumbers: true });
    await client.ping();
    const properties = Object.getOwnPropertyNames(client);
    await here.instance({ redis: client }).using('goods:300', async (lock) => {
      expect(await client.get(lock.key)).toContain(String(lock.fencingToken));
    });
    await here.clear();
    expect(client.status).toBe('ready');
    expect(Object.getOwnPropertyNames(client)).toEqual(properties);
    expect(client.listenerCount('close')).toBe(0);
    expect(client.listenerCount('ready')).toBe(0);
    await client.quit();
  });
});
