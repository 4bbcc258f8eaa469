import { describe, expect, it } from '@jest/globals';
import { testRedisUrl } from '../support/shared-redis.js';
import { noOwnerCheck } from '../support/model-checker/broken.js';
import { exchangesByHand } from '../support/model-checker/by-hand.js';
import { Samples } from '../support/model-checker/exchange.js';
import { replay } from '../support/model-checker/verdict.js';

describe('the table in memory', () => {
  it('does what the scripts do, even in states that no run reaches', async () => {
    const samples = new Samples();
    for (const exchange of exchangesByHand()) samples.add(exchange);
    expect(samples.seen.size).toBeGreaterThan(500);
    expect(await replay(samples, testRedisUrl())).toEqual([]);
  });

  it('is found out where it does something else', async () => {
    const samples = new Samples();
    for (const exchange of exchangesByHand(noOwnerCheck.table)) {
      // The broken table does releases differently, and nothing else.
      if (exchange.request.verb === 'release') samples.add(exchange);
    }
    expect(await replay(samples, testRedisUrl())).not.toEqual([]);
  });
});
