import { describe, expect, it } from '@jest/globals';
import { explore } from '../support/explorer/explore.js';

const SEEDS = Number(process.env['EXPLORER_SEEDS'] ?? 200);
const FIRST = Number(process.env['EXPLORER_FIRST'] ?? 1);

describe('the engine behind faulty connections', () => {
  it.each([
    ['', SEEDS, {}],
    [' without a queue', Math.ceil(SEEDS / 4), { hasQueue: false }],
    [' in lock scopes', Math.ceil(SEEDS / 4), { scope: 0.7, keys: 3 }],
  ])('keeps its invariants%s, whatever comes late, twice, never or forged', async (_how, seeds, given) => {
    const problems: string[] = [];
    let grants = 0;
    for (let seed = FIRST; seed < FIRST + seeds; seed += 1) {
      const result = await explore(seed, given);
      grants += result.grants;
      for (const problem of result.problems) problems.push(`seed ${seed}: ${problem}`);
    }
    expect(problems).toEqual([]);
    expect(grants).toBeGreaterThan(seeds);
  });
});
