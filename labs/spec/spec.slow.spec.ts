import { beforeAll, describe, expect, it } from '@jest/globals';
import { BREAKS } from './broken.js';
import { accepts, install, simulate } from './quint.js';
import { record, type Trace } from './traces.js';

const LIMIT_MS = 300_000;

// `npm run spec` does more of each.
describe('the specification of the protocol', () => {
  const traces: Trace[] = [];

  beforeAll(async () => {
    await install();
    for (let seed = 1; seed <= 5; seed += 1) traces.push(...(await record(seed, { calls: 12 })));
  }, LIMIT_MS);

  it(
    'keeps its invariants in random runs',
    async () => {
      expect(await simulate(30, 80, 2)).toContain('[ok] No violation found');
    },
    LIMIT_MS,
  );

  it(
    'accepts what the explorer does',
    async () => {
      expect(await accepts(traces)).toEqual(traces.map(() => true));
    },
    LIMIT_MS,
  );

  it(
    'rejects traces with a wrong step',
    async () => {
      const broken = Object.entries(BREAKS).flatMap(([what, breakOne]) => {
        const changed = traces.map((trace) => breakOne(trace)).filter((trace) => trace !== undefined);
        return changed.map((trace) => ({ what, trace }));
      });
      expect(new Set(broken.map(({ what }) => what)).size).toBe(Object.keys(BREAKS).length);
      const isAccepted = await accepts(broken.map(({ trace }) => trace));
      expect(broken.filter((_, i) => isAccepted[i]).map(({ what }) => what)).toEqual([]);
    },
    LIMIT_MS,
  );
});
