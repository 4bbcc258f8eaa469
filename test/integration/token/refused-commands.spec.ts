import { AsyncLocalStorage } from 'node:async_hooks';
import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { listedBy } from '../../support/listed.js';
import { commandsIn, sectionOf } from '../../support/pages.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new StoppedContention());

const withoutCommand = (name: string): Promise<string> => here.guest('allchannels', '+@all', `-${name}`);

describe('the commands that SECURITY.md lists', () => {
  const section = sectionOf('SECURITY.md', '`token()`');
  const channels = /`(&[^`]+)`/.exec(section)?.[1] ?? '';

  const listedOnly = (): Promise<string> =>
    here.guest(
      'resetchannels',
      channels.replace('lock_', here.prefix),
      ...commandsIn(section).map((command) => `+${command}`),
    );

  it('suffice to acquire, wait, hand off, renew, inspect, list, ping and force', async () => {
    const redis = await listedOnly();
    const [one, other] = [here.instance({ redis }), here.instance({ redis })];
    await here.subscribe(one, other);
    // After so much time, a subscription is verified when it is used.
    await here.clock.advance(3_000);
    const lock = await one.acquire('goods:300', { ttlMs: 1_200 });
    const { granted } = await here.enqueue(() => other.acquire('goods:300'));
    let renewals = 0;
    const onExtended = (): void => void (renewals += 1);
    lockChannels.extended.subscribe(onExtended);
    await here.clock.advanceUntil('it was renewed, more than once', () => renewals > 2);
    lockChannels.extended.unsubscribe(onExtended);
    lock.assertHeld();
    expect(await other.inspect('goods:300')).toMatchObject({ fencingToken: lock.fencingToken });
    expect(await listedBy(other)).toEqual(['goods:300']);
    expect(await other.ping()).toMatchObject({ isUp: true, handoff: 'subscription' });
    expect(await lock.release()).toBe(true);
    const next = await granted;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.extend();
    expect(await next.release()).toBe(true);
    await one.using('goods:300', { minHoldMs: 50 }, () => undefined);
    await here.clock.until(other.using('goods:300', () => undefined));
    expect(here.warnings).toEqual([]);
    const forced = await one.acquire('goods:300');
    expect(await other.forceRelease('goods:300')).toBe(true);
    await here.clock.advanceUntil('its holder knows', () => forced.signal.aborted);
    expect(await here.refused()).toEqual([]);
    expect(await here.leftovers()).toEqual([]);
  });

  it.each([{}, { mode: 'shared' }, { permits: 2 }] as const)('suffice for several locks with %j', async (options) => {
    const locks = here.instance({ redis: await listedOnly() });
    const names = ['account:1', 'account:2', 'account:3'];
    await here.admin.zadd(`${here.keyOf('account:2')}|queue`, 1, 'v2-dead:1');
    const holder = await here.instance().acquire('account:3');
    const waiting = locks.acquire(names, options);
    await eventually('it waits', async () => (await locks.inspect('account:3'))?.waiting.length === 1);
    await holder.release();
    expect(await (await waiting).release()).toBe(true);
    expect(here.warnings).toEqual([]);
  });
});

describe('a user that may not receive messages', () => {
  it.each(['subscribe', 'pubsub'])(
    '(%s) polls, and logs one line outside the context of any caller',
    async (command) => {
      const request = new AsyncLocalStorage<string>();
      const said: (string | undefined)[] = [];
      const locks = here.instance({ redis: await withoutCommand(command) });
      const { warnings } = here;
      const warn = (message: string): void => {
        (warnings as string[]).push(message);
        said.push(request.getStore());
      };
      Logger.overrideLogger({ log: () => undefined, error: () => undefined, warn });
      for (const round of [1, 2]) {
        const first = await locks.acquire(`goods:${round}`);
        await first.release();
        const strangers = await here.instance().acquire('goods:300');
        const granted = request.run('A', () => locks.acquire('goods:300'));
        await here.clock.advanceUntil(`the warning is logged in round ${round}`, () => said.length > 0);
        expect(await here.queueLength()).toBe(0);
        await strangers.release();
        await (await here.clock.until(granted)).release();
      }
      const reason = {
        subscribe: '"Permissions" on the page "Which Redis, how many modules" lists what',
        pubsub: 'may not run PUBSUB',
      }[command];
      expect(warnings).toEqual([expect.stringMatching(`messages cannot be received: .*${reason}`)]);
      expect(said).toEqual([undefined]);
      expect(await here.leftovers()).toEqual([]);
    },
  );
});

describe('a user without PUBSUB', () => {
  const connections = async (): Promise<string | undefined> =>
    /total_connections_received:(\d+)/.exec(await here.admin.info('stats'))?.[1];

  it('keeps its connections while it waits, and is woken again once it may', async () => {
    const locks = here.instance({ redis: await withoutCommand('pubsub') });
    const lock = await here.holder();
    const granted = locks.acquire('goods:300');
    await here.clock.advanceUntil('it is warned', () => here.warnings.length > 0);
    const before = await connections();
    for (let i = 0; i < 20; i += 1) await here.clock.advance(1_000);
    expect(await connections()).toBe(before);
    // By now, the lock may also be reported as held for long.
    expect(here.warnings.filter((line) => line.includes('messages cannot be received'))).toHaveLength(1);
    expect(await locks.ping()).toMatchObject({ handoff: 'polling' });
    await here.admin.acl('SETUSER', 'guest', '+pubsub');
    await here.clock.advanceUntil('it is in the queue', async () => (await here.queueLength()) === 1);
    await lock.release();
    const since = here.clock.now();
    await (await granted).release();
    expect(here.clock.now()).toBe(since);
    expect(await locks.ping()).toMatchObject({ handoff: 'subscription' });
  });
});

describe('a user without PUBLISH', () => {
  it('hands its lock off, and the waiter learns it within a second', async () => {
    const first = await here.holder({ redis: await withoutCommand('publish') });
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    expect(await first.release()).toBe(true);
    expect(await here.queueLength()).toBe(0);
    const since = here.clock.now();
    const next = await here.clock.until(granted);
    expect(here.clock.now() - since).toBeLessThanOrEqual(1_000);
    expect(next.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(await next.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a user without a command of the queue', () => {
  it.each(['zadd', 'zrange'])('(%s) gets free locks, and learns why it cannot wait', async (command) => {
    const locks = here.instance({ redis: await withoutCommand(command) });
    expect(await (await locks.acquire('goods:300')).release()).toBe(true);
    const stranger = await here.instance().acquire('goods:300');
    await here.clock.advance(1);
    const refusal = (): Promise<unknown> =>
      here.clock.until(locks.acquire('goods:300', { waitMs: 2_000 }).catch((reason: unknown) => reason));
    let outcome = await refusal();
    // It polls until its subscription is counted.
    while (outcome instanceof LockTimeoutError) outcome = await refusal();
    const why = expect.stringContaining('"Permissions" on the page');
    expect(outcome).toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true, message: why });
    expect(await here.queueLength()).toBe(0);
    expect(await stranger.release()).toBe(true);
    expect(await (await locks.acquire('goods:300')).release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a server that does not know a command', () => {
  let server: RedisServer;
  let running: RedisLocks;

  const startWithout = async (command: string): Promise<void> => {
    server = await startRedis({ local: true, args: ['--rename-command', command, ''] });
    running = new RedisLocks();
  };
  afterEach(async () => {
    await running.close();
    await server.stop();
  });

  it('(EVAL) is named in the error of each acquire, with a link, and without the key', async () => {
    await startWithout('EVAL');
    const locks = running.start({ redis: server.url });
    const error = await locks.acquire('goods:300').catch((reason: unknown) => reason);
    const page = '"Servers" on the page "Which Redis, how many modules" says what works without it';
    const why = `${page} (npm docs nestjs-redis-lock) (ERR unknown command 'eval')`;
    expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE', permanent: true });
    const place = `Redis is at ${server.url}`;
    // Redis 6.2 quotes the command with backticks.
    expect((error as Error).message.replaceAll('`', "'")).toBe(`No usable reply for a lock: ${why}. ${place}.`);
  });

  it('(SUBSCRIBE) is named in one line when somebody waits, with a link, and without the instance', async () => {
    await startWithout('SUBSCRIBE');
    const [one, other] = [1, 2].map(() => running.start({ redis: server.url }));
    const lock = await one.acquire('goods:300');
    const granted = other.acquire('goods:300');
    await eventually('it is warned', () => running.warnings.length > 0);
    await lock.release();
    await (await granted).release();
    const why = "says what works without it (npm docs nestjs-redis-lock) (ERR unknown command 'subscribe')";
    expect(running.warnings).toEqual([expect.stringContaining(`messages cannot be received: `)]);
    expect(running.warnings[0].replaceAll('`', "'")).toContain(why);
    expect(running.warnings[0]).not.toContain(other.engine.instanceId);
  });
});

