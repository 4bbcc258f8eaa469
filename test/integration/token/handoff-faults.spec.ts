import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import type { AcquireLoop } from '../../../lib/core/acquire/acquire-loop.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';
import { eventually } from '../../support/redis-locks.js';
import { entryOf } from '../../support/subscriber-of.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** An instance with one faulty connection for requests and another for handoffs, already subscribed. */
async function twoWays(options = {}) {
  const [asking, listening] = [await here.way(), await here.way()];
  const redis = here.client(asking.proxy.url, listening.proxy.url);
  const locks = here.instance({ redis, requestTimeoutMs: 5_000, ...options });
  const first = await here.holder();
  const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
  await first.release();
  await (await granted).release();
  return { locks, asking, listening };
}

/** Records the messages that are published to the instances, to send them again. */
async function overheard() {
  const messages: (() => Promise<unknown>)[] = [];
  const listener = here.admin.duplicate();
  await listener.psubscribe('*nestjs-redis-lock:*');
  listener.on('pmessage', (_, channel, message) => {
    if (message !== '') messages.push(() => here.admin.publish(channel, message));
  });
  return { messages, stop: () => listener.disconnect() };
}

const isHolder = async (locks: LockService): Promise<boolean> => (await here.holderId()) === locks.engine.instanceId;

describe('a handoff that arrives before the reply of the request', () => {
  it('grants the lock at once, and the later reply changes nothing', async () => {
    const { locks, asking } = await twoWays();
    const first = await here.holder();
    asking.proxy.hold('replies');
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await granted;
    lock.assertHeld();
    asking.proxy.resume('replies');
    await locks.inspect('goods:300');
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    await locks.using('goods:300', () => undefined);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a handoff to a waiter that has left', () => {
  it('goes to the next waiter at once, and is ignored when it arrives', async () => {
    const { locks, listening } = await twoWays();
    const first = await here.holder();
    const abort = new AbortController();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { signal: abort.signal }));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    listening.proxy.hold('replies');
    await first.release();
    await eventually('it is handed off', () => isHolder(locks));
    abort.abort(new Error('gone home'));
    await expect(granted).rejects.toThrow('gone home');
    const lock = await next;
    listening.proxy.resume('replies');
    await locks.inspect('goods:300');
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('is never granted to a waiter that left while it was disconnected', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 20_000 });
    const first = await here.holder({ ttlMs: 400 });
    const abort = new AbortController();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { signal: abort.signal }));
    const asking = (): boolean => loopOf(locks).replyDueAt === Infinity;
    await proxy.refuseConnections();
    await eventually('it knows that it is in the queue', () => !asking());
    proxy.reset();
    await eventually(
      'there is no connection',
      () => !Reflect.get(Reflect.get(locks.engine.store, 'topology'), 'connection').ready,
    );
    await here.clock.advanceUntil('the poll waits for the connection', asking);
    abort.abort(new Error('gone home'));
    await expect(granted).rejects.toThrow('gone home');
    await proxy.acceptConnections();
    await here.queueOf(0);
    await first.release();
    expect(await here.leftovers()).toEqual([]);
  });

  it('does not leave the lock without a holder if the release was late', async () => {
    const { proxy } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 100, ttlMs: 100 });
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300', { waitMs: 300 }));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await proxy.refuseConnections();
    proxy.reset();
    await expect(here.clock.until(granted)).rejects.toThrow('goods:300');
    // Longer than its lease: releases are no longer repeated.
    const { releaser } = locks.engine;
    await here.clock.advanceUntil('its releases are over', () => Reflect.get(releaser, 'unanswered') === 0);
    await proxy.acceptConnections();
    await eventually('it is subscribed again', async () => (await here.subscribers()) === 3);
    const from = here.clock.now();
    await first.release();
    await next;
    expect(here.clock.now()).toBe(from);
  });

  it('is never granted to a waiter whose request was resent by EVAL', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 });
    const other = await here.instance().acquire('goods:1');
    const listening = locks.acquire('goods:1');
    await eventually(
      'it is subscribed',
      async () => (await here.admin.zcard(here.key.replace('300', '1|queue'))) === 1,
    );
    const first = await here.holder();
    await here.admin.script('FLUSH');
    log.clear();
    proxy.hold('replies');
    const abort = new AbortController();
    const leaving = locks.acquire('goods:300', { signal: abort.signal });
    leaving.catch(() => undefined);
    await eventually('the ask is sent by its digest', () => log.count('tokenAcquire') === 1);
    abort.abort(new Error('gone home'));
    await expect(leaving).rejects.toThrow('gone home');
    proxy.resume('replies');
    await other.release();
    await (await listening).release();
    const releases = (): number => log.requestsOf('tokenRelease').filter((words) => words.includes(here.key)).length;
    await eventually('the ask is sent whole, and a release behind its late reply', () => releases() === 2);
    expect(log.count('tokenAcquire')).toBe(2);
    await here.queueOf(0);
    await first.release();
    expect(await here.leftovers()).toEqual([]);
  });
});

