import { describe, expect, it } from '@jest/globals';
import { CALM } from '../support/explorer/conditions.js';
import { explore } from '../support/explorer/explore.js';
import { catchOff, RULES } from '../support/explorer/rules.js';
import { page } from '../support/pages.js';

describe('the explorer of the engine notices if', () => {
  it.each(RULES.map((rule) => [rule.off, rule] as const))('%s', async (_off, rule) => {
    const outcome = await catchOff(rule, explore);
    expect(outcome).toMatchObject({ isCaught: true });
  });

  it('a rule of its table has no switch', () => {
    const [, section] = page('test/explorer/README.md').text.split(/^## (?:Switches|Measured)$/m);
    const lines = section.split('\n').filter((line) => line.startsWith('| '));
    const rows = lines.slice(2).map((line) => line.split('|').map((cell) => cell.trim()));
    expect(rows.map(([, off, of]) => [off, of])).toEqual(RULES.map(({ off, of }) => [off, of]));
  });

  it('no rule is switched off, and then finds nothing', async () => {
    const found: string[] = [];
    for (const { off, under } of RULES) {
      const { problems } = await explore(1, { ...CALM, ...under });
      for (const problem of problems) found.push(`under the conditions of "${off}": ${problem}`);
    }
    expect(found).toEqual([]);
  });
});
