import { expect } from '@jest/globals';
import { testRedisUrl } from '../shared-redis.js';
import type { Scenario } from './scenario.js';
import { examine } from './verdict.js';

/**
 * Explores a scenario and prints its size. Fails with the shortest run to a violation, and if Redis replies differently
 * from the table.
 */
export async function expectSound(scenario: Scenario): Promise<void> {
  const verdict = await examine(scenario, testRedisUrl());
  const { states, transitions, ends, longestRun, slowestEndMs, exchanges, seconds } = verdict;
  say(`${scenario.name}: ${states} states, ${transitions} transitions, ${ends} ends, longest run ${longestRun} steps,`);
  say(`  all settled within ${slowestEndMs} ms, ${exchanges} distinct exchanges, ${seconds.toFixed(1)} s`);
  expect(verdict.violation).toBeUndefined();
  expect(verdict.differences).toEqual([]);
}

/** Past Jest's console, which would add where it was printed. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
