import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { WantedKeys } from '../../../../lib/core/acquire/wanted-keys.js';
import { TimeoutPool } from '../../../../lib/core/time/timeout-pool.js';

describe('WantedKeys', () => {
  it('has a key for a second after it was last wanted', async () => {
    const clock = new ManualClock();
    const wanted = new WantedKeys({ clock: new TimeoutPool(clock, 1_000) });
    wanted.add('goods:300');
    wanted.add('goods:301');
    await clock.advance(600);
    wanted.add('goods:300');
    await clock.advance(399);
    expect(['goods:300', 'goods:301', 'goods:302'].map((key) => wanted.has(key))).toEqual([true, true, false]);
    await clock.advance(1);
    expect(['goods:300', 'goods:301'].map((key) => wanted.has(key))).toEqual([true, false]);
    await clock.advance(600);
    expect(wanted.has('goods:300')).toBe(false);
  });

  it('drops all keys of a burst when it is asked for one', async () => {
    const clock = new ManualClock();
    const wanted = new WantedKeys({ clock: new TimeoutPool(clock, 1_000) });
    for (let i = 0; i < 1_000; i += 1) wanted.add(`goods:${i}`);
    expect(wanted.size).toBe(1_000);
    await clock.advance(1_000);
    expect([wanted.has('goods:1'), wanted.size]).toEqual([false, 0]);
  });
});
