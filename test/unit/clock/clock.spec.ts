import os from 'node:os';
import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { SystemClock, withTimeout } from '../../../lib/clock/clock.js';
import { deferred, outcome } from '../../support/async.js';

const NOON = Date.UTC(2026, 0, 1, 12);

describe('SystemClock', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('does not follow a wall clock that is set', () => {
    const wall = jest.spyOn(Date, 'now').mockReturnValue(NOON);
    const clock = new SystemClock();
    const before = clock.now();
    wall.mockReturnValue(NOON + 3_600_000);
    expect(clock.now() - before).toBeLessThan(3_600_000);
  });

  it('counts the forward jumps of the wall clock, and not the backward ones', () => {
    const now = jest.spyOn(Date, 'now').mockReturnValue(NOON);
    const clock = new SystemClock();
    const jumpsAt = (wallTime: number): number => {
      now.mockReturnValue(wallTime);
      clock.now();
      return clock.forwardJumps();
    };
    expect(jumpsAt(NOON + 3_600_000)).toBe(1);
    expect(jumpsAt(NOON + 3_600_000)).toBe(1);
    expect(jumpsAt(NOON - 3_600_000)).toBe(1);
    expect(jumpsAt(NOON)).toBe(2);
  });

  it('includes the time for which the machine was suspended, and counts a jump of more than 50 ms', () => {
    let [runningMs, suspendedMs, setByMs] = [1_000, 0, 0];
    jest.spyOn(performance, 'now').mockImplementation(() => runningMs);
    jest.spyOn(os, 'uptime').mockImplementation(() => (runningMs + suspendedMs) / 1_000);
    jest.spyOn(Date, 'now').mockImplementation(() => NOON + runningMs + suspendedMs + setByMs);
    const clock = new SystemClock();
    const before = clock.now();
    runningMs += 200;
    suspendedMs += 60_000;
    expect([clock.now() - before, clock.forwardJumps()]).toEqual([60_200, 1]);
    setByMs += 50;
    expect([clock.now() - before, clock.forwardJumps()]).toEqual([60_200, 1]);
    setByMs += 1;
    expect([clock.now() - before, clock.forwardJumps()]).toEqual([60_200, 2]);
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

describe('withTimeout', () => {
  it('reads what has arrived at the sockets before it gives up, because the event loop may have been blocked', async () => {
    const clock = new ManualClock();
    const reply = deferred<string>();
    const result = outcome(withTimeout(clock, 100, reply.promise, () => 'late'));
    // As a socket that is read after the timers that are due.
    clock.schedule(100, () => reply.resolve('read'));
    clock.jump(5_000);
    await clock.advance(0);
    expect(result).toEqual({ value: 'read' });
    const silent = outcome(withTimeout(clock, 100, new Promise<string>(() => undefined), () => 'late'));
    await clock.advance(100);
    expect(silent).toEqual({ value: 'late' });
    expect(clock.pending).toBe(0);
  });

  it('gives half of the limit more after the event loop stood still, because the request may not have been sent', async () => {
    const clock = new ManualClock();
    const reply = deferred<string>();
    const result = outcome(withTimeout(clock, 100, reply.promise, () => 'late'));
    const silent = outcome(withTimeout(clock, 100, new Promise<string>(() => undefined), () => 'late'));
    clock.jump(3_000);
    await clock.advance(49);
    reply.resolve('served');
    await clock.advance(0);
    expect(result).toEqual({ value: 'served' });
    expect(silent).toEqual({});
    await clock.advance(1);
    expect(silent).toEqual({ value: 'late' });
    expect(clock.pending).toBe(0);
  });
});
