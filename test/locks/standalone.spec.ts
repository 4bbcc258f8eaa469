import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-redis-lock';
import {
  createLocks,
  type CreateLocksOptions,
  LockClosedError,
  LockConfigError,
  type Locks,
  LockLostError,
  type LockLogger,
  LockTimeoutError,
  LockUnavailableError,
  memory,
} from 'nestjs-redis-lock/standalone';
import { deferred, eventually, outcome } from '../support/async.js';
import { CUT_MS, longestTimerAtEndOf } from '../support/ends-by-itself.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { silent } from '../support/silent-logger.js';

const started: Locks[] = [];

/** Starts a lock service that the end of the test closes. */
function start(options: CreateLocksOptions): Locks {
  const locks = createLocks({ shutdownGraceMs: 60_000, logger: silent, ...options });
  started.push(locks);
  return locks;
}

/** Records the lines of each level. */
function recorder(): LockLogger & { readonly lines: string[] } {
  const lines: string[] = [];
  const record = (level: string) => (line: string) => void lines.push(`${level}: ${line}`);
  return { lines, log: record('log'), warn: record('warn'), error: record('error') };
}

const untilClosing = (locks: Locks) => eventually('the shutdown begins', () => locks.isShuttingDown);

afterEach(async () => {
  await Promise.all(started.splice(0).map((locks) => locks.close()));
  jest.restoreAllMocks();
});

describe.each<[string, () => CreateLocksOptions]>([
  ['memory()', () => ({ store: memory() })],
  ['Redis', () => ({ redis: testRedisUrl(), prefix: uniquePrefix() })],
])('locks without Nest, on %s', (_, options) => {
  it('are acquired and released, and recognized as a lock service', async () => {
    const locks = start(options());
    expect(locks).toBeInstanceOf(LockService);
    const lock = await locks.acquire('goods:300');
    expect(await locks.tryAcquire('goods:300')).toBeNull();
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
    expect(await lock.release()).toBe(true);
    expect(await locks.using('goods:300', ({ fencingToken }) => fencingToken)).toBeGreaterThan(lock.fencingToken);
  });

  it('are closed once the call that holds and the call that waits have ended', async () => {
    const locks = start(options());
    const lock = await locks.acquire('goods:300');
    const waiting = locks.using('goods:300', { waitMs: 60_000 }, () => 'served');
    const closing = outcome(locks.close());
    await untilClosing(locks);
    expect([closing, lock.signal.aborted]).toEqual([{}, false]);
    await lock.release();
    expect(await waiting).toBe('served');
    await locks.close();
    await expect(locks.acquire('goods:300')).rejects.toThrow(LockClosedError);
  });

  it('are taken from their holders when the grace is over, and are free for others', async () => {
    const shared = options();
    const locks = start({ ...shared, shutdownGraceMs: 0 });
    const end = deferred();
    const work = outcome(locks.using('goods:300', () => end.promise));
    await eventually('it is held', async () => (await locks.inspect('goods:300')) !== null);
    await locks.close();
    expect(work).toEqual({});
    end.resolve();
    await eventually('the work ends', () => 'error' in work);
    expect(work.error).toBeInstanceOf(LockLostError);
    expect(await start(shared).using('goods:300', { waitMs: 0 }, () => 'free')).toBe('free');
  });

  it('are closed at the end of an await using block, and once only', async () => {
    let closed: Promise<void> | undefined;
    {
      await using locks = createLocks({ ...options(), logger: silent });
      await using lock = await locks.acquire('goods:300');
      expect(lock.resource).toBe('goods:300');
      closed = locks.close();
      expect(locks.close()).toBe(closed);
      await untilClosing(locks);
    }
    await expect(closed).resolves.toBeUndefined();
  });
});

describe('the connections of locks without Nest', () => {
  it('are closed with them, except a client that was given', async () => {
    const redis = new Redis(testRedisUrl());
    const connectionName = uniquePrefix();
    const { hostname: host, port, password } = new URL(testRedisUrl());
    const own = start({ redis: { host, port: Number(port), password: password || undefined, connectionName } });
    const given = start({ redis, prefix: uniquePrefix() });
    for (const locks of [own, given]) await locks.using('goods:300', () => undefined);
    const named = async () => String(await redis.client('LIST')).includes(connectionName);
    expect(await named()).toBe(true);
    await Promise.all([own.close(), given.close()]);
    await eventually('its connection has ended', async () => !(await named()));
    expect(redis.status).toBe('ready');
    await redis.quit();
  });
});

