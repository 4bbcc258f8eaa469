import { describe, expect, it } from '@jest/globals';
import { holderOf } from '../../../../lib/stores/quorum/quorum-query.js';
import type { NodeLock } from '../../../../lib/stores/quorum/quorum-scripts.js';
import { Vote } from '../../../../lib/stores/quorum/quorum-vote.js';

const of =
  (mode: 'exclusive' | 'shared') =>
  (name: string, remainingMs = 1_000): NodeLock => ({ owner: `${name}:1`, holder: name, mode, remainingMs, token: 5 });
const reader = of('shared');
const writer = of('exclusive');

/** What is told after these answers: what a node has, or that it is silent. */
function told(nodes: number, answers: readonly (readonly NodeLock[] | 'silent')[]): string | undefined {
  const vote = new Vote(nodes);
  for (const [node, answer] of answers.entries()) vote.cast(node, answer === 'silent' ? 'silent' : 'yes');
  const state = holderOf(
    vote,
    answers.filter((answer) => answer !== 'silent'),
  );
  if (state === undefined) return 'not yet';
  if (state === null) return 'nobody';
  return [state, ...(state.others ?? [])].map(({ holder }) => holder).join(' ') + ` ${state.mode}`;
}

const [ann, bob] = [reader('ann'), reader('bob')];

describe('who holds a lock on a quorum', () => {
  it.each<[string, number, (readonly NodeLock[] | 'silent')[], string]>([
    ['a majority of one is enough', 3, [[writer('ann')], [writer('ann')]], 'ann exclusive'],
    ['a majority that has none, too', 3, [[], []], 'nobody'],
    ['readers are told when it is known who else is one', 3, [[ann, bob], [ann]], 'not yet'],
    ['by the last node', 3, [[ann, bob], [ann], [bob]], 'ann bob shared'],
    ['or because it cannot be a majority any more', 3, [[ann, bob], [ann], [ann]], 'ann shared'],
    ['also where it will not say', 3, [[ann, bob], [ann], 'silent'], 'ann shared'],
    [
      'readers whom all know of are told at once',
      3,
      [
        [ann, bob],
        [bob, ann],
      ],
      'ann bob shared',
    ],
    ['a reader on one node alone is none', 3, [[ann], [], []], 'nobody'],
    ['but may be where another is silent', 3, [[ann], [], 'silent'], 'ann shared'],
    [
      'a reader is not told beside one who may have it alone',
      5,
      [[writer('ann')], [writer('ann')], [bob], 'silent', 'silent'],
      'ann exclusive',
    ],
  ])('%s', (_case, nodes, answers, expected) => {
    expect(told(nodes, answers)).toBe(expected);
  });

  it('each has its lease for as long as it has a majority', () => {
    const vote = new Vote(3);
    for (const node of [0, 1, 2]) vote.cast(node, 'yes');
    const answers = [1_000, 500, 100].map((ms) => [reader('ann', ms), reader('bob', ms * 2)]);
    expect(holderOf(vote, answers)).toMatchObject({ remainingMs: 500, others: [{ remainingMs: 1_000 }] });
  });
});
