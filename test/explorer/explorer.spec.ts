import { describe, expect, it } from '@jest/globals';
import { CALM } from '../support/explorer/conditions.js';
import { explore } from '../support/explorer/explore.js';
import { TICKETS } from '../support/explorer/rules.js';

const SEEDS = Number(process.env['EXPLORER_SEEDS'] ?? 200);
const FIRST = Number(process.env['EXPLORER_FIRST'] ?? 1);

describe('the engine behind faulty connections', () => {
  it.each([
    ['', SEEDS, {}],
    [' without a queue', Math.ceil(SEEDS / 4), { hasQueue: false }],
    [' in lock scopes', Math.ceil(SEEDS / 4), { scope: 0.7, keys: 3 }],
    [' over connections that end often', Math.ceil(SEEDS / 4), { disconnect: 0.36, arrivesLate: 0.5 }],
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

  it('keeps them for locks with tickets, whatever reply is lost', async () => {
    const problems: string[] = [];
    for (let seed = 1; seed <= 60; seed += 1) {
      const refused = 0.05 * (seed % 3);
      const disconnect = 0.12 * (seed % 4);
      const given = { ...CALM, ...TICKETS, refused, disconnect, shutsDown: seed % 2 };
      const result = await explore(seed, given);
      for (const problem of result.problems) problems.push(`seed ${seed}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });
});
