import { describe, expect, it } from '@jest/globals';
import { explore } from '../support/explorer/explore.js';

const SEEDS = Number(process.env['EXPLORER_SEEDS'] ?? 200);
const FIRST = Number(process.env['EXPLORER_FIRST'] ?? 1);

describe('the engine behind faulty connections', () => {
  it(`keeps its invariants, whatever comes late, twice, never or forged`, async () => {
    const problems: string[] = [];
    let grants = 0;
    for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) {
      const result = await explore(seed);
      grants += result.grants;
      for (const problem of result.problems) problems.push(`seed ${seed}: ${problem}`);
    }
    expect(problems).toEqual([]);
    expect(grants).toBeGreaterThan(SEEDS);
  });
});
