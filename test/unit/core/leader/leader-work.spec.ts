import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockClosedError } from 'nestjs-redis-lock';
import { deferred } from '../../../support/async.js';
import { faultyLocks } from '../../../support/locks.js';

/** Records the warnings that are logged. */
function loggedWarnings(): string[] {
  const lines: string[] = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: string) => {
    lines.push(message);
  });
  return lines;
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the work of a leader that goes on after its term', () => {
  it('is logged once after 10 s, and keeps the lock if the leader steps down', async () => {
    const warnings = loggedWarnings();
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const leadership = locks.lead('report', { ttlMs: 3_000, onElected: () => work.promise });
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
    const closed = leadership.close();
    await clock.advance(9_999);
    expect(warnings).toEqual([]);
    await clock.advance(60_000);
    const line = 'The leader of report has not ended 10 s after its term. Its lock is not released before it has.';
    expect(warnings).toEqual([line]);
    expect(await locks.inspect('report')).not.toBeNull();
    work.resolve();
    await clock.advance(0);
    await closed;
    expect(await locks.inspect('report')).toBeNull();
  });

  it('is logged if the lock was lost, and lets another process lead', async () => {
    const warnings = loggedWarnings();
    const { clock, locks, neighbour } = faultyLocks();
    const work = deferred();
    locks.lead('report', { ttlMs: 3_000, onElected: () => work.promise });
    await clock.advance(0);
    const other = neighbour();
    const next = other.locks.lead('report', { ttlMs: 3_000 });
    await clock.advance(10);
    await other.locks.forceRelease('report');
    await clock.advance(11_000);
    const line =
      'The leader of report has not ended 10 s after its term. This process does not lead again before it has.';
    expect(warnings.at(-1)).toBe(line);
    expect(next.isLeader).toBe(true);
  });

  it('is not logged if it ends within 10 s, and leaves no timer', async () => {
    const warnings = loggedWarnings();
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const leadership = locks.lead('report', { onElected: () => work.promise });
    await clock.advance(0);
    const closed = leadership.close();
    await clock.advance(9_000);
    work.resolve();
    await clock.advance(0);
    await closed;
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
    expect(warnings).toEqual([]);
  });
});

describe('the signal of a term', () => {
  it('aborts for a callback that throws undefined', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const { clock, locks } = faultyLocks();
    const reasons: unknown[] = [];
    const work = deferred();
    const onDeposed = (reason: unknown): void => void reasons.push(reason);
    const leadership = locks.lead('report', { onElected: () => work.promise, onDeposed });
    await clock.advance(0);
    work.reject(undefined);
    await clock.advance(0);
    expect(leadership.signal.aborted).toBe(true);
    expect(leadership.isLeader).toBe(false);
    expect(reasons).toEqual([undefined]);
    await leadership.close();
  });
});

describe('a step down of the whole instance', () => {
  it('closes its leaderships, and leaves other locks as they are', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const reasons: unknown[] = [];
    const leadership = locks.lead('report', { onDeposed: (reason) => reasons.push(reason) });
    const lock = await locks.acquire('goods:300');
    await clock.advance(0);
    const next = neighbour().locks.lead('report');
    await clock.advance(10);
    locks.engine.stepDown();
    await clock.advance(0);
    expect([leadership.isLeader, next.isLeader]).toEqual([false, true]);
    expect(reasons).toEqual([expect.any(LockClosedError)]);
    lock.assertHeld();
    await clock.advance(60_000);
    expect([leadership.isLeader, next.isLeader]).toEqual([false, true]);
  });
});
