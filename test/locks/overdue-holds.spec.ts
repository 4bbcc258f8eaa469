import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { LockConfigError, Locked, type LockOptions } from 'nestjs-redis-lock';
import { type EndedEvent, lockChannels } from 'nestjs-redis-lock/events';
import { withLocks } from 'nestjs-redis-lock/testing';
import { Observable } from 'rxjs';
import { deferred } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

const lines: string[] = [];
const events: EndedEvent[] = [];
// All specs of a worker share the channels.
const onOverdue = (event: unknown): void => {
  if ((event as EndedEvent).resource.startsWith('goods:')) events.push(event as EndedEvent);
};

beforeEach(() => {
  lines.length = events.length = 0;
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: string) => void lines.push(line));
  lockChannels.overdue.subscribe(onOverdue);
});
afterEach(() => {
  jest.restoreAllMocks();
  lockChannels.overdue.unsubscribe(onOverdue);
});

class Shop {
  @Locked('goods:<id>', { label: 'request 7' })
  async buy(id: number, work: Promise<void>): Promise<number> {
    await work;
    return id;
  }

  @Locked('goods:<id>')
  watch(id: number): Observable<number> {
    return new Observable((subscriber) => subscriber.next(id));
  }
}

describe('a hold that is renewed for longer than warnHeldMs', () => {
  it('is logged once with its method, label and time', async () => {
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const buying = withLocks(new Shop(), locks).buy(300, work.promise);
    await clock.advance(29_900);
    expect(lines).toEqual([]);
    await clock.advance(60_000);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^The lock on goods:300 by Shop\.buy \(request 7\) has been held for 30\.\d s, and is still renewed: /,
    );
    expect(lines[0]).toContain('(warnHeldMs: 30000)');
    expect(events).toEqual([expect.objectContaining({ resource: 'goods:300', method: 'Shop.buy' })]);
    expect(events[0].heldMs).toBeGreaterThanOrEqual(30_000);
    work.resolve();
    await buying;
    expect(lines).toHaveLength(1);
  });

  it('is an option of a call, whatever its lease', async () => {
    const { clock, locks } = faultyLocks();
    await locks.acquire('goods:300', { warnHeldMs: 1_000, ttlMs: 3_600_000 });
    await locks.acquire('goods:301', { warnHeldMs: 1_800 });
    await clock.advance(2_200);
    expect(lines).toEqual([expect.stringContaining('goods:300 by '), expect.stringContaining('goods:301 by ')]);
    await clock.advance(100_000);
    expect(lines).toHaveLength(2);
  });

  it.each<LockOptions>([{ warnHeldMs: false }, { warnHeldMs: Infinity }])(
    'is not reported with %j',
    async (options) => {
      const { clock, locks } = faultyLocks();
      const lock = await locks.acquire('goods:300', options);
      await clock.advance(200_000);
      await lock.release();
      expect([lines, events]).toEqual([[], []]);
    },
  );

  it('is not reported for a leader, nor for a stream', async () => {
    const { clock, locks } = faultyLocks({ warnHeldMs: 100 });
    const leadership = locks.lead('report');
    const stream = withLocks(new Shop(), locks).watch(300).subscribe();
    await clock.advance(100_000);
    expect(locks.engine.holds().length).toBe(2);
    expect([lines, events]).toEqual([[], []]);
    stream.unsubscribe();
    await leadership.close();
  });

  it('is checked: warnHeldMs is false, Infinity, or at least 1', async () => {
    const { locks } = faultyLocks();
    for (const warnHeldMs of [0, -1, NaN, true]) {
      await expect(locks.acquire('goods:300', { warnHeldMs } as LockOptions)).rejects.toThrow(LockConfigError);
    }
  });
});
