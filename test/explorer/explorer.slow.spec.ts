import { describe, it } from '@jest/globals';
import { expectSound } from './exploring.js';
import { BASE, type Scenario } from './scenario.js';

const SCENARIOS: readonly Scenario[] = [
  {
    ...BASE,
    name: '2 × 1; everything late once, every kind of loss, one crash',
    processes: 2,
    acquisitions: 1,
    moves: 1,
    losses: ['message', 'duplicate', 'reset', 'subscription', 'half-open'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: '2 × 1; everything late twice',
    processes: 2,
    acquisitions: 1,
    moves: 2,
    settlesWithinMs: 5_000,
  },
  {
    ...BASE,
    name: '3 × 1; everything late once',
    processes: 3,
    acquisitions: 1,
    moves: 1,
    settlesWithinMs: 5_000,
  },
];

describe('every run of the waiting protocol, with more that goes wrong', () => {
  it.each(SCENARIOS)('$name', expectSound);
});
