import { describe, expect, it } from '@jest/globals';
import { scenariosFor } from '../support/simulation/scenarios.js';
import { type Scenario, simulate } from '../support/simulation/simulate.js';

const COSTS = { acquireUs: 16, joinUs: 22, repeatUs: 25, extendUs: 11, releaseUs: 12, handoffUs: 33, sharerUs: 13 };
const [oneKey, , manyKeys, readers] = scenariosFor(200);

const run = (scenario: Scenario, seed = 1) => simulate(scenario, COSTS, seed);

describe('the simulation', () => {
  it('is the same again with the same seed, and another one with another', async () => {
    const [first, second, third] = [await run(oneKey), await run(oneKey), await run(oneKey, 2)];
    expect(second).toEqual(first);
    expect(third).not.toEqual(first);
  });

  it('serves all, one after the other, without many repeated requests', async () => {
    const { locks, servedMs, waiting, longestQueue } = await run({ ...oneKey, instances: 100 });
    expect(locks).toBe(100);
    expect(servedMs).toBeGreaterThan(100);
    expect(longestQueue).toBe(100);
    // Eight at 1.3 a second, the others at 0.7. It would be 133 if each repeated its request within 1 s.
    expect(waiting?.repeats).toBeLessThan(80);
  });

  it('serves readers together, and spreads keys over the masters', async () => {
    const [together, spread] = [await run(readers), await run(manyKeys)];
    expect(together.locks).toBe(200);
    expect(together.servedMs).toBeLessThan(200);
    expect(spread.locks).toBe(2_000);
    const [busiest] = [spread.serving.requests * (spread.servedMs / 1_000)];
    expect(busiest).toBeLessThan(spread.locks * spread.requestsPerLock * 0.7);
  });
});
