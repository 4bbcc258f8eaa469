import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { ServerTime, SystemClock } from '../../../../lib/core/time/clock.js';

describe('the system clock', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('does not follow somebody who sets the wall clock', () => {
    const clock = new SystemClock();
    const before = clock.now();
    const wall = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(wall + 3_600_000);
    expect(clock.now() - before).toBeLessThan(1_000);
  });

  it('fires timers whose delay no timer of Node takes, not at once', () => {
    jest.useFakeTimers();
    const fired = jest.fn();
    new SystemClock().schedule(2 ** 31 + 1_000, fired);
    jest.advanceTimersByTime(2 ** 31 - 1);
    expect(fired).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1_001);
    expect(fired).toHaveBeenCalledTimes(1);
    jest.useRealTimers();
  });

  it('cancels such a timer on its second leg too', () => {
    jest.useFakeTimers();
    const fired = jest.fn();
    const timer = new SystemClock().schedule(2 ** 31 + 1_000, fired);
    jest.advanceTimersByTime(2 ** 31);
    timer.cancel();
    jest.advanceTimersByTime(10_000);
    expect(fired).not.toHaveBeenCalled();
    jest.useRealTimers();
  });
});

describe("what is known of a server's time", () => {
  it('is nothing at first, and after it was forgotten', () => {
    const time = new ServerTime();
    expect(time.serverLowerBound(0)).toBeUndefined();
    time.learn(1_000, 0, 10);
    time.forget();
    expect(time.known).toBe(false);
  });

  it('is never later than the truth, wherever in the round trip it was read', () => {
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

  it('takes a wider one in the end, because clocks drift apart', () => {
    const time = new ServerTime();
    time.learn(1_001, 0, 2);
    time.learn(1_000_010, 1_000_000, 1_000_020);
    expect(time.serverLowerBound(1_000_020)).toBe(1_000_010);
  });

  it.each([
    ['forward', 120_000],
    ['back', -120_000],
  ])('follows a server whose clock was set %s', (_direction, step) => {
    const time = new ServerTime();
    time.learn(1_000_001, 0, 2);
    time.learn(1_000_200 + step, 100, 300);
    expect(time.serverLowerBound(300)).toBe(1_000_200 + step);
  });
});
