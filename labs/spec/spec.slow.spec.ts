import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Samples } from '../../test/support/model-checker/exchange.js';
import { noOwnerCheck } from '../../test/support/model-checker/broken.js';
import { explore, HERE, isInstalled } from './quint.js';
import { breaksWithout, rulesOf, runsOf } from './rules.js';
import { acceptedOf, record } from './traces.js';

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

// `npm run spec` does much more of each.
describe('the specification', () => {
  it(
    'holds in random runs',
    onQuint(async () => {
      expect(await explore(`${HERE}explore.qnt`, { samples: 20, steps: 80, seed: 2 })).toBeUndefined();
    }),
    LIMIT_MS,
  );

  it(
    'has a run for each rule, and one that is taken out breaks its invariant',
    onQuint(async () => {
      const rules = rulesOf(readFileSync(`${HERE}token.qnt`, 'utf8'));
      const failed = (await runsOf(rules)).flatMap(({ steps }, i) => (steps === undefined ? [rules[i].id] : []));
      expect([rules.length, failed]).toEqual([24, []]);
      expect(await breaksWithout(rules[0])).toBe(true);
    }),
    LIMIT_MS,
  );

  it(
    'accepts traces of the engine, and not all traces of a broken one',
    onQuint(async () => {
      expect(await acceptedOf(record(20, new Samples()))).toBe(20);
      expect(await acceptedOf(record(20, new Samples(), noOwnerCheck))).toBeLessThan(20);
    }),
    LIMIT_MS,
  );
});
