import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type EndedEvent, LockConfigError, lockChannels, Locked, type LockOptions } from 'nestjs-redis-lock';
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
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: string) => void lines.push(`warn: ${line}`));
  jest.spyOn(Logger.prototype, 'log').mockImplementation((line: string) => void lines.push(`log: ${line}`));
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
  it('is logged once with its method, label and time, and again at its release', async () => {
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const buying = withLocks(new Shop(), locks).buy(300, work.promise);
    await clock.advance(30_900);
    expect(lines).toEqual([]);
    await clock.advance(59_000);
    expect(lines).toEqual([expect.stringMatching(/^warn: /)]);
    expect(lines[0]).toMatch(
      /^warn: The lock on goods:300 by Shop\.buy \(request 7\) has been held for 31\.\d s, and is still renewed: /,
    );
    expect(lines[0]).toContain('(warnHeldMs: 30000)');
    expect(events).toEqual([expect.objectContaining({ resource: 'goods:300', method: 'Shop.buy' })]);
    expect(events[0].heldMs).toBeGreaterThanOrEqual(30_000);
    work.resolve();
    await buying;
    expect(lines.slice(1)).toEqual([
      expect.stringMatching(/^log: The lock on goods:300 by Shop\.buy \(request 7\) was released after 89\.9 s\.$/),
    ]);
  });

  it('is an option of a call, whatever its lease', async () => {
    const { clock, locks } = faultyLocks();
    await locks.acquire('goods:300', { warnHeldMs: 1_000, ttlMs: 3_600_000 });
    await locks.acquire('goods:301', { warnHeldMs: 1_800 });
    await clock.advance(2_200);
    expect(lines).toEqual([expect.stringMatching(/2 locks are .*: goods:300 by .* for 2\.\d s, goods:301 by /)]);
    await clock.advance(100_000);
    expect(lines).toHaveLength(1);
  });

  it.each<LockOptions>([{ warnHeldMs: false }, { warnHeldMs: Infinity }, { renew: false, ttlMs: 300_000 }])(
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
    expect(locks.local().holds).toHaveLength(2);
    expect([lines, events]).toEqual([[], []]);
    stream.unsubscribe();
    await leadership.close();
  });

  it('has one line for many with their number and the first three, and an event each', async () => {
    const { clock, locks } = faultyLocks();
    const held = await Promise.all(Array.from({ length: 1_013 }, (_, id) => locks.acquire(`goods:${id}`)));
    await clock.advance(120_000);
    const first = [0, 1, 2].map((id) => String.raw`goods:${id} by a call of LockService for 3[01]\.\d s, `).join('');
    const line = `^warn: 1013 locks are still renewed after their warnHeldMs, so their work may hang: ${first}and 1010 more`;
    expect(lines).toEqual([expect.stringMatching(new RegExp(`${line}\\.$`))]);
    expect(events).toHaveLength(1_013);
    await Promise.all(held.map((lock) => lock.release()));
    expect(lines.slice(1).map((each) => each.replace(/ by .*/, ''))).toEqual(
      [0, 1, 2].map((id) => `log: The lock on goods:${id}`),
    );
  });

  it('has one line with others that pass warnHeldMs within a second', async () => {
    const { clock, locks } = faultyLocks();
    await locks.acquire('goods:300');
    await clock.advance(800);
    await locks.acquire('goods:301', { label: 'request 7' });
    await clock.advance(120_000);
    expect(lines).toEqual([expect.stringContaining('warn: 2 locks are still renewed after their warnHeldMs, ')]);
    expect(lines[0]).toMatch(/goods:300 by .* for 31\.\d s, goods:301 by .* \(request 7\) for 30\.\d s\.$/);
  });

  it('has one line a minute at most, for all of that minute that are still held', async () => {
    const { clock, locks } = faultyLocks();
    // One more every 5 s for 10 min. Every second one is released before the next line.
    for (let id = 0; id < 120; id++) {
      const lock = await locks.acquire(`goods:${id}`);
      if (id % 2 === 1) clock.schedule(30_500, () => void lock.release());
      await clock.advance(5_000);
    }
    const warned = lines.filter((line) => line.startsWith('warn: '));
    expect(warned.length).toBeGreaterThanOrEqual(9);
    expect(warned.length).toBeLessThanOrEqual(10);
    expect(warned[0]).toContain('The lock on goods:0 by ');
    for (const line of warned.slice(1)) expect(line).toContain('warn: 6 locks are still renewed ');
    expect(lines.length).toBe(warned.length);
  });

  it('has no line if a listener of the event releases it', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    const release = (): void => void lock.release();
    lockChannels.overdue.subscribe(release);
    await clock.advance(60_000);
    lockChannels.overdue.unsubscribe(release);
    expect([lines, events.length]).toEqual([[], 1]);
  });

  it('is logged as lost if it is lost, and not as released', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { maxHoldMs: 40_000 });
    await clock.advance(50_000);
    await lock.release();
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain('was lost after 40000 ms: maxHoldMs (40000) has elapsed.');
  });

  it('is checked: warnHeldMs is false, Infinity, or at least 1', async () => {
    const { locks } = faultyLocks();
    for (const warnHeldMs of [0, -1, NaN, true]) {
      await expect(locks.acquire('goods:300', { warnHeldMs } as LockOptions)).rejects.toThrow(LockConfigError);
    }
  });
});
