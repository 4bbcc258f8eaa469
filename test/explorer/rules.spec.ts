import { describe, expect, it } from '@jest/globals';
import { explore } from '../support/explorer/explore.js';
import { catchOff, RULES } from '../support/explorer/rules.js';

describe('the explorer of the engine notices if', () => {
  it.each(RULES.map((rule) => [rule.off, rule] as const))('%s', async (_off, rule) => {
    const outcome = await catchOff(rule, explore);
    expect(outcome).toMatchObject({ isCaught: true });
  });

  it('no rule is switched off, and then finds nothing', async () => {
    const found: string[] = [];
    for (const { off, under } of RULES) {
      const { problems } = await explore(1, under);
      for (const problem of problems) found.push(`under the conditions of "${off}": ${problem}`);
    }
    expect(found).toEqual([]);
  });
});
