import { expect, it } from '@jest/globals';
import { randomFrom } from '../../support/random.js';
import { TimestampLocks } from '../../support/timestamp-locks.js';
import { faultsOf, type Step } from './old-clients.js';
import { forTests } from '../../support/for-tests.js';

/** Shorter leases tolerate no loser of a race, so that a client of the articles may rest for any time. */
const LEASE_MS = 900;

/** A lost race, and a takeover by the rules: GET, compute, GETSET, SETNX, GET, compute, GETSET. */
const OLD_STEPS = 7;

/** How often a random schedule changes the client. */
const BURSTS = 16;

const locks = forTests(new TimestampLocks());

/** Returns all orders in which the sequences can interleave. */
function* interleavings(sequences: readonly (readonly Step[])[]): Generator<readonly Step[]> {
  const left = sequences.filter((steps) => steps.length > 0);
  if (left.length === 0) yield [];
  for (const sequence of left) {
    const [first, ...rest] = sequence;
    const others = left.map((steps) => (steps === sequence ? rest : steps));
    for (const after of interleavings(others)) yield [first, ...after];
  }
}

/** Returns a schedule of two old clients and ours, in which a client often takes several steps in a row. */
function scheduleFrom(seed: number): readonly Step[] {
  const random = randomFrom(seed);
  const oneOf = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)];
  const times: readonly Step[] = ['+1', '+5', `+${LEASE_MS - 3}`, `+${LEASE_MS - 3}`, `+${LEASE_MS + 2}`];
  const actors: readonly (() => readonly Step[])[] = [
    () => [oneOf<Step>(['ours: extend', 'ours: release'])],
    () => Array.from({ length: 1 + Math.floor(random() * 4) }, (): Step => 'old'),
    () => Array.from({ length: 1 + Math.floor(random() * 4) }, (): Step => 'other'),
    () => [oneOf(times)],
  ];
  return Array.from({ length: BURSTS }, () => oneOf(actors)()).flat();
}

it.each([true, false])(
  'no lock of two old clients is changed in 2,000 random schedules, with a TTL: %s',
  async (setsTtl) => {
    const store = await locks.store({ unit: 'ms' });
    const found: string[] = [];
    for (let seed = 1; seed <= 2_000; seed += 1) {
      const steps = scheduleFrom(seed);
      const faults = await faultsOf(locks, store, LEASE_MS, setsTtl, steps);
      found.push(...faults.map((fault) => `seed ${seed}: ${fault}: ${steps.join(', ')}`));
    }
    expect(found).toEqual([]);
  },
  120_000,
);

it.each<[string, readonly Step[]]>([
  ['renewal', ['ours: extend', 'ours: extend']],
  ['release', ['ours: release', 'ours: release']],
])(
  'no lock of an old client is changed by any interleaving with a %s',
  async (_verb, ours) => {
    const store = await locks.store({ unit: 'ms' });
    const old = Array.from({ length: OLD_STEPS }, (): Step => 'old');
    const time: readonly Step[] = ['+5', `+${LEASE_MS - 3}`];
    const found: string[] = [];
    let runs = 0;
    for (const steps of interleavings([ours, old, time])) {
      runs += 1;
      const faults = await faultsOf(locks, store, LEASE_MS, false, steps);
      found.push(...faults.map((fault) => `${fault}: ${steps.join(', ')}`));
    }
    expect(runs).toBe(1_980);
    expect(found).toEqual([]);
  },
  120_000,
);
