import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { lockChannels, LockLostError } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { BoardEvents, BUCKET_MS, BUCKETS } from '../../../lib/board/board-events.js';

let clock: ManualClock;
let events: BoardEvents;
beforeEach(() => {
  clock = new ManualClock(BUCKET_MS * 1_000);
  events = new BoardEvents('default', clock);
  events.start();
});
afterEach(() => events.stop());

const event = (fields: object): object => ({
  resource: 'goods:1',
  key: '{lock_goods}:1',
  instance: 'default',
  ...fields,
});

describe('the events of the board', () => {
  it('adds up waits and holds in intervals', async () => {
    lockChannels.granted.publish(event({ waitedMs: 10 }));
    lockChannels.granted.publish(event({ waitedMs: 30 }));
    lockChannels.refused.publish(event({ waitedMs: 50, reason: new Error('busy'), outcome: 'timeout' }));
    await clock.advance(BUCKET_MS);
    lockChannels.released.publish(event({ heldMs: 7 }));
    expect(events.recent()).toEqual([
      { at: 1_000, waits: [3, 90, 50], refused: 1, holds: [0, 0, 0], held: undefined, waiting: undefined },
      { at: 1_001, waits: [0, 0, 0], refused: 0, holds: [1, 7, 7], held: undefined, waiting: undefined },
    ]);
  });

  it('ignores other module instances', () => {
    lockChannels.granted.publish(event({ waitedMs: 10, instance: 'php' }));
    lockChannels.lost.publish(event({ heldMs: 10, instance: 'php' }));
    expect([events.recent(), events.lostCount]).toEqual([[], 0]);
  });

  it('keeps the last five minutes', async () => {
    for (let i = 0; i < 3 * BUCKETS; i++) {
      lockChannels.released.publish(event({ heldMs: i }));
      await clock.advance(BUCKET_MS);
    }
    expect(events.recent()).toHaveLength(BUCKETS - 1);
    await clock.advance(BUCKETS * BUCKET_MS);
    expect(events.recent()).toEqual([]);
  });

  it('records the last fifty lost locks and why', () => {
    const reason = new LockLostError('The lock on goods:1 was lost after 12 ms: the key is gone.', {
      resource: 'goods:1',
    });
    const call = { method: 'GoodsController.buy', label: 'req-7' };
    for (let i = 1; i <= 60; i++) lockChannels.lost.publish(event({ heldMs: i, reason, ...call }));
    lockChannels.lost.publish(event({ heldMs: 61 }));
    expect(events.lostCount).toBe(61);
    expect(events.lost).toHaveLength(50);
    expect(events.lost[0]).toEqual({
      id: 61,
      resource: 'goods:1',
      heldMs: 61,
      reason: undefined,
      at: clock.wallTime(),
    });
    expect(events.lost[1]).toMatchObject({ reason: 'the key is gone.', ...call });
  });

  it('forgets intervals of the future after the wall clock was set back', async () => {
    lockChannels.released.publish(event({ heldMs: 1 }));
    await clock.advance(BUCKET_MS);
    lockChannels.released.publish(event({ heldMs: 2 }));
    clock.setWallTime(clock.wallTime() - BUCKET_MS);
    lockChannels.released.publish(event({ heldMs: 3 }));
    expect(events.recent()).toEqual([expect.objectContaining({ at: 1_000, holds: [2, 4, 3] })]);
  });

  it('counts a request that became a nested hold as no refusal', () => {
    lockChannels.refused.publish(event({ waitedMs: 50, reason: new Error('nested'), outcome: 'nested' }));
    expect(events.recent()).toEqual([]);
  });

  it('records nothing after its end', () => {
    events.stop();
    lockChannels.lost.publish(event({ heldMs: 1 }));
    expect(events.lostCount).toBe(0);
  });
});
