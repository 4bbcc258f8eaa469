import { describe, expect, it } from '@jest/globals';
import { ABLATIONS } from '../../test/support/chaos/ablations.js';
import { planOf } from './plan.js';

describe('the plan of a quick run', () => {
  const quick = planOf({ seed: 1, quick: true });

  it('has one run for each defence, on the token store', () => {
    const defences = quick.map(({ fault }) => fault.ablation);
    expect(defences.toSorted()).toEqual(ABLATIONS.toSorted());
    expect(quick.length).toBeLessThan(40);
    for (const { store, times, control } of quick) expect([store, times, control]).toEqual(['token', 1, false]);
  });

  it('repeats the choices of a whole run with the same seed', () => {
    const whole = planOf({ seed: 1, quick: false });
    const seedIn = (plan: typeof whole, name: string): number | undefined =>
      plan.find(({ fault, store, control }) => fault.name === name && store === 'token' && !control)?.seed;
    for (const { fault, seed } of quick) expect(seedIn(whole, fault.name)).toBe(seed);
  });

  it('has fewer rows if a part of their names is given', () => {
    const names = planOf({ seed: 1, quick: true, fault: 'killed' }).map(({ fault }) => fault.name);
    expect(names).toContain('holder killed');
    expect(names.filter((name) => !name.includes('killed'))).toEqual([]);
  });
});
