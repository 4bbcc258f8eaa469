import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockStore } from 'nestjs-redis-lock/store';
import type { TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { RedisProxy } from '../../support/proxy.js';
import { eventually } from '../../support/redis-locks.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { TimestampLocks } from '../../support/timestamp-locks.js';

let locks: TimestampLocks;
let proxy: RedisProxy;

beforeEach(async () => {
  locks = new TimestampLocks();
  proxy = await RedisProxy.start(testRedisUrl());
});
afterEach(async () => {
  await locks.close();
  await proxy.close();
});

const behindProxy = (options: TimestampOptions): Promise<LockStore> => locks.store(options, {}, proxy.url);

describe('a script that ioredis sends again, because its answer was lost with the connection', () => {
  let ours: LockStore;

  beforeEach(async () => {
    ours = await behindProxy({});
    await locks.ask(ours, 'a:1');
  });

  const isFree = async (): Promise<boolean> => (await locks.value()) === null;

  /** Lets it run, and loses its answer; `meanwhile` comes before it is sent again. */
  async function sentTwice<T>(
    send: () => Promise<T>,
    hasRun: () => Promise<boolean>,
    meanwhile: () => Promise<unknown>,
  ): Promise<T> {
    proxy.drop('replies');
    const answer = send();
    await eventually('it has run', hasRun);
    await meanwhile();
    proxy.resume('replies');
    proxy.reset();
    return answer;
  }

  it('a release leaves the lock of whoever came behind it alone', async () => {
    const next = await locks.store({});
    await sentTwice(
      () => locks.release(ours, 'a:1'),
      isFree,
      () => locks.ask(next, 'b:1'),
    );
    expect(await locks.extend(next, 'b:1')).toBe('renewed');
    expect(await locks.release(next, 'b:1')).toBe(true);
  });

  it('a release leaves the lock of another client alone, which may have the same value', async () => {
    const value = (await locks.value()) as string;
    await sentTwice(
      () => locks.release(ours, 'a:1'),
      isFree,
      () => locks.admin.set(locks.key, value),
    );
    expect(await locks.value()).toBe(value);
  });

  it('an ask is granted as before, and nothing is left behind its release', async () => {
    await locks.release(ours, 'a:1');
    const status = await sentTwice(
      () => locks.status(ours, 'a:2'),
      async () => !(await isFree()),
      async () => undefined,
    );
    expect(status).toBe('granted');
    expect(await locks.release(ours, 'a:2')).toBe(true);
    expect(await locks.admin.exists(locks.key, `{${locks.key}}|holder`)).toBe(0);
  });
});

it.each(['release', 'extend'] as const)(
  'a script that was under way until the lease was over does nothing, whatever is in the keys by then: %s',
  async (verb) => {
    const ours = await behindProxy({ unit: 'ms' });
    await locks.ask(ours, 'a:1', 200);
    const value = (await locks.value()) as string;
    proxy.hold('requests');
    const answer = locks[verb](ours, 'a:1');
    await sleep(250);
    await locks.admin.mset(locks.key, value, `{${locks.key}}|holder`, 'a:1');
    proxy.resume('requests');
    expect(await answer).toBe(verb === 'release' ? false : 'lost');
    expect(await locks.value()).toBe(value);
    await locks.admin.del(`{${locks.key}}|holder`);
  },
);

describe.each([true, false])('while there is no connection, scripts: %s', (scripts) => {
  const cut = async (): Promise<void> => {
    const closed = new Promise<void>((resolve) => locks.clients.at(-1)?.once('close', resolve));
    await proxy.refuseConnections();
    proxy.reset();
    await closed;
  };

  it('asks do not pile up in the queue of the client', async () => {
    const ours = await behindProxy({ scripts });
    await cut();
    const asks = Array.from({ length: 20 }, (_, i) => locks.status(ours, `a:${i}`));
    expect(new Set(await Promise.all(asks))).toEqual(new Set(['expired']));
    let requests = 0;
    proxy.filter = ([command]) => {
      if (['get', 'time'].includes(command.toLowerCase())) requests += 1;
      return undefined;
    };
    await proxy.acceptConnections();
    await eventually('it is up', async () => (await locks.status(ours, 'b:1')) === 'granted');
    // What the ask itself, or the new connection, wants to know is among them.
    expect(requests).toBeLessThan(5);
  });

  it("a renewal that was never sent makes nobody else's value one of ours", async () => {
    const ours = await behindProxy({ scripts });
    await locks.ask(ours, 'a:1');
    await cut();
    expect(await locks.extend(ours, 'a:1', 30_000)).toBe('unknown');
    const theirs = String(locks.seconds + 31);
    await locks.admin.set(locks.key, theirs);
    await proxy.acceptConnections();
    await eventually('it is answered', () => locks.extend(ours, 'a:1').then((reply) => reply !== 'unknown'));
    expect(await locks.release(ours, 'a:1')).toBe(false);
    expect(await locks.value()).toBe(theirs);
  });
});
