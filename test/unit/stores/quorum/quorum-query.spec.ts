import { describe, expect, it } from '@jest/globals';
import { holdersFrom, stateFrom } from '../../../../lib/stores/quorum/quorum-query.js';
import type { NodeLock } from '../../../../lib/stores/quorum/quorum-scripts.js';
import { Vote } from '../../../../lib/stores/quorum/quorum-vote.js';

const of =
  (mode: 'exclusive' | 'shared') =>
  (name: string, remainingMs = 1_000): NodeLock => ({ owner: `${name}:1`, holder: name, mode, remainingMs, token: 5 });
const reader = of('shared');
const writer = of('exclusive');

type Replies = readonly (readonly NodeLock[] | 'no-reply')[];

function voteOn(nodes: number, replies: Replies): [Vote, readonly (readonly NodeLock[])[]] {
  const vote = new Vote(nodes);
  for (const [node, reply] of replies.entries()) vote.cast(node, reply === 'no-reply' ? 'no-reply' : 'yes');
  return [vote, replies.filter((reply) => reply !== 'no-reply')];
}

/** Returns the holders and the mode after these replies. */
function stateAfter(nodes: number, replies: Replies): string | undefined {
  const state = stateFrom(...voteOn(nodes, replies));
  if (state === undefined) return 'not yet';
  if (state === null) return 'nobody';
  return [state, ...(state.others ?? [])].map(({ holder }) => holder).join(' ') + ` ${state.mode}`;
}

const [ann, bob] = [reader('ann'), reader('bob')];

describe('the state of a lock on a quorum', () => {
  it.each<[string, number, (readonly NodeLock[] | 'no-reply')[], string]>([
    ['is held by an owner with a majority', 3, [[writer('ann')], [writer('ann')]], 'ann exclusive'],
    ['is free if a majority has no holder', 3, [[], []], 'nobody'],
    ['is open while another reader may have a majority', 3, [[ann, bob], [ann]], 'not yet'],
    ['is decided by the last node', 3, [[ann, bob], [ann], [bob]], 'ann bob shared'],
    ['is decided if the other reader cannot have a majority', 3, [[ann, bob], [ann], [ann]], 'ann shared'],
    ['is decided if the last node does not reply', 3, [[ann, bob], [ann], 'no-reply'], 'ann shared'],
    [
      'is decided at once if a majority has all readers',
      3,
      [
        [ann, bob],
        [bob, ann],
      ],
      'ann bob shared',
    ],
    ['does not include a reader on one node', 3, [[ann], [], []], 'nobody'],
    ['includes a reader on one node if another does not reply', 3, [[ann], [], 'no-reply'], 'ann shared'],
    [
      'does not include a reader if a writer may hold the lock',
      5,
      [[writer('ann')], [writer('ann')], [bob], 'no-reply', 'no-reply'],
      'ann exclusive',
    ],
  ])('%s', (_case, nodes, replies, expected) => {
    expect(stateAfter(nodes, replies)).toBe(expected);
  });

  it('has the lease that a majority keeps, for each reader', () => {
    const vote = new Vote(3);
    for (const node of [0, 1, 2]) vote.cast(node, 'yes');
    const replies = [1_000, 500, 100].map((ms) => [reader('ann', ms), reader('bob', ms * 2)]);
    expect(stateFrom(vote, replies)).toMatchObject({ remainingMs: 500, others: [{ remainingMs: 1_000 }] });
  });
});

describe('the holders of a lock on a quorum', () => {
  it.each<[string, number, Replies, readonly string[] | undefined]>([
    ['are known by a majority', 3, [[writer('ann')], [writer('ann')]], ['ann:1']],
    ['are empty if a majority has none', 3, [[], []], []],
    ['are open without a majority', 3, [[writer('ann')]], undefined],
    ['are open while a node may add one', 3, [[ann, bob], [ann]], undefined],
    [
      'are all readers',
      3,
      [
        [ann, bob],
        [ann, bob],
      ],
      ['ann:1', 'bob:1'],
    ],
    ['leave out a reader on one node', 3, [[ann, bob], [ann], [ann]], ['ann:1']],
    ['include those that may have a majority', 3, [[ann], [], 'no-reply'], ['ann:1']],
    ['stay open if no majority replies', 3, [[ann], 'no-reply', 'no-reply'], undefined],
  ])('%s', (_case, nodes, replies, expected) => {
    expect(holdersFrom(...voteOn(nodes, replies))?.map(({ owner }) => owner)).toEqual(expected);
  });
});
