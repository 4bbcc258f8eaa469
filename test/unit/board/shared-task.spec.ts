import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { SharedTask } from '../../../lib/board/shared-task.js';
import { deferred, outcome } from '../../support/async.js';

function countingTask(clock: ManualClock) {
  const runs: number[] = [];
  const task = new SharedTask(clock, 1_000, () => Promise.resolve(runs.push(clock.now())));
  return { runs, task };
}

describe('a shared task', () => {
  it('runs at once for its first caller, and once for all', async () => {
    const clock = new ManualClock();
    const { runs, task } = countingTask(clock);
    await Promise.all([task.next(5_000), task.next(5_000), task.next(5_000)]);
    expect(runs).toEqual([0]);
    expect(task.latest).toEqual({ value: 1, index: 1, startedAt: 0, tookMs: 0 });
  });

  it('begins at most once in its pause', async () => {
    const clock = new ManualClock();
    const { runs, task } = countingTask(clock);
    await task.next(5_000);
    await clock.advance(300);
    expect(task.isFresh).toBe(true);
    const second = outcome(task.next(5_000));
    await clock.advance(699);
    expect(second).toStrictEqual({});
    await clock.advance(1);
    expect(second).toHaveProperty('value');
    expect(runs).toEqual([0, 1_000]);
  });

  it('does not run without callers, and forgets its result', async () => {
    const clock = new ManualClock();
    const { runs, task } = countingTask(clock);
    await task.next(5_000);
    await clock.advance(60_999);
    expect(task.latest?.index).toBe(1);
    await clock.advance(1);
    expect([task.latest, clock.pending]).toEqual([undefined, 0]);
    await clock.advance(3_600_000);
    expect(runs).toEqual([0]);
    expect(task.isFresh).toBe(false);
    await task.next(5_000);
    expect(task.latest).toMatchObject({ value: 2, index: 2 });
  });

  it('runs for a tenth of the time at most', async () => {
    const clock = new ManualClock();
    const begun: number[] = [];
    const runs = [deferred<number>(), deferred<number>()];
    const task = new SharedTask(clock, 1_000, () => {
      begun.push(clock.now());
      return runs[begun.length - 1].promise;
    });
    const first = task.next(60_000);
    await clock.advance(2_000);
    runs[0]?.resolve(1);
    await first;
    const second = task.next(60_000);
    await clock.advance(17_999);
    expect(begun).toEqual([0]);
    await clock.advance(1);
    expect(begun).toEqual([0, 20_000]);
    runs[1]?.resolve(2);
    await second;
  });

  it('lets a caller go on after its limit, and finishes the run', async () => {
    const clock = new ManualClock();
    const slow = deferred<string>();
    const task = new SharedTask(clock, 1_000, () => slow.promise);
    const waiting = outcome(task.next(2_500));
    await clock.advance(2_500);
    expect(waiting).toHaveProperty('value');
    expect(task.latest).toBeUndefined();
    slow.resolve('late');
    await clock.advance(0);
    expect(task.latest?.value).toBe('late');
  });

  it('ends all waits if it is closed', async () => {
    const clock = new ManualClock();
    const { runs, task } = countingTask(clock);
    await task.next(5_000);
    const waiting = outcome(task.next(5_000));
    await clock.advance(0);
    task.close();
    await clock.advance(0);
    expect(waiting).toHaveProperty('value');
    await task.next(5_000);
    expect(runs).toEqual([0]);
    expect(clock.pending).toBe(0);
  });
});
