// Somebody may release a hold that lasts by force, so its instance subscribes. The subscription never gets ready here.
import { EventEmitter, once } from 'node:events';
import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { eventually, outcome } from '../../support/async.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';

/** A connection that never becomes ready, and whose end a test causes. */
class SilentClient extends EventEmitter {
  readonly status = 'connecting';
  connect = (): Promise<void> => Promise.resolve();
  disconnect = (): void => undefined;
}

const prefix = uniquePrefix();
/** The key of a resource of two segments. */
const keyOf = (resource: string): string => `{${prefix}${resource.replace(':', '}:')}`;

let clock: ManualClock;
let client: Redis;
let runtime: LockRuntime;
let locks: LockService;
let opened: SilentClient[];
let open: () => SilentClient;
/** How many connections the client was asked for. */
let attempts: number;

beforeEach(() => {
  Logger.overrideLogger(false);
  clock = new ManualClock();
  client = new Redis(testRedisUrl());
  opened = [];
  open = () => {
    const silent = new SilentClient();
    opened.push(silent);
    return silent;
  };
  attempts = 0;
  jest.spyOn(client, 'duplicate').mockImplementation(() => {
    attempts += 1;
    return open() as object as Redis;
  });
  // Only the test's clock moves, so no request is late.
  const options = { redis: client, prefix, ttlMs: 600_000, shutdownGraceMs: 0 };
  runtime = LockRuntime.start(options, undefined, { clock, requestTimeoutMs: 60_000 });
  locks = runtime.service;
  runtime.connect();
});
afterEach(async () => {
  await close();
  await client.del(keyOf('goods:300'));
  client.disconnect();
});

/** Closes the module. A shutdown waits by the clock. */
async function close(): Promise<void> {
  const closed = outcome(runtime.close());
  while (Object.keys(closed).length === 0) await clock.advance(0);
  expect(closed.error).toBeUndefined();
}

describe('the subscription of an instance for its holds', () => {
  it('is opened once, by the first hold that lasts for 25 to 50 ms', async () => {
    await locks.acquire('goods:300');
    await clock.advance(24);
    await locks.acquire('goods:301');
    expect(opened).toHaveLength(0);
    await clock.advance(26);
    expect(opened).toHaveLength(1);
    await clock.advance(1_000);
    expect(opened).toHaveLength(1);
  });

  it('is not opened for many short holds', async () => {
    for (let i = 0; i < 50; i += 1) await locks.using(`goods:${i}`, () => clock.advance(20));
    await clock.advance(100);
    expect(opened).toHaveLength(0);
  });

  it('is opened for a hold that lasts beside short ones', async () => {
    await locks.acquire('goods:300');
    for (let i = 0; i < 5; i += 1) await locks.using(`short:${i}`, () => clock.advance(10));
    expect(opened).toHaveLength(1);
  });

  it('is opened again 10 s after each end of its connection', async () => {
    await locks.acquire('goods:300');
    await clock.advance(50);
    for (const count of [2, 3]) {
      opened.at(-1)?.emit('end');
      await clock.advance(9_999);
      expect(opened).toHaveLength(count - 1);
      await clock.advance(1);
      expect(opened).toHaveLength(count);
    }
    opened.at(-1)?.emit('end');
    await close();
    expect(clock.pending).toBe(0);
    await clock.advance(60_000);
    expect(opened).toHaveLength(3);
  });

  it('is opened again later if a client makes no further connection for now', async () => {
    const make = open;
    open = () => {
      throw new Error('no further connection');
    };
    await locks.acquire('goods:300');
    await clock.advance(50);
    for (const calls of [1, 2]) {
      expect(attempts).toBe(calls);
      await clock.advance(9_000);
      expect(attempts).toBe(calls);
      if (calls === 2) open = make;
      await clock.advance(1_000);
    }
    expect(opened).toHaveLength(1);
  });

  it('leaves no timer if the module is closed before a hold has lasted', async () => {
    await locks.acquire('goods:300');
    await close();
    expect(clock.pending).toBe(0);
  });

  it('is opened later if the connection of a waiter has just ended', async () => {
    await client.set(keyOf('goods:300'), 'of another system', 'PX', 600_000);
    const stop = new AbortController();
    const waiting = outcome(locks.acquire('goods:300', { waitMs: Infinity, signal: stop.signal }));
    await eventually('the waiter opens it', () => opened.length === 1);
    opened[0].emit('end');
    stop.abort(new Error('gone home'));
    await locks.acquire('goods:301');
    expect(waiting.error).toBeDefined();
    await clock.advance(60);
    expect(opened).toHaveLength(1);
    await clock.advance(10_000);
    expect(opened).toHaveLength(2);
  });

  it('is opened for the next such hold after a client that was given has ended and is back', async () => {
    await locks.acquire('goods:300');
    await clock.advance(50);
    const ended = once(client, 'end');
    client.disconnect();
    await ended;
    await client.connect();
    await locks.acquire('goods:301');
    await clock.advance(50);
    expect(opened).toHaveLength(2);
  });
});
