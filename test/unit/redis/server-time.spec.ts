import { describe, expect, it } from '@jest/globals';
import { ServerTime } from '../../../lib/redis/server-time.js';

describe('ServerTime', () => {
  it('returns no bound without a reading', () => {
    const time = new ServerTime();
    expect(time.serverLowerBound(0)).toBeUndefined();
    time.learn(1_000, 0, 10);
    time.forget();
    expect(time.known).toBe(false);
  });

  it("returns a bound that is never later than the server's time", () => {
    const time = new ServerTime();
    // Read at local 5, when the server had 1,000: at local 100 it has 1,095.
    time.learn(1_000, 0, 10);
    expect(time.serverLowerBound(100)).toBeCloseTo(1_090, 0);
    expect(time.serverLowerBound(100)).toBeLessThan(1_090);
  });

  it('keeps the tighter of two readings', () => {
    const time = new ServerTime();
    time.learn(1_001, 0, 2);
    time.learn(1_030, 10, 60);
    expect(time.serverLowerBound(100)).toBeCloseTo(1_099, 0);
  });

  it('takes a wider reading once drift outgrows the kept one', () => {
    const time = new ServerTime();
    time.learn(1_001, 0, 2);
    time.learn(1_000_010, 1_000_000, 1_000_020);
    expect(time.serverLowerBound(1_000_020)).toBe(1_000_010);
  });

  it.each([
    ['forward', 120_000],
    ['back', -120_000],
  ])('follows a server whose clock is set %s', (_direction, step) => {
    const time = new ServerTime();
    time.learn(1_000_001, 0, 2);
    time.learn(1_000_200 + step, 100, 300);
    expect(time.serverLowerBound(300)).toBe(1_000_200 + step);
  });
});
