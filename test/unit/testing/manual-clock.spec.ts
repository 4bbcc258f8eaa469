import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';

describe('ManualClock', () => {
  it('never goes back if two callers advance it at once', async () => {
    const clock = new ManualClock();
    const seen: number[] = [];
    for (const at of [10, 20, 90]) clock.schedule(at, () => seen.push(clock.now()));
    await Promise.all([clock.advance(100), clock.advance(20)]);
    expect(seen).toEqual([10, 20, 90]);
    expect(clock.now()).toBe(100);
    const short = clock.advance(1);
    clock.jump(50);
    await short;
    expect(clock.now()).toBe(150);
  });
});
