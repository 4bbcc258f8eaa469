import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import { timestamp, type TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { LockRuntime } from '../../../../lib/lock-runtime.js';

describe('the options of timestamp()', () => {
  it.each([
    [{ unit: 'm' }, 'unit is "m"; expected "s" or "ms"'],
    [{ scripts: 1 }, 'scripts is 1; expected true or false'],
    [{ retryCount: -1 }, 'retryCount is -1; expected a whole number'],
    [{ retryCount: 1.5 }, 'retryCount is 1.5'],
    [{ retryDelayMs: 0 }, 'retryDelayMs is 0; expected a number of milliseconds from 1'],
    [{ lease: 10 }, 'unknown option lease; expected unit, scripts, retryCount, retryDelayMs'],
  ])('throw if they are %j', (options, message) => {
    const make = () => timestamp(options as TimestampOptions);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });

  it('use the default for undefined', () => {
    expect(() => timestamp({ unit: undefined, retryCount: undefined })).not.toThrow();
  });

  it('throw at start if ttlMs is not a multiple of the unit', async () => {
    const start = (options: TimestampOptions, ttlMs: number) => LockRuntime.start({ store: timestamp(options), ttlMs });
    expect(() => start({}, 1_500)).toThrow('ttlMs is 1500; expected a multiple of 1000, the resolution of the store.');
    expect(() => start({}, 500)).toThrow(LockConfigError);
    await start({ unit: 'ms' }, 1_500).close();
    await start({}, 2_000).close();
  });
});

describe('a lease that is too short for plain commands', () => {
  const store = timestamp({ unit: 'ms', scripts: false });

  it('is refused at start', async () => {
    const start = (ttlMs: number) => LockRuntime.start({ store, ttlMs });
    expect(() => start(999)).toThrow('the lease is 999 ms; ttlMs and maxHoldMs must allow 1000 or more: ');
    expect(() => start(999)).toThrow(LockConfigError);
    await start(1_000).close();
  });

  it('is refused at the call, even by maxHoldMs', async () => {
    const locks = LockRuntime.start({ store, ttlMs: 5_000 });
    const refused = [{ ttlMs: 999 }, { maxHoldMs: 300 }];
    for (const options of refused) {
      await expect(locks.service.acquire('account:1', options)).rejects.toThrow(/the lease is .* 1000 or more/);
      await expect(locks.service.acquire(['account:1', 'account:2'], options)).rejects.toThrow(LockConfigError);
    }
    await locks.close();
  });

  it('is allowed with scripts', async () => {
    const locks = LockRuntime.start({ store: timestamp({ unit: 'ms' }), ttlMs: 120 });
    await expect(locks.close()).resolves.toBeUndefined();
  });
});
