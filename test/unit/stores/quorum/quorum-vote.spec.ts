import { describe, expect, it } from '@jest/globals';
import { type Ballot, Vote } from '../../../../lib/stores/quorum/quorum-vote.js';

function voteOf(nodes: number, ballots: readonly Ballot[]): Vote {
  const vote = new Vote(nodes);
  for (const [node, ballot] of ballots.entries()) vote.cast(node, ballot);
  return vote;
}

const facts = ({ carried, hopeless, defeated, reached, unreachable, complete }: Vote): string =>
  Object.entries({ carried, hopeless, defeated, reached, unreachable, complete })
    .filter(([, holds]) => holds)
    .map(([fact]) => fact)
    .join(' ');

describe('a vote', () => {
  it.each<[number, Ballot[], string]>([
    [3, [], ''],
    [3, ['yes'], ''],
    [3, ['yes', 'yes'], 'carried reached'],
    [3, ['yes', 'no'], 'reached'],
    [3, ['no', 'no'], 'hopeless defeated reached'],
    [3, ['silent', 'silent'], 'hopeless unreachable'],
    [3, ['no', 'silent'], 'hopeless'],
    [3, ['no', 'silent', 'silent'], 'hopeless unreachable complete'],
    [3, ['no', 'silent', 'yes'], 'hopeless reached complete'],
    [5, ['yes', 'yes', 'no', 'no'], 'reached'],
    [5, ['yes', 'yes', 'yes'], 'carried reached'],
    [5, ['yes', 'yes', 'no', 'silent'], 'reached'],
    [5, ['yes', 'yes', 'no', 'silent', 'silent'], 'hopeless reached complete'],
    [5, ['silent', 'silent', 'yes', 'yes', 'yes'], 'carried reached complete'],
    [5, ['no', 'no', 'silent'], 'hopeless'],
    [5, ['given', 'given', 'given'], 'reached'],
    [5, ['given', 'given', 'given', 'no', 'no'], 'reached complete'],
    [7, ['no', 'no', 'no', 'silent'], 'hopeless'],
    [7, ['no', 'no', 'no', 'no'], 'hopeless defeated reached'],
  ])('of %i nodes with %j is: %s', (nodes, ballots, expected) => {
    expect(facts(voteOf(nodes, ballots))).toBe(expected);
  });

  it('counts what each node has said last', () => {
    const vote = voteOf(3, ['given', 'given']);
    expect([vote.count('given'), vote.count(undefined), vote.of(2)]).toEqual([2, 1, undefined]);
    vote.cast(0, 'yes');
    vote.cast(1, 'yes');
    expect(facts(vote)).toBe('carried reached');
  });

  it('is decided at the latest when it is complete: carried, or hopeless and reached or unreachable', () => {
    const kinds: Ballot[] = ['yes', 'no', 'silent'];
    const all = (left: number): Ballot[][] =>
      left === 0 ? [[]] : all(left - 1).flatMap((head) => kinds.map((kind) => [...head, kind]));
    for (const nodes of [3, 5, 7]) {
      for (const ballots of all(nodes)) {
        const vote = voteOf(nodes, ballots);
        expect(vote.carried).toBe(!vote.hopeless);
        expect(vote.reached).toBe(!vote.unreachable);
      }
    }
  });
});
