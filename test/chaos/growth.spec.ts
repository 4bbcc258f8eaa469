import { describe, expect, it } from '@jest/globals';
import { growthOf, LEAST_SAMPLES, type Sample } from '../support/chaos/growth.js';

const MIB = 2 ** 20;
const samples = (of: (i: number) => Partial<Sample>, count = 40): readonly Sample[] =>
  Array.from({ length: count }, (_, i) => ({ heapBytes: 50 * MIB, timers: 20, sockets: 2, ...of(i) }));

describe('growth', () => {
  it('ignores waves and the warm-up', () => {
    const waves = samples((i) => ({
      heapBytes: (50 + (i % 2) * 20) * MIB,
      timers: 20 + (i % 5),
      sockets: i === 25 ? 9 : 2,
    }));
    expect(growthOf(waves)).toEqual([]);
    expect(growthOf(samples((i) => ({ heapBytes: (i < 10 ? 20 : 50) * MIB })))).toEqual([]);
  });

  it('reports each kind that is higher at the end', () => {
    expect(growthOf(samples((i) => ({ heapBytes: (50 + i) * MIB })))).toEqual([
      expect.stringContaining('heapBytes grew'),
    ]);
    expect(growthOf(samples((i) => ({ timers: 20 + i })))).toEqual([expect.stringContaining('timers grew')]);
    expect(growthOf(samples((i) => ({ sockets: i < 20 ? 2 : 4 })))).toEqual(['sockets grew from 2 to 4']);
  });

  it('needs enough samples', () => {
    expect(growthOf(samples(() => ({}), LEAST_SAMPLES - 1))).toEqual([expect.stringContaining('only 11 samples')]);
  });
});
