import { Logger } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { QuorumRun } from './quorum-run.js';

Logger.overrideLogger(false);

/** Others are tried with SEEDS=<how many> FIRST=<from which on>. */
const { SEEDS = '15', FIRST = '1' } = process.env;
const seeds = Array.from({ length: Number(SEEDS) }, (_, i) => Number(FIRST) + i);

describe('the quorum store, whatever is lost, late, resent or stopped', () => {
  it.each(seeds)(
    'has one holder, or several that share, rising tokens, and remembers nothing in the end: seed %i',
    async (seed) => {
      const run = new QuorumRun(seed, seed % 2 === 0 ? 3 : 5, 3);
      await run.run(120);
      expect(run.grants).toBeGreaterThan(0);
      expect(run.together).toBeGreaterThan(0);
      await run.visitAll();
      expect(run.violations).toEqual([]);
      expect(run.remembered).toBe(0);
    },
  );
});
