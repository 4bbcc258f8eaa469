import { describe, expect, it } from '@jest/globals';
import type { NodeLock } from '../../../../lib/stores/quorum/node-lock.js';
import { majorityOf, type Outcome, verdictOf } from '../../../../lib/stores/quorum/poll.js';
import { heldReplyOf, stateOf } from '../../../../lib/stores/quorum/quorum-state.js';

const lockOf = (name: string, remainingMs = 1_000): NodeLock => {
  return { ballot: `${name}:1 1`, instanceId: name, remainingMs, token: 5, wireVersion: undefined };
};
const [ann, bob] = [lockOf('ann'), lockOf('bob')];
const failed = new Error('no reply');

describe('the state of a lock on a quorum', () => {
  it.each<[string, readonly Outcome<NodeLock | null>[], string | null | undefined]>([
    ['is held by an owner with a majority', [ann, ann, undefined], 'ann'],
    ['is held by the only owner that may have a majority', [ann, ann, bob, failed, failed], 'ann'],
    ['is free if a majority has no holder', [null, null, undefined], null],
    ['is free if its holder cannot have a majority', [ann, null, null], null],
    ['is free if no holder can have a majority', [ann, bob, null], null],
    ['is open while the holder may have a majority', [ann, null, undefined], undefined],
    ['is open while nobody has replied', [undefined, undefined, undefined], undefined],
    ['is open if no majority replies', [ann, failed, failed], undefined],
    ['is held by an owner that may have a majority with a node that does not reply', [ann, null, failed], 'ann'],
  ])('%s', (_case, outcomes, holder) => {
    const state = stateOf(outcomes);
    expect(state === null ? null : state?.holder).toBe(holder);
  });

  it('has the lease that a majority keeps', () => {
    const leases = [1_000, 500, 100].map((ms) => lockOf('ann', ms));
    expect(stateOf(leases)).toMatchObject({ holder: 'ann', remainingMs: 500 });
  });
});

describe('the reply to an owner without a majority', () => {
  it.each<[string, Parameters<typeof heldReplyOf>, string | undefined, number | undefined]>([
    ['names a holder with a majority, and when a majority is free', [[ann, lockOf('ann', 400)], 3, 0], 'ann', 1_000],
    ['says when one more node is free', [[ann, lockOf('ann', 400)], 3, 1], 'ann', 400],
    ['names nobody who may have a majority', [[ann], 3, 1], undefined, 1_000],
    ['has no time if the vote is split', [[ann, bob], 3, 1], undefined, undefined],
    ['names nobody if all nodes are given back', [[], 3, 3], undefined, undefined],
  ])('%s', (_case, given, instanceId, remainingMs) => {
    const reply = heldReplyOf(...given);
    expect([reply.holder?.instanceId, reply.remainingMs]).toEqual([instanceId, remainingMs]);
  });
});

describe('the verdict of a majority', () => {
  it.each<[string, readonly Outcome<boolean>[], boolean | undefined]>([
    ['is true if a majority says yes', [true, true, undefined], true],
    ['is false if a majority cannot say yes', [false, undefined, false], false],
    ['is open while a reply is missing', [true, false, undefined], undefined],
    ['is open without a reply that decides', [true, false, failed], undefined],
    ['is open if nobody replies', [failed, failed, failed], undefined],
  ])('%s', (_case, outcomes, verdict) => {
    expect(verdictOf(outcomes)).toBe(verdict);
  });

  it.each([3, 5, 7])('has a node in common with any other of %i', (nodes) => {
    expect(2 * majorityOf(nodes)).toBeGreaterThan(nodes);
  });
});