// A master that was behind takes over with a queue of the past.
describe('a handoff to an owner that its instance has forgotten', () => {
  it.each([
    ['in exclusive mode', '', {}],
    ['in shared mode', ' *', {}],
    ["with the client's keyPrefix", '', { keyPrefix: 'app:' }],
  ])('is given up at once %s', async (_, mode, client) => {
    const redis = { port: here.server.port, ...client };
    const queue = `${redis.keyPrefix ?? ''}${here.key}|queue`;
    const [locks, other] = [here.instance({ redis }), here.instance({ redis })];
    const hasEntries = (count: number): Promise<void> =>
      eventually(`${count} are in the queue`, async () => (await here.admin.zcard(queue)) === count);
    const first = await other.acquire('goods:300');
    const waiting = locks.acquire('goods:300');
    await hasEntries(1);
    await first.release();
    const second = await waiting;
    const granted = other.acquire('goods:300');
    await hasEntries(1);
    for (let past = 1; past <= 20; past += 1) {
      await here.admin.zadd(queue, past / 100, `${entryOf(locks, 900 + past)}${mode}`);
    }
    const from = here.clock.now();
    await second.release();
    await (await granted).release();
    // Each would keep the lock for 250 ms or 1 s.
    expect(here.clock.now()).toBe(from);
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a duplicate handoff message', () => {
  it('is ignored during the hold, after it, and by the next attempt', async () => {
    const { locks } = await twoWays();
    const { messages, stop } = await overheard();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await granted;
    await eventually('the message is captured', () => messages.length === 1);
    const tellAgain = async (): Promise<void> => {
      expect(await messages[0]()).toBe(2);
      await locks.inspect('goods:300');
    };
    await tellAgain();
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    const second = await here.holder();
    await tellAgain();
    const { granted: again } = await here.enqueue(() => locks.acquire('goods:300'));
    await tellAgain();
    expect(await isHolder(locks)).toBe(false);
    second.assertHeld();
    expect(await second.release()).toBe(true);
    const last = await again;
    await tellAgain();
    last.assertHeld();
    expect(await isHolder(locks)).toBe(true);
    stop();
  });

  it('is ignored if a reply has granted the lock before it', async () => {
    const { locks, listening } = await twoWays();
    const { messages, stop } = await overheard();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    listening.proxy.hold('replies');
    await first.release();
    // It has repeated its request.
    const lock = await here.clock.until(granted);
    await eventually('the message is captured', () => messages.length === 1);
    listening.proxy.resume('replies');
    const tellAgain = async (): Promise<void> => {
      await eventually('it receives the message', async () => (await messages[0]()) === 2);
      await locks.inspect('goods:300');
    };
    await tellAgain();
    lock.assertHeld();
    expect(await isHolder(locks)).toBe(true);
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    expect(await lock.release()).toBe(true);
    const second = await next;
    await tellAgain();
    second.assertHeld();
    expect(await isHolder(locks)).toBe(false);
    expect(await second.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
    stop();
  });
});

describe('a handoff message that arrives after its lease', () => {
  it('is ignored: the present holder keeps the lock, the waiter its place', async () => {
    const { locks, asking, listening } = await twoWays({ ttlMs: 300 });
    const first = await here.holder({ ttlMs: 1_000 });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    let got = false;
    void granted.then(() => (got = true));
    listening.proxy.hold('replies');
    asking.proxy.hold('requests');
    await first.release();
    await eventually('it is handed off', () => isHolder(locks));
    const second = await here.clock.until(here.holder());
    listening.proxy.resume('replies');
    asking.proxy.resume('requests');
    await here.queueOf(1);
    expect(got).toBe(false);
    second.assertHeld();
    expect(await second.release()).toBe(true);
    expect((await here.clock.until(granted)).fencingToken).toBeGreaterThan(second.fencingToken);
  });
});

describe('a release whose reply was lost', () => {
  it('may run again without harm to the next holder and the queue', async () => {
    const { proxy, log } = await here.way();
    const locks = here.instance({ redis: proxy.url, requestTimeoutMs: 5_000 });
    const first = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const { granted: last } = await here.enqueue(() => here.instance().acquire('goods:300'));
    proxy.drop('replies');
    const released = first.release();
    const lock = await granted;
    log.clear();
    proxy.resume('replies');
    proxy.reset();
    // The caller gets the second reply, whatever it says: the first one is lost.
    expect(typeof (await released)).toBe('boolean');
    expect(log.count('tokenRelease')).toBeGreaterThan(0);
    lock.assertHeld();
    expect(await here.queueLength()).toBe(1);
    expect(await lock.release()).toBe(true);
    await (await last).release();
    expect(await here.leftovers()).toEqual([]);
  });
});

describe('a subscriber connection', () => {
  it('killed while waiters queue: each gets the lock, in queue order', async () => {
    const first = await here.holder();
    const order: number[] = [];
    const waiting: Promise<number>[] = [];
    for (const i of [1, 2, 3]) {
      const locks = here.instance();
      waiting.push((await here.enqueue(() => locks.using('goods:300', () => order.push(i)))).granted);
    }
    // A hold that lasts for 25 ms subscribes its instance as well.
    await here.clock.advanceUntil('all of them are subscribed', async () => (await here.listening()) === 4);
    await here.cutSubscribers();
    await eventually('all of them are subscribed again', async () => (await here.subscribers()) === 4);
    await eventually('and count', async () => (await here.listening()) === 4);
    await first.release();
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3]);
  });

  it('half open: the waiter polls, finds its grant, and reconnects', async () => {
    const { locks, listening } = await twoWays({ requestTimeoutMs: 300, ttlMs: 1_000 });
    listening.proxy.hold('replies');
    const first = await here.holder({ ttlMs: 1_000 });
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    await first.release();
    const lock = await here.clock.until(granted);
    lock.assertHeld();
    await lock.release();
    listening.log.clear();
    // Silent for so long that the subscription is pinged.
    await here.clock.advance(3_000);
    const second = await here.holder({ ttlMs: 1_000 });
    const { granted: again } = await here.enqueue(() => locks.acquire('goods:300'));
    await here.clock.advanceUntil('it connects again', () => listening.log.names.includes('client'));
    listening.proxy.resume('replies');
    await second.release();
    expect(await (await here.clock.until(again)).release()).toBe(true);
  });
});

describe('a server that forgets', () => {
  it('all data by FLUSHALL: three waiters get the lock in turn, tokens rise', async () => {
    await here.holder({ maxHoldMs: 600 });
    const tokens: number[] = [];
    let inside = 0;
    const waiting = [1, 2, 3].map(() => {
      const locks = here.instance();
      return locks.using('goods:300', async (lock) => {
        inside += 1;
        expect(inside).toBe(1);
        await locks.inspect('goods:300');
        tokens.push(lock.fencingToken);
        inside -= 1;
      });
    });
    await here.queueOf(3);
    await here.admin.flushall();
    await here.clock.until(Promise.all(waiting));
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    expect(tokens).toHaveLength(3);
  });

  it('its scripts by SCRIPT FLUSH: handoffs go on by message', async () => {
    const { proxy, log } = await here.way();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => here.instance({ redis: proxy.url }).acquire('goods:300'));
    const { granted: last } = await here.enqueue(() => here.instance().acquire('goods:300'));
    log.clear();
    await here.admin.script('FLUSH');
    await first.release();
    const lock = await granted;
    expect(log.count('tokenAcquire')).toBe(0);
    await here.admin.script('FLUSH');
    expect(await lock.release()).toBe(true);
    await (await last).release();
  });
});

describe('the first waiter without a subscription', () => {
  it('is skipped, and served once it has subscribed again', async () => {
    const { locks, listening } = await twoWays();
    const first = await here.holder();
    const { granted } = await here.enqueue(() => locks.acquire('goods:300'));
    const { granted: next } = await here.enqueue(() => here.instance().acquire('goods:300'));
    const isSubscribed = async (): Promise<boolean> =>
      (await here.channels()).some((name) => name.endsWith(`:v1-${locks.engine.instanceId}`));
    expect(await isSubscribed()).toBe(true);
    await listening.proxy.refuseConnections();
    listening.proxy.reset();
    await eventually('its subscription is gone', async () => !(await isSubscribed()));
    await first.release();
    const second = await next;
    await listening.proxy.acceptConnections();
    await here.queueOf(1);
    await second.release();
    await (await granted).release();
  });
});

function loopOf({ engine }: LockService): AcquireLoop {
  const [line] = engine.lines.at(here.key);
  return line.loops[0];
}
