import { Logger } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { QuorumRun } from '../support/model-checker/quorum-run.js';

Logger.overrideLogger(false);

/** Set SEEDS=<how many> and FIRST=<the first seed> to try others. */
const { SEEDS = '15', FIRST = '1' } = process.env;
const seeds = Array.from({ length: Number(SEEDS) }, (_, i) => Number(FIRST) + i);

describe('the quorum store with random faults', () => {
  it.each(seeds)('keeps exclusion and token order, and remembers nothing: seed %i', async (seed) => {
    const run = new QuorumRun(seed, seed % 2 === 0 ? 3 : 5, 3);
    await run.run(120);
    expect(run.grants).toBeGreaterThan(0);
    await run.visitAll();
    expect(run.violations).toEqual([]);
    expect(run.inFlightCount).toBe(0);
  });
});
