import { expect, it } from '@jest/globals';
import { probeDelayMs } from '../../../../lib/redis/pubsub/probe-delay.js';

it('a probe that did not arrive doubles the time of the next one, up to 5 s', () => {
  expect([0, 1, 2, 3, 50].map((failed) => probeDelayMs(1_000, failed))).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
});

it('a probe may take requestTimeoutMs, even if that is longer', () => {
  expect([0, 1, 5].map((failed) => probeDelayMs(8_000, failed))).toEqual([8_000, 8_000, 8_000]);
});
