import { describe, expect, it } from '@jest/globals';
import { BROKEN } from '../support/whole-engine/broken.js';
import { catchBroken, runSeeds, shrinkCaught, violationOf } from '../support/whole-engine/campaign.js';
import { planOf } from '../support/whole-engine/plan.js';
import { simulate } from '../support/whole-engine/simulation.js';

/** Each of these seeds is one run of some processes with the real engine. `npm run simulate -- --seed 7` shows one. */
const SEEDS = 200;
/** Within how many seeds a broken engine must be caught. */
const MOST = 250;

/** Instance ids have a random part. */
const withoutIds = (trace: readonly string[]) => trace.map((line) => line.replaceAll(/-[\w-]{16}:/g, ':'));

describe('the whole engine', () => {
  it(`keeps its promises in ${SEEDS} runs with faults`, async () => {
    const { runs, failure, grants } = await runSeeds(1, (campaign) => campaign.runs >= SEEDS);
    expect(failure).toBeUndefined();
    expect(runs).toBe(SEEDS);
    expect(grants).toBeGreaterThan(SEEDS);
  });

  it('does the same again with the same seed', async () => {
    const [first, second, third] = await Promise.all([7, 7, 8].map((seed) => simulate(planOf(seed), { traces: true })));
    expect(withoutIds(second.trace)).toEqual(withoutIds(first.trace));
    expect(second.events).toBe(first.events);
    expect(third.events).not.toBe(first.events);
  });
});

describe('the simulation', () => {
  it.each(BROKEN.map((broken) => [broken.name, broken] as const))('catches %s', async (name, broken) => {
    const caught = await catchBroken(broken, 1, MOST);
    if (caught === undefined) throw new Error(`${name} was not caught by ${MOST} seeds`);
    expect(await violationOf(broken, caught.plan)).toBeDefined();
    // With the rule, the same run is sound.
    expect((await simulate(caught.plan)).violation).toBeUndefined();
  });

  it('does not take the place of an attempt that was given up for the place of the next caller', async () => {
    expect((await simulate(planOf(81_607))).violation).toBeUndefined();
  });

  it('shrinks a run that fails to the calls and faults that it needs', async () => {
    const [broken] = BROKEN.filter(({ name }) => name === 'a handoff that grants from when it arrives');
    const caught = await catchBroken(broken, 1, MOST);
    if (caught === undefined) throw new Error('it was not caught');
    const { plan, violation } = await shrinkCaught(broken, caught);
    expect(violation).toMatch(/^belief: /);
    const steps = plan.callers.flatMap((caller) => caller.steps);
    // A holder, and a waiter that is handed the lock off.
    expect(steps.length).toBeLessThanOrEqual(4);
    expect(plan.faults).toEqual([]);
    expect(await violationOf(broken, plan)).toMatch(/^belief: /);
  });
});
