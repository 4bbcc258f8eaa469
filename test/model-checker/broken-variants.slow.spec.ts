import { describe, expect, it } from '@jest/globals';
import {
  instanceIdForAskId,
  noAgeBound,
  noCheckOfForce,
  noLeaving,
  noOwnerCheck,
  noReleaseBehind,
  noSafetyNet,
  noTimeAfterPrompt,
} from '../support/model-checker/broken.js';
import { explore } from '../support/model-checker/explore.js';
import { say } from '../support/model-checker/exploring.js';
import { invariantOf, told } from '../support/model-checker/rerun.js';
import { BASE, type Scenario, type Variant } from '../support/model-checker/scenario.js';

const SMALL: Omit<Scenario, 'name'> = {
  ...BASE,
  processes: 2,
  acquisitions: 1,
  moves: 1,
  losses: ['message'],
  crashes: 1,
  settlesWithinMs: 35_000,
};

const BROKEN: readonly [variant: Variant, invariant: string, scenario: Omit<Scenario, 'name'>][] = [
  [noOwnerCheck, 'one owner', SMALL],
  [noAgeBound, 'one owner', SMALL],
  [noSafetyNet, 'progress', SMALL],
  [noLeaving, 'tidiness', { ...SMALL, crashes: 0, leaves: 1, settlesWithinMs: 5_000 }],
  [noReleaseBehind, 'progress', { ...SMALL, moves: 0, crashes: 0, losses: ['reset'], settlesWithinMs: 5_000 }],
  // It needs two attempts of one process at once: a second caller, or a lost connection.
  [instanceIdForAskId, 'rising tokens', { ...SMALL, acquisitions: 2, crashes: 0 }],
  // The head of the queue gets the lock of a dead holder, another waiter is prompted, and the third one requests it.
  [noTimeAfterPrompt, 'order', { ...SMALL, processes: 4, moves: 0, losses: [] }],
  [noCheckOfForce, 'by force', { ...SMALL, moves: 0, losses: [], crashes: 0, acquisitions: 2, forces: 1 }],
];

describe('the explorer', () => {
  it.each(BROKEN.map((row) => [row[0].name, ...row] as const))('catches %s', (name, variant, invariant, terms) => {
    const scenario = { ...terms, name, variant };
    const { violation, states } = explore(scenario);
    if (violation === undefined) throw new Error(`${name} was not caught in ${states} states`);
    say(`${name}, caught after ${states} states: ${told(scenario, violation)}`);
    expect(invariantOf(violation.what)).toBe(invariant);
  });

  it('finds nothing where nothing is broken', () => {
    expect(explore({ ...SMALL, name: 'intact' }).violation).toBeUndefined();
  });
});
