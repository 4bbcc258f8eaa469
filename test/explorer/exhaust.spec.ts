import { describe, expect, it } from '@jest/globals';
import { exhaust, type Scenario } from '../support/explorer/exhaust.js';
import { type Rule, RULES } from '../support/explorer/rules.js';
import { QUICK } from '../support/explorer/scenarios.js';

async function problemsWithout(off: string, scenario: Scenario): Promise<readonly string[]> {
  const switchOn = (RULES.find((rule) => rule.off === off) as Rule).switchOff();
  return exhaust(scenario)
    .then(({ problems }) => problems)
    .finally(switchOn);
}

describe('the engine in every order of what arrives', () => {
  it.each(QUICK.map((scenario) => [scenario.title, scenario] as const))('%s', async (_title, scenario) => {
    expect((await exhaust(scenario)).problems).toEqual([]);
  });

  it('two calls have six orders', async () => {
    // Either instance is first. The other asks after the release, or it waits. Then the message comes before or after
    // the reply that the lock is held.
    expect(await exhaust({ title: '', calls: [{ instance: 0 }, { instance: 1 }] })).toMatchObject({ schedules: 6 });
  });

  it('shows the steps after which a release frees the lock of another owner', async () => {
    const calls = [{ instance: 0, leaves: true }, { instance: 1 }];
    const problems = await problemsWithout('the store releases for a wrong owner', { title: '', calls });
    expect(problems).toEqual(['{lock_k}:0: trusted, but not held', expect.stringContaining('leave 0 of 0 #0')]);
  });

  it('finds the order in which a lease is used after its end', async () => {
    const scenario: Scenario = { title: '', calls: [{ instance: 0 }], faults: ['expires'] };
    const problems = await problemsWithout('a lease counts from the reply', scenario);
    expect(problems[0]).toBe('{lock_k}:0: trusted, but not held');
  });
});
