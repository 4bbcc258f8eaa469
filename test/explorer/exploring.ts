import { expect } from '@jest/globals';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { Samples } from './exchange.js';
import { explore } from './explore.js';
import { LuaReplay } from './lua-replay.js';
import { told } from './rerun.js';
import type { Scenario } from './scenario.js';

/** Explores, prints how much that was, fails with the shortest way to a violation, and compares all that was asked with Redis. */
export async function expectSound(scenario: Scenario): Promise<void> {
  const begin = performance.now();
  const samples = new Samples();
  const found = explore(scenario, (exchange) => samples.add(exchange));
  const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
  const { states, transitions, leaves, longestRun, slowestEndMs, violation } = found;
  say(
    `${scenario.name}: ${states} states, ${transitions} transitions, ${leaves} ends, longest run ${longestRun} steps,`,
  );
  say(`  all settled within ${slowestEndMs} ms, ${samples.seen.size} distinct exchanges, ${seconds} s`);
  expect(violation && told(scenario, violation)).toBeUndefined();
  expect(await replay(samples)).toEqual([]);
}

/** What the scripts do differently. */
export async function replay(samples: Samples): Promise<string[]> {
  const lua = new LuaReplay(testRedisUrl(), uniquePrefix());
  try {
    return await lua.run([...samples.seen.values()]);
  } finally {
    await lua.close();
  }
}

/** Past Jest's console, which would add where it was printed. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
