import { expect, it } from '@jest/globals';
import { runSeeds } from '../support/whole-engine/campaign.js';

/** `npm test` runs the seeds before these. `npm run simulate -- --faults` runs many more. */
const FROM = 1_000_000;
const SEEDS = 5_000;

it(`the whole engine keeps its promises in ${SEEDS} runs with faults`, async () => {
  const { runs, failure } = await runSeeds(FROM, (campaign) => campaign.runs >= SEEDS);
  expect(failure).toBeUndefined();
  expect(runs).toBe(SEEDS);
});
