import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { isFarBehind, QueuePlace, QueueSpeeds } from '../../../../lib/core/acquire/queue-place.js';
import { randomFrom } from '../../../support/random.js';

/** A manual clock with repeatable random numbers. */
class RandomClock extends ManualClock {
  private readonly next = randomFrom(1);

  override random(): number {
    return this.next();
  }
}

const NEVER = Infinity;

/** Returns a place behind that many, after its first reply. */
function placeBehind(ahead: number, msPerPlace = Infinity) {
  const clock = new RandomClock();
  const place = new QueuePlace(clock, ahead, msPerPlace);
  const firstMs = place.pauseAfter(ahead, NEVER, NEVER);
  return { clock, place, firstMs };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('the pauses of waiters', () => {
  it('are those of the first eight, and then longer', () => {
    expect([undefined, 0, 7, 8].map(isFarBehind)).toEqual([false, false, false, true]);
  });

  it('add up to fewer than 40 requests a second for 992 waiters behind eight', () => {
    let perSecond = 0;
    for (let ahead = 8; ahead < 1_000; ahead += 1) {
      const { place } = placeBehind(ahead);
      perSecond += 1_000 / mean(Array.from({ length: 20 }, () => place.pauseAfter(ahead, NEVER, NEVER)));
    }
    expect(perSecond).toBeGreaterThan(25);
    expect(perSecond).toBeLessThan(40);
  });

  it('begin anywhere, so that instances that have joined together do not repeat together', () => {
    const clock = new RandomClock();
    const first = Array.from({ length: 1_000 }, () =>
      new QueuePlace(clock, 900, Infinity).pauseAfter(900, NEVER, NEVER),
    );
    for (let from = 0; from < 28_000; from += 4_000) {
      const count = first.filter((ms) => ms >= from && ms < from + 4_000).length;
      expect(count).toBeGreaterThan(70);
      expect(count).toBeLessThan(170);
    }
    expect(Math.max(...first)).toBeLessThanOrEqual(40_000);
  });

  it('take at most three quarters of what the first caller still waits, or 2 s', () => {
    const { place } = placeBehind(900);
    for (const restMs of [60_000, 30_000, 8_000, 1_000, 0]) {
      const pauses = Array.from({ length: 50 }, () => place.pauseAfter(900, NEVER, restMs));
      expect(Math.max(...pauses)).toBeLessThanOrEqual(Math.min(40_000, Math.max(0.75 * restMs, 2_000)));
    }
  });

  it('end soon after the lease of the holder, one waiter after the other', () => {
    const endOf = (ahead: number): number => placeBehind(ahead).place.pauseAfter(ahead, 1_000, NEVER);
    expect(endOf(100)).toBe(6_000);
    expect(endOf(101) - endOf(100)).toBe(50);
  });
});

describe('the speed of a queue', () => {
  it('is measured between two replies, and shortens the pause', async () => {
    const { clock, place } = placeBehind(900);
    await clock.advance(1_000);
    // 100 places in a second: the other 800 take 8 s.
    const pauseMs = place.pauseAfter(800, NEVER, NEVER);
    expect(pauseMs).toBeGreaterThanOrEqual(8_010);
    expect(pauseMs).toBeLessThanOrEqual(12_015);
  });

  it('is not known while the queue stands still', async () => {
    const { clock, place } = placeBehind(900, 1);
    await clock.advance(1_000);
    expect(place.pauseAfter(900, NEVER, NEVER)).toBeGreaterThanOrEqual(30_000);
  });

  it('is that of the last wait at first', async () => {
    const { clock, place } = placeBehind(99);
    await clock.advance(1_000);
    expect(place.speed).toBe(10);
    const { firstMs } = placeBehind(900, place.speed);
    expect(firstMs).toBeLessThanOrEqual(901 * 10 * 1.5);
  });

  it('is remembered for the last thousand keys', () => {
    const speeds = new QueueSpeeds();
    for (let key = 0; key <= 1_000; key += 1) speeds.learn(`key ${key}`, key);
    speeds.learn('key 1', 5);
    speeds.learn('another', 6);
    expect(['key 0', 'key 1', 'key 2', 'key 3', 'another'].map((key) => speeds.of(key))).toEqual([
      NEVER,
      5,
      NEVER,
      3,
      6,
    ]);
  });
});