describe('an error', () => {
  const all = (error: unknown): string => inspect(error, { depth: Infinity, showHidden: true });

  it('for a wrong password shows the password neither itself nor in the log', async () => {
    await here.guest('resetpass', '>right', '+@all');
    const redis = here.server.url.replace('redis://', 'redis://guest:not-to-be-told@');
    const locks = here.instance({ redis, requestTimeoutMs: 300 });
    const asking = locks.acquire('goods:300', { waitMs: 500 }).catch((reason: unknown) => reason);
    await eventually('the login has failed', async () => String(await here.admin.acl('LOG', '1')).includes('auth'));
    const error = await here.clock.until(asking);
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect(all(error)).toContain('WRONGPASS');
    expect(all(error)).not.toContain('not-to-be-told');
    expect(here.warnings).not.toEqual([]);
    expect(here.warnings.join()).not.toContain('not-to-be-told');
  });

  it('for a key of another type does not show the owner', async () => {
    const locks = here.instance();
    await here.admin.lpush(here.key, 'something else');
    const error = await locks.acquire('goods:300').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect((error as Error).cause).toBeInstanceOf(Error);
    expect(all(error)).toContain('WRONGTYPE');
    expect(all(error)).not.toContain(locks.engine.instanceId);
  });
});

describe('a fence key with a foreign value', () => {
  it.each(['abc', '', '9', '-1', '1.5', ' 9 ', 'inf', 'nan', '1e300'])(
    '(%j) fails no request, and tokens still rise',
    async (text) => {
      const fence = `{${here.prefix}}|fence`;
      const [locks, other] = [here.instance(), here.instance()];
      const first = await locks.acquire('goods:300');
      expect(await here.admin.exists(fence)).toBe(1);
      const { granted } = await here.enqueue(() => other.acquire('goods:300'));
      await here.admin.set(fence, text);
      here.clock.jump(1);
      await first.release();
      const second = await granted;
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
      await second.release();
      await here.admin.set(fence, text);
      here.clock.jump(1);
      const third = await locks.acquire('goods:300');
      expect(third.fencingToken).toBeGreaterThan(second.fencingToken);
      await third.release();
      expect(Number(await here.admin.get(fence))).toBeGreaterThanOrEqual(third.fencingToken);
    },
  );
});
