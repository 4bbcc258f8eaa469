import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockStore } from '../../../lib/contract/store.js';
import type { TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { outcome } from '../../support/async.js';
import { RedisProxy } from '../../support/proxy.js';
import { eventually } from '../../support/redis-locks.js';
import { TimestampLocks } from '../../support/timestamp-locks.js';
import { forTests } from '../../support/for-tests.js';

const locks = forTests(new TimestampLocks());
let proxy: RedisProxy;

beforeEach(async () => {
  proxy = await RedisProxy.start(locks.servers.url);
});
afterEach(() => proxy.close());

const behindProxy = (options: TimestampOptions): Promise<LockStore> => locks.store(options, {}, proxy.url);

describe('a script that ioredis repeats after a lost reply', () => {
  let ours: LockStore;

  beforeEach(async () => {
    ours = await behindProxy({});
    await locks.acquire(ours, 'a:1');
  });

  const isFree = async (): Promise<boolean> => (await locks.value()) === null;

  /** Runs a script whose reply is lost. `meanwhile` runs before ioredis repeats the script. */
  async function sentTwice<T>(
    send: () => Promise<T>,
    hasRun: () => Promise<boolean>,
    meanwhile: () => PromiseLike<unknown>,
  ): Promise<T> {
    proxy.drop('replies');
    const reply = send();
    await eventually('the script has run', hasRun);
    await meanwhile();
    proxy.resume('replies');
    proxy.reset();
    return reply;
  }

  it('does not release the lock of the next owner', async () => {
    const next = await locks.store({});
    await sentTwice(
      () => locks.release(ours, 'a:1'),
      isFree,
      () => locks.acquire(next, 'b:1'),
    );
    expect(await locks.extend(next, 'b:1')).toBe('renewed');
    expect(await locks.release(next, 'b:1')).toBe(true);
  });

  it('does not release the lock of another client with the same value', async () => {
    const value = (await locks.value()) as string;
    await sentTwice(
      () => locks.release(ours, 'a:1'),
      isFree,
      () => locks.admin.set(locks.key, value),
    );
    expect(await locks.value()).toBe(value);
  });

  it('does not end the lock of the next owner by force, which has the same value', async () => {
    const next = await locks.store({});
    const value = await locks.value();
    let scripts = 0;
    proxy.filter = ([command]) => {
      if (command.toUpperCase() === 'EVAL') scripts += 1;
      // The first one reads the holder. The second one deletes the key.
      if (scripts === 2) proxy.drop('replies');
      return undefined;
    };
    const request = { key: locks.key, handoffMs: 3_000 };
    const released = outcome(ours.forceRelease?.(request) ?? Promise.resolve(true));
    await eventually('the script has run', async () => scripts === 2 && (await isFree()));
    await locks.acquire(next, 'b:1');
    expect(await locks.value()).toBe(value);
    proxy.filter = undefined;
    proxy.resume('replies');
    proxy.reset();
    await eventually('it has a result', () => 'value' in released || 'error' in released);
    expect(released.value).not.toBe(true);
    expect(await locks.extend(next, 'b:1')).toBe('renewed');
    expect(await locks.extend(ours, 'a:1')).toBe('lost');
  });

  it('leaves nothing of an acquire whose reply is lost, if its owner is released', async () => {
    await locks.release(ours, 'a:1');
    proxy.drop('replies');
    const lost = outcome(locks.status(ours, 'a:2'));
    await eventually('the script has run', async () => !(await isFree()));
    proxy.resume('replies');
    const next = await behindProxy({});
    expect(await locks.release(next, 'a:2')).toBe(true);
    expect(await locks.admin.exists(locks.key, `{${locks.key}}||holder`)).toBe(0);
    // The client sends the request again, so the engine releases the owner again.
    proxy.reset();
    await eventually('the script has run again', () => lost.value === 'granted');
    // The other connection was cut as well, and its client may repeat a release whose reply is lost.
    await eventually('it is released', async () => {
      await locks.release(next, 'a:2').catch(() => false);
      return isFree();
    });
  });
});

it.each(['release', 'extend'] as const)(
  'does nothing if the %s script arrives when the lease is over',
  async (verb) => {
    const ours = await behindProxy({ unit: 'ms' });
    await locks.acquire(ours, 'a:1', 1_000);
    const value = (await locks.value()) as string;
    proxy.hold('requests');
    const reply = locks[verb](ours, 'a:1');
    await locks.pass(1_050);
    // Another client has the lock now.
    await locks.admin.set(locks.key, value);
    proxy.resume('requests');
    expect(await reply).toBe(verb === 'release' ? false : 'lost');
    expect(await locks.value()).toBe(value);
  },
);

describe.each([true, false])('timestamp() without a connection, scripts: %s', (scripts) => {
  const cut = async (): Promise<void> => {
    const closed = new Promise<void>((resolve) => locks.clients.at(-1)?.once('close', resolve));
    await proxy.refuseConnections();
    proxy.reset();
    await closed;
  };

  const connectAgain = async (): Promise<void> => {
    const ready = new Promise<void>((resolve) => locks.clients.at(-1)?.once('ready', resolve));
    await proxy.acceptConnections();
    await ready;
  };

  it('does not queue acquires in the client', async () => {
    const ours = await behindProxy({ scripts });
    await cut();
    const acquires = Promise.allSettled(Array.from({ length: 20 }, (_, i) => locks.status(ours, `a:${i}`)));
    await locks.pass(3_000);
    expect(new Set((await acquires).map(({ status }) => status))).toEqual(new Set(['rejected']));
    const requests: string[] = [];
    proxy.filter = ([command]) => {
      // The other commands are those of a new connection.
      if (!/^(?:hello|client|info)$/i.test(command)) requests.push(command.toLowerCase());
      return undefined;
    };
    await connectAgain();
    expect(await locks.status(ours, 'b:1')).toBe('granted');
    // One probe waits for the connection, for all of them.
    expect(requests).toEqual(scripts ? ['time', 'eval'] : ['get', 'setnx', 'expire']);
  });

  it('does not take the value of another client for its own unsent renewal', async () => {
    const ours = await behindProxy({ scripts });
    expect(await locks.status(ours, 'a:1')).toBe('granted');
    await cut();
    const renewal = locks.extend(ours, 'a:1', 30_000);
    await locks.pass(1_000);
    expect(await renewal).toBe('unknown');
    const theirs = String(locks.seconds + 31);
    await locks.admin.set(locks.key, theirs);
    await connectAgain();
    expect(await locks.extend(ours, 'a:1')).not.toBe('unknown');
    expect(await locks.release(ours, 'a:1')).toBe(false);
    expect(await locks.value()).toBe(theirs);
  });
});
