import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { ForcedReleases } from '../../../../lib/stores/token/forced-releases.js';
import type { TokenTopology } from '../../../../lib/stores/token/token-topology.js';
import { outcome } from '../../../support/async.js';

const HOLDER = { held: 'one:1', token: 17 };
const ENDED = { ended: 1, more: false, unnotified: [] };
const REQUEST = { key: 'lock', ifToken: 17, handoffMs: 1_000, tokens: 1 };

function forcedReleases(clock: ManualClock, sendToNode: () => Promise<unknown>): ForcedReleases {
  const topology = { keysOf: () => ['lock', 'fence', 'queue'], handoffArgs: () => [], sendToNode };
  const requests = { flush: () => undefined, handOffMore: () => undefined };
  return new ForcedReleases(topology as unknown as TokenTopology, clock, 1_000, requests);
}

it('ends the hold if the process stood still before it read who holds the lock', async () => {
  const clock = new ManualClock();
  const replies: unknown[] = [HOLDER, [], ENDED];
  const forced = forcedReleases(clock, () => {
    clock.jump(2_000);
    return Promise.resolve(replies.shift());
  });
  expect(await forced.release(REQUEST)).toBe(true);
});

it('does not end a hold that it reads after the request timeout', async () => {
  const clock = new ManualClock();
  let reply: (holder: unknown) => void = () => undefined;
  const first = new Promise((resolve) => (reply = resolve));
  const replies = [first, Promise.resolve([]), Promise.resolve(ENDED)];
  const forced = forcedReleases(clock, () => replies.shift() as Promise<unknown>);
  const released = outcome(forced.release(REQUEST));
  await clock.advance(1_000);
  reply(HOLDER);
  await clock.advance(0);
  expect(released.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
  expect(replies).toHaveLength(1);
});

it('a notice that a client refuses by a throw ends its repeats, and nothing else', async () => {
  const replies: unknown[] = [HOLDER, [], { ...ENDED, unnotified: ['one:1'] }];
  const clock = new ManualClock();
  const forced = forcedReleases(clock, () => {
    const reply = replies.shift();
    if (reply === undefined) throw new Error('the client throws in place of a rejection');
    return Promise.resolve(reply);
  });
  expect(await forced.release(REQUEST)).toBe(true);
  const notified = outcome(forced.notified());
  await clock.advance(1_000);
  expect(notified).toStrictEqual({ value: undefined });
});

it('is notified when the holder has received a notice', async () => {
  const replies: unknown[] = [HOLDER, [], { ...ENDED, unnotified: ['one:1'] }, 0, 1];
  const clock = new ManualClock();
  const forced = forcedReleases(clock, () => Promise.resolve(replies.shift()));
  expect(await forced.release(REQUEST)).toBe(true);
  const notified = outcome(forced.notified());
  await clock.advance(10);
  expect([replies.length, notified]).toStrictEqual([1, {}]);
  await clock.advance(1_000);
  expect([replies.length, notified]).toStrictEqual([0, { value: undefined }]);
});
