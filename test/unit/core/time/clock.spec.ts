import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { SystemClock } from '../../../../lib/core/time/clock.js';

describe('SystemClock', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('does not follow a wall clock that is set', () => {
    const clock = new SystemClock();
    const before = clock.now();
    const wall = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(wall + 3_600_000);
    expect(clock.now() - before).toBeLessThan(1_000);
  });

  it('counts the forward jumps of the wall clock, and not the backward ones', () => {
    const clock = new SystemClock();
    const wall = Date.now();
    const now = jest.spyOn(Date, 'now');
    const jumpsAt = (wallTime: number): number => {
      now.mockReturnValue(wallTime);
      clock.now();
      return clock.forwardJumps();
    };
    expect(jumpsAt(wall + 60_000)).toBe(1);
    expect(jumpsAt(wall + 60_000)).toBe(1);
    expect(jumpsAt(wall - 60_000)).toBe(1);
    expect(jumpsAt(wall)).toBe(2);
  });

  it("fires timers beyond Node's longest delay, and not at once", () => {
    jest.useFakeTimers();
    const fired = jest.fn();
    new SystemClock().schedule(2 ** 31 + 1_000, fired);
    jest.advanceTimersByTime(2 ** 31 - 1);
    expect(fired).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1_001);
    expect(fired).toHaveBeenCalledTimes(1);
    jest.useRealTimers();
  });

  it('cancels such a timer in its second part too', () => {
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
