import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { ForcedReleases } from '../../../../lib/stores/token/forced-releases.js';
import type { TokenTopology } from '../../../../lib/stores/token/token-topology.js';
import { outcome } from '../../../support/async.js';

it('a notice that a client refuses by a throw ends its repeats, and nothing else', async () => {
  const replies: unknown[] = [{ held: 'one:1', token: 17 }, [], { ended: 1, more: false, unnotified: ['one:1'] }];
  const sendToNode = (): Promise<unknown> => {
    const reply = replies.shift();
    if (reply === undefined) throw new Error('the client throws in place of a rejection');
    return Promise.resolve(reply);
  };
  const topology = { keysOf: () => ['lock', 'fence', 'queue'], handoffArgs: () => [], sendToNode };
  const clock = new ManualClock();
  const requests = { flush: () => undefined, handOffMore: () => undefined };
  const forced = new ForcedReleases(topology as unknown as TokenTopology, clock, 1_000, requests);
  expect(await forced.release({ key: 'lock', ifToken: 17, handoffMs: 1_000, tokens: 1 })).toBe(true);
  const notified = outcome(forced.notified());
  await clock.advance(1_000);
  expect(notified).toEqual({ value: undefined });
});
