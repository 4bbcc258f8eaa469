import { describe, expect, it } from '@jest/globals';
import { noOwnerCheck } from './broken.js';
import { exchangesByHand } from './by-hand.js';
import { Samples } from './exchange.js';
import { expectSound, replay } from './exploring.js';
import { BASE, type Scenario } from './scenario.js';

const SCENARIOS: readonly Scenario[] = [
  {
    ...BASE,
    name: '2 processes × 2 acquisitions, passing on locally; one lost message or connection, one crash',
    processes: 2,
    acquisitions: 2,
    losses: ['message', 'reset'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: '2 × 2 without passing; one lost message',
    processes: 2,
    acquisitions: 2,
    maxLocalPasses: 0,
    losses: ['message'],
    settlesWithinMs: 5_000,
  },
  {
    ...BASE,
    name: '3 × 1; one lost message or connection, one crash',
    processes: 3,
    acquisitions: 1,
    losses: ['message', 'reset'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: '2 × 1; everything late once, one lost message, one crash',
    processes: 2,
    acquisitions: 1,
    moves: 1,
    losses: ['message'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: '2 × 1; everything late once, one lost message, one caller who leaves',
    processes: 2,
    acquisitions: 1,
    moves: 1,
    losses: ['message'],
    leaves: 1,
    settlesWithinMs: 5_000,
  },
  {
    ...BASE,
    name: '2 readers and a writer × 1; one lost message or connection, one crash',
    processes: 3,
    modes: ['shared', 'shared'],
    acquisitions: 1,
    losses: ['message', 'reset'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: '3 for 2 permits × 1; one lost message or connection, one crash',
    processes: 3,
    modes: [2, 2, 2],
    acquisitions: 1,
    losses: ['message', 'reset'],
    crashes: 1,
    settlesWithinMs: 35_000,
  },
  {
    ...BASE,
    name: 'one of 2 permits, one of 3 and a writer × 1; one lost message or connection',
    processes: 3,
    modes: [2, 3],
    acquisitions: 1,
    losses: ['message', 'reset'],
    settlesWithinMs: 5_000,
  },
  {
    ...BASE,
    name: 'a reader and a writer × 1; everything late once, one lost message, one caller who leaves',
    processes: 2,
    modes: ['shared'],
    acquisitions: 1,
    moves: 1,
    losses: ['message'],
    leaves: 1,
    settlesWithinMs: 5_000,
  },
];

describe('every run of the waiting protocol', () => {
  it.each(SCENARIOS)(
    '$name: one owner, rising tokens, everybody gets the lock; the scripts do as the table',
    expectSound,
    180_000,
  );

  it('without a crash leaves no key closed that nobody holds, but for an ask that outruns its release', async () => {
    await expectSound({
      ...BASE,
      name: '2 × 1; everything late once, one lost connection',
      processes: 2,
      acquisitions: 1,
      moves: 1,
      losses: ['reset'],
      settlesWithinMs: 5_000,
    });
  }, 180_000);
});

describe('the table in memory', () => {
  it('does what the scripts do, also in states that no run comes to', async () => {
    const samples = new Samples();
    for (const exchange of exchangesByHand()) samples.add(exchange);
    expect(samples.seen.size).toBeGreaterThan(500);
    expect(await replay(samples)).toEqual([]);
  });

  it('is found out where it does something else', async () => {
    const samples = new Samples();
    for (const exchange of exchangesByHand(noOwnerCheck.table)) samples.add(exchange);
    expect(await replay(samples)).not.toEqual([]);
  });
});
