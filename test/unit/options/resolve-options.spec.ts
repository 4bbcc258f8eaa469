import { describe, expect, it } from '@jest/globals';
import { Locked, LockConfigError, memory, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { resolveOptions } from '../../../lib/options/resolve-options.js';

describe('options', () => {
  const wrong: [option: string, given: unknown, allowed: string][] = [
    ['ttlMs', 49, 'from 50'],
    ['ttlMs', Infinity, 'from 50'],
    ['ttlMs', '30s', 'from 50'],
    ['ttlMs', NaN, 'from 50'],
    ['waitMs', -1, 'from 0 up, or Infinity'],
    ['unavailableAfterMs', -1, 'from 0 up, or Infinity'],
    ['unavailableAfterMs', '500', 'from 0 up, or Infinity'],
    ['maxHoldMs', 0, 'from 1 up'],
    ['minHoldMs', Infinity, 'from 0'],
    ['onLost', 'shrug', '"throw" or "ignore"'],
    ['prefix', 'lock{', 'without braces'],
    ['prefix', 'my lock', 'white space'],
    ['hashTag', 'none', '"family" or "resource"'],
    ['key', 'lock:', 'a function'],
    ['shutdownGraceMs', -5, 'from 0'],
    ['redis', 'localhost', 'redis://'],
    ['redis', 6379, 'redis://'],
    ['redis', { nodes: [] }, 'for a cluster { nodes: [...] } or a Cluster'],
    ['store', 'redlock', 'token()'],
    ['lockDelayMs', -1, 'from 0'],
    ['fairness', 'fair', '"throughput" or "strict"'],
    ['fairness', { maxLocalPasses: 2 }, '"throughput" or "strict"'],
    ['fairness', 0, '"throughput" or "strict"'],
    ['fairness', null, '"throughput" or "strict"'],
    ['http', true, 'like { retryAfterMs: 1000 }'],
    ['http', { retryAfterMs: -1 }, 'the options of RedisLockModule: http.retryAfterMs is -1; expected'],
    ['http', { retryAfterMs: Infinity }, 'from 0'],
    ['http', { httpStatus: {} }, 'unknown option http.httpStatus; expected http.status, http.retryAfterMs'],
    ['http', { status: 409 }, '{ LOCK_TIMEOUT: 409 }'],
    [
      'http',
      { status: { LOCK_BUSY: 409 } },
      'unknown option http.status.LOCK_BUSY; expected http.status.LOCK_TIMEOUT, http.status.LOCK_UNAVAILABLE',
    ],
    ['http', { status: { LOCK_TIMEOUT: 399 } }, 'from 400 to 599'],
    ['http', { status: { LOCK_TIMEOUT: 600 } }, 'from 400 to 599'],
    ['http', { status: { LOCK_TIMEOUT: 409.5 } }, 'a whole number'],
    ['http', { status: { LOCK_TIMEOUT: '409' } }, 'a whole number'],
    ['checks', 'fail', '"warn" or "error" or "off"'],
    ['checks', null, '"warn" or "error" or "off"'],
    ['replicas', 1, '{ min: 1, timeoutMs: 50 }'],
    ['replicas', {}, '{ min: 1, timeoutMs: 50 }'],
    ['replicas', { timeoutMs: 50 }, '{ min: 1, timeoutMs: 50 }'],
    ['replicas', { min: 0 }, 'replicas.min is 0; expected a whole number from 1 up'],
    ['replicas', { min: Infinity }, 'from 1 up'],
    ['replicas', { min: 1, timeoutMs: 0 }, 'replicas.timeoutMs is 0; expected a whole number from 1 to 500'],
    ['replicas', { min: 1, wait: 50 }, 'unknown option replicas.wait; expected replicas.min, replicas.timeoutMs'],
  ];

  it('have an unavailableAfterMs of 500', () => {
    expect(resolveOptions({}).unavailableAfterMs).toBe(500);
  });

  it.each(wrong)('refuse %s: %p, with what is allowed in the error', (option, given, allowed) => {
    const start = () => resolveOptions({ [option]: given });
    expect(start).toThrow(LockConfigError);
    expect(start).toThrow(option);
    expect(start).toThrow(allowed);
  });

  it('refuse an unknown option, with the known ones in the error', () => {
    expect(() => resolveOptions({ ttl: 30 } as never)).toThrow(/unknown option ttl; expected ttlMs/);
    expect(() => resolveOptions({ signal: AbortSignal.abort() } as never)).toThrow(/unknown option signal/);
  });

  it('never show a password in an error', () => {
    expect(() => resolveOptions({ redis: 'http://joe:secret@host' })).toThrow(/^(?!.*secret).*\*\*\*@host/);
  });

  it('are checked against each other', () => {
    expect(() => resolveOptions({ minHoldMs: 500, maxHoldMs: 400 })).toThrow('at most maxHoldMs, which is 400');
  });

  it('have a default replicas.timeoutMs of 50, at most 500', () => {
    expect(resolveOptions({ replicas: { min: 2 } }).replicas).toEqual({ min: 2, timeoutMs: 50 });
    const slow = () => resolveOptions({ replicas: { min: 1, timeoutMs: 501 } });
    expect(slow).toThrow('replicas.timeoutMs is 501; expected a whole number from 1 to 500');
  });

  it('have the default for an undefined value', () => {
    expect(resolveOptions({ redis: undefined, ttlMs: undefined })).toMatchObject({ ttlMs: 30_000 });
  });

  it('of one lock are checked, too', async () => {
    const locks = createTestLocks();
    await expect(locks.acquire('goods:300', { ttlMs: 1 })).rejects.toBeInstanceOf(LockConfigError);
    await expect(locks.using('goods:300', { waitms: 1 } as never, () => 'never')).rejects.toThrow(
      'unknown option waitms',
    );
  });

  it('of a method are checked against those of the module at the call', async () => {
    class Shop {
      @Locked('goods:<id>', { minHoldMs: 20_000 })
      async buy(id: number): Promise<number> {
        return id;
      }
    }
    const shop = withLocks(new Shop(), createTestLocks({ maxHoldMs: 10_000 }));
    await expect(shop.buy(1)).rejects.toThrow('minHoldMs is 20000; expected at most maxHoldMs, which is 10000');
  });

  it('refuse what the store does not support', () => {
    const coarse: RedisLockModuleOptions['store'] = (context) => {
      const store = memory()(context);
      return Object.assign(Object.create(store) as typeof store, {
        capabilities: { ...store.capabilities, resolutionMs: 1_000 },
      });
    };
    expect(() => LockRuntime.start({ store: coarse, ttlMs: 1_500 })).toThrow('a multiple of 1000');
  });
});