describe('the process of locks without Nest', () => {
  it('ends by itself once they are closed', async () => {
    const script = `
      const { createLocks } = await import('nestjs-redis-lock/standalone');
      const locks = createLocks({ redis: '${testRedisUrl()}', prefix: '${uniquePrefix()}', logger: silent });
      await locks.using('goods:300', () => undefined);
      await locks.close();
    `;
    expect(await longestTimerAtEndOf(script)).toBeLessThanOrEqual(CUT_MS);
  });
});

describe('the logger of locks without Nest', () => {
  it('gets where the locks are, and is the console by default', () => {
    const logger = recorder();
    const printed = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    start({ store: memory(), logger });
    expect([logger.lines, printed.mock.calls]).toEqual([
      ['log: Locks are in the memory of this process, so other processes do not see them.'],
      [],
    ]);
    start({ store: memory(), logger: undefined });
    expect(printed.mock.calls).toEqual([
      ['Locks are in the memory of this process, so other processes do not see them.'],
    ]);
  });

  it.each(['warn', 'error'] as const)('gets a missing Redis, with checks: %s', async (checks) => {
    const logger = recorder();
    const locks = start({ redis: 'redis://127.0.0.1:1', logger, checks });
    await expect(locks.acquire('goods:300')).rejects.toThrow(LockUnavailableError);
    const found = (line: string) => line.startsWith(`${checks}: Redis cannot be reached at redis://127.0.0.1:1`);
    await eventually('it is logged', () => logger.lines.some(found));
    expect((await locks.ping()).isUp).toBe(false);
  });

  it('gets the stack of an error that a callback of a leader threw', async () => {
    const logger = { ...silent, error: jest.fn() };
    const locks = start({ store: memory(), logger });
    const onElected = () => {
      throw new Error('no report today');
    };
    locks.lead('report', { onElected });
    await eventually('it is logged', () => logger.error.mock.calls.length > 0);
    const lines = [expect.stringContaining('no report today'), expect.stringMatching(/^Error: no report today\n +at /)];
    expect(logger.error.mock.calls).toEqual([lines]);
  });

  it('may throw, and the locks work', async () => {
    const fail = (): never => {
      throw new Error('the disk is full');
    };
    const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const locks = start({ store: memory(), logger: { log: fail, warn: fail, error: fail } });
    expect(await locks.using('goods:300', () => 'sold')).toBe('sold');
    expect(warned.mock.calls).toEqual([
      ['Locks are in the memory of this process, so other processes do not see them.', 'RedisLockWarning'],
    ]);
  });
});

describe('createLocks()', () => {
  it.each<[object, string]>([
    [{ http: { retryAfterMs: 1 } }, 'unknown option http'],
    [{ name: 'stock' }, 'unknown option name'],
    [{ ttl: 1_000 }, 'unknown option ttl'],
    [{ ttlMs: 1 }, 'ttlMs is 1; expected a number of milliseconds from 50'],
    [{ minHoldMs: 2, maxHoldMs: 1 }, 'minHoldMs is 2; expected at most maxHoldMs, which is 1'],
    [
      { logger: { log: () => undefined } },
      'logger is a plain object; expected console, a Logger, or another object with',
    ],
    [{ checks: 'strict' }, 'checks is "strict"; expected "warn" or "error" or "off"'],
    [{ redis: 'localhost' }, 'redis is "localhost"; expected a redis:// or rediss:// URL'],
    [[] as object, 'the options are an array; expected a plain object'],
  ])('refuses %j', (options, problem) => {
    const refused = outcomeOf(() => createLocks(options));
    expect(refused).toBeInstanceOf(LockConfigError);
    expect((refused as Error).message).toContain(`createLocks(): ${problem}`);
  });

  it('takes options that are undefined as not given', () => {
    const unset = { http: undefined, name: undefined, redis: undefined, store: memory() } as CreateLocksOptions;
    expect(start(unset)).toBeInstanceOf(LockService);
  });
});

/** Returns what a function throws. */
function outcomeOf(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}
