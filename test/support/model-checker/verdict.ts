import { uniquePrefix } from '../shared-redis.js';
import { Samples } from './exchange.js';
import { explore, type Progress } from './explore.js';
import { LuaReplay } from './lua-replay.js';
import { told } from './rerun.js';
import type { Scenario } from './scenario.js';

/** What came of a scenario. */
export interface Verdict {
  readonly states: number;
  readonly transitions: number;
  readonly ends: number;
  readonly longestRun: number;
  readonly slowestEndMs: number;
  /** How many different requests were run on different states of the server. */
  readonly exchanges: number;
  /** How long the exploration took, without the comparison with Redis. */
  readonly seconds: number;
  /** The shortest way to a violation. */
  readonly violation: string | undefined;
  /** What the scripts do differently from the table. */
  readonly differences: readonly string[];
}

/** Explores a scenario, and compares everything that was asked in it with the Redis at `redisUrl`. */
export async function examine(
  scenario: Scenario,
  redisUrl: string,
  onProgress?: (progress: Progress) => void,
): Promise<Verdict> {
  const begin = performance.now();
  const samples = new Samples();
  const { violation, leaves, ...found } = numbersOf(explore(scenario, (exchange) => samples.add(exchange), onProgress));
  const seconds = (performance.now() - begin) / 1_000;
  return {
    ...found,
    ends: leaves,
    seconds,
    exchanges: samples.seen.size,
    violation: violation && told(scenario, violation),
    differences: await replay(samples, redisUrl),
  };
}

/** Without the explorer itself, which keeps all states. */
function numbersOf(found: ReturnType<typeof explore>): ReturnType<typeof explore> {
  const { states, transitions, leaves, longestRun, slowestEndMs, violation } = found;
  return { states, transitions, leaves, longestRun, slowestEndMs, violation };
}

/** Returns what the scripts do differently. */
export async function replay(samples: Samples, redisUrl: string): Promise<string[]> {
  const lua = new LuaReplay(redisUrl, uniquePrefix());
  try {
    return await lua.run([...samples.seen.values()]);
  } finally {
    await lua.close();
  }
}
