import { describe, expect, it } from '@jest/globals';
import { BREAKS } from './broken.js';
import { accepts, isInstalled, simulate } from './quint.js';
import { record, type Trace } from './traces.js';

const MISSING = 'Quint is not installed: npm ci --prefix labs/spec --ignore-scripts';
const LIMIT_MS = 300_000;

/** Wraps a test. Without Quint it prints that the test did not run. In CI it fails. */
function onQuint(body: () => Promise<void>): () => Promise<void> {
  if (isInstalled()) return body;
  return () => {
    if (process.env['CI'] === 'true') throw new Error(MISSING);
    process.stdout.write(`NOT RUN, because ${MISSING}: ${expect.getState().currentTestName}\n`);
    return Promise.resolve();
  };
}

async function someTraces(): Promise<readonly Trace[]> {
  const traces: Trace[] = [];
  for (let seed = 1; seed <= 6; seed += 1) traces.push(...(await record(seed, { calls: 12 })));
  return traces;
}

// `npm run spec` does more of each.
describe('the specification of the protocol', () => {
  it(
    'keeps its invariants in random runs',
    onQuint(async () => {
      expect(await simulate(50, 80, 2)).toContain('[ok] No violation found');
    }),
    LIMIT_MS,
  );

  it(
    'accepts what the explorer does',
    onQuint(async () => {
      const traces = await someTraces();
      expect(await accepts(traces)).toEqual(traces.map(() => true));
    }),
    LIMIT_MS,
  );

  it(
    'rejects traces with a wrong step',
    onQuint(async () => {
      const traces = await someTraces();
      const broken = Object.values(BREAKS).flatMap((breakOne) => {
        return traces.map((trace) => breakOne(trace)).filter((trace) => trace !== undefined);
      });
      expect(broken.length).toBeGreaterThan(40);
      expect(await accepts(broken)).toEqual(broken.map(() => false));
    }),
    LIMIT_MS,
  );
});
