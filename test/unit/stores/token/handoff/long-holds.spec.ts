import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { LongHolds } from '../../../../../lib/stores/token/handoff/long-holds.js';

function start() {
  const clock = new ManualClock();
  const found: string[] = [];
  return { clock, found, holds: new LongHolds(clock, 25, (owner, key) => found.push(`${owner} ${key}`)) };
}

describe('a long hold', () => {
  it('is found after 25 to 50 ms, once', async () => {
    const { clock, found, holds } = start();
    holds.onGranted('one:1', 'goods');
    await clock.advance(24);
    expect(found).toEqual([]);
    await clock.advance(26);
    expect(found).toEqual(['one:1 goods']);
    await clock.advance(1_000);
    expect(found).toEqual(['one:1 goods']);
    expect(clock.pending).toBe(0);
    holds.onGranted('one:2', 'others');
    await clock.advance(50);
    expect(found).toEqual(['one:1 goods', 'one:2 others']);
  });

  it('is not made of many short ones', async () => {
    const { clock, found, holds } = start();
    for (let i = 0; i < 200; i += 1) {
      holds.onGranted(`one:${i}`, 'goods');
      await clock.advance(20);
      holds.onReleased(`one:${i}`);
    }
    await clock.advance(100);
    expect(found).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('is reported also if the report of another one throws', async () => {
    const clock = new ManualClock();
    const found: string[] = [];
    const holds = new LongHolds(clock, 25, (owner) => {
      found.push(owner);
      throw new Error('no further connection');
    });
    for (const owner of ['one:1', 'one:2']) holds.onGranted(owner, 'goods');
    await clock.advance(50);
    expect(found).toEqual(['one:1', 'one:2']);
  });

  it('is found among short ones', async () => {
    const { clock, found, holds } = start();
    holds.onGranted('one:0', 'goods');
    for (let i = 1; i < 10; i += 1) {
      holds.onGranted(`one:${i}`, 'short');
      await clock.advance(10);
      holds.onReleased(`one:${i}`);
    }
    expect(found).toEqual(['one:0 goods']);
  });

  it('is forgotten by clear(), also in its report, and the next one is found', async () => {
    const { clock, found, holds } = start();
    holds.onGranted('one:1', 'goods');
    holds.clear();
    holds.onReleased('one:1');
    await clock.advance(1_000);
    expect(found).toEqual([]);
    const first: LongHolds = new LongHolds(clock, 25, (owner) => {
      found.push(owner);
      first.clear();
    });
    for (const owner of ['two:1', 'two:2']) first.onGranted(owner, 'goods');
    await clock.advance(1_000);
    expect(found).toEqual(['two:1']);
    expect(clock.pending).toBe(0);
    first.onGranted('two:3', 'goods');
    await clock.advance(50);
    expect(found).toEqual(['two:1', 'two:3']);
  });
});
