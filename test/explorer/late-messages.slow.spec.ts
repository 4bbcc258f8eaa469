import { describe, it } from '@jest/globals';
import { expectSound } from './exploring.js';
import { BASE } from './scenario.js';

describe('every run of two processes with two acquisitions each', () => {
  it('keeps its promises when everything may be late once, with one lost message and one crash', async () => {
    await expectSound({
      ...BASE,
      name: '2 × 2, passing on locally; everything late once, one lost message, one crash',
      processes: 2,
      acquisitions: 2,
      moves: 1,
      losses: ['message'],
      crashes: 1,
      settlesWithinMs: 35_000,
    });
  });
});
