import { describe, expect, it } from '@jest/globals';
import { stateFrom } from '../../../../lib/stores/quorum/quorum-query.js';
import type { NodeLock } from '../../../../lib/stores/quorum/quorum-scripts.js';
import { type Ballot, Vote } from '../../../../lib/stores/quorum/quorum-vote.js';

function voteOf(nodes: number, ballots: readonly Ballot[]): Vote {
  const vote = new Vote(nodes);
  for (const [node, ballot] of ballots.entries()) vote.cast(node, ballot);
  return vote;
}

const facts = ({ carried, cannotCarry, defeated, replied, unreachable, complete }: Vote): string =>
  Object.entries({ carried, cannotCarry, defeated, replied, unreachable, complete })
    .filter(([, holds]) => holds)
    .map(([fact]) => fact)
    .join(' ');

describe('a vote', () => {
  it.each<[number, Ballot[], string]>([
    [3, [], ''],
    [3, ['yes'], ''],
    [3, ['yes', 'yes'], 'carried replied'],
    [3, ['yes', 'no'], 'replied'],
    [3, ['no', 'no'], 'cannotCarry defeated replied'],
    [3, ['no-reply', 'no-reply'], 'cannotCarry unreachable'],
    [3, ['no', 'no-reply'], 'cannotCarry'],
    [3, ['no', 'no-reply', 'no-reply'], 'cannotCarry unreachable complete'],
    [3, ['no', 'no-reply', 'yes'], 'cannotCarry replied complete'],
    [5, ['yes', 'yes', 'no', 'no'], 'replied'],
    [5, ['yes', 'yes', 'yes'], 'carried replied'],
    [5, ['yes', 'yes', 'no', 'no-reply'], 'replied'],
    [5, ['yes', 'yes', 'no', 'no-reply', 'no-reply'], 'cannotCarry replied complete'],
    [5, ['no-reply', 'no-reply', 'yes', 'yes', 'yes'], 'carried replied complete'],
    [5, ['no', 'no', 'no-reply'], 'cannotCarry'],
    [5, ['granted', 'granted', 'granted'], 'replied'],
    [5, ['granted', 'granted', 'granted', 'no', 'no'], 'replied complete'],
    [7, ['no', 'no', 'no', 'no-reply'], 'cannotCarry'],
    [7, ['no', 'no', 'no', 'no'], 'cannotCarry defeated replied'],
  ])('of %i nodes with %j is: %s', (nodes, ballots, expected) => {
    expect(facts(voteOf(nodes, ballots))).toBe(expected);
  });

  it('counts the last ballot of each node', () => {
    const vote = voteOf(3, ['granted', 'granted']);
    expect([vote.count('granted'), vote.count(undefined), vote.of(2)]).toEqual([2, 1, undefined]);
    vote.cast(0, 'yes');
    vote.cast(1, 'yes');
    expect(facts(vote)).toBe('carried replied');
  });

  it('is decided when it is complete: carried or not, replied or unreachable', () => {
    const kinds: Ballot[] = ['yes', 'no', 'no-reply'];
    const all = (left: number): Ballot[][] =>
      left === 0 ? [[]] : all(left - 1).flatMap((head) => kinds.map((kind) => [...head, kind]));
    const undecided = [3, 5, 7].flatMap(all).filter((ballots) => {
      const vote = voteOf(ballots.length, ballots);
      return vote.carried === vote.cannotCarry || vote.replied === vote.unreachable;
    });
    expect(undecided).toEqual([]);
  });

  // So a holder with a majority is the only holder that a refused request has seen.
  it.each([3, 5, 7])('of %i nodes is over before more than a majority has said no', (nodes) => {
    const next = new Map<string, Ballot[]>([
      ['', ['granted', 'yes', 'no', 'no-reply']],
      ['granted', ['yes', 'no', 'no-reply']],
      ['no-reply', ['granted', 'no']],
    ]);
    const seen = new Set<string>();
    const mostRefusals: number[] = [];
    const walk = (ballots: readonly string[]): void => {
      const state = ballots.toSorted();
      if (seen.has(state.join())) return;
      seen.add(state.join());
      const vote = new Vote(nodes);
      for (const [node, ballot] of state.entries()) if (ballot !== '') vote.cast(node, ballot as Ballot);
      if (vote.carried) return;
      if (vote.cannotCarry && vote.replied) return void mostRefusals.push(vote.count('no') - vote.majority);
      for (const [node, ballot] of state.entries())
        for (const cast of next.get(ballot) ?? []) walk(state.with(node, cast));
    };
    walk(Array.from({ length: nodes }, () => ''));
    expect(Math.max(...mostRefusals)).toBe(0);
  });
});

describe('the state of a lock on a quorum', () => {
  const lockOf = (name: string, remainingMs = 1_000): NodeLock => {
    return { owner: `${name}:1`, holder: name, remainingMs, token: 5 };
  };
  const [ann, bob] = [lockOf('ann'), lockOf('bob')];

  type Reply = NodeLock | null | 'no-reply';

  function stateAfter(nodes: number, replies: readonly Reply[]): ReturnType<typeof stateFrom> {
    const vote = voteOf(
      nodes,
      replies.map((reply) => (reply === 'no-reply' ? 'no-reply' : 'yes')),
    );
    return stateFrom(
      vote,
      replies.filter((reply) => reply !== 'no-reply'),
    );
  }

  it.each<[string, number, readonly Reply[], string | null | undefined]>([
    ['is held by an owner with a majority', 3, [ann, ann], 'ann'],
    ['is held by the only owner that may have a majority', 5, [ann, ann, bob, 'no-reply', 'no-reply'], 'ann'],
    ['is free if a majority has no holder', 3, [null, null], null],
    ['is free if its holder cannot have a majority', 3, [ann, null, null], null],
    ['is free if no holder can have a majority', 3, [ann, bob, null], null],
    ['is open while the holder may have a majority', 3, [ann, null], undefined],
    ['is open while nobody has replied', 3, [], undefined],
    ['is open if no majority replies', 3, [ann, 'no-reply', 'no-reply'], undefined],
    ['is held by an owner that may have a majority with a node that does not reply', 3, [ann, null, 'no-reply'], 'ann'],
  ])('%s', (_case, nodes, replies, holder) => {
    const state = stateAfter(nodes, replies);
    expect(state === null ? null : state?.holder).toBe(holder);
  });

  it('has the lease that a majority keeps', () => {
    const leases = [1_000, 500, 100].map((ms) => lockOf('ann', ms));
    expect(stateAfter(3, leases)).toMatchObject({ holder: 'ann', remainingMs: 500 });
  });
});
