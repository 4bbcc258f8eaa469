import { describe, expect, it } from '@jest/globals';
import { testRedisUrl } from '../support/shared-redis.js';
import { noOwnerCheck } from './broken.js';
import { exchangesByHand } from './by-hand.js';
import { Samples } from './exchange.js';
import { replay } from './verdict.js';

describe('the table in memory', () => {
  it('does what the scripts do, also in states that no run comes to', async () => {
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
