import { LockUnavailableError, messageOf } from '../../core/errors.js';
import type { QuorumNode } from './quorum-node.js';
import type { NodeHeld, NodeVote } from './quorum-scripts.js';
import { majorityOf } from './quorum-vote.js';

/** What one node replied: its vote, another reply (`answered`), an error, or nothing yet. */
export type Outcome = NodeVote | 'answered' | Error | undefined;

/** Returns whether another owner holds the lock on that node. */
export function isHeld(outcome: Outcome): outcome is NodeHeld {
  return typeof outcome === 'object' && 'status' in outcome && outcome.status === 'held';
}

/**
 * Returns the error for a request that no majority of the nodes has decided. Its cause lists the outcome of every node.
 * It is permanent if a majority is impossible because of permanent errors.
 */
export function noMajority(
  why: string,
  nodes: readonly QuorumNode[],
  outcomes: readonly Outcome[],
): LockUnavailableError {
  const errors = nodes.map(({ name }, i) => errorOf(name, outcomes[i]));
  const failures = errors.filter((_, i) => outcomes[i] === undefined || outcomes[i] instanceof Error);
  const answered = nodes.length - failures.length;
  const majority = majorityOf(nodes.length);
  const needed = answered < majority ? `, ${majority} are needed` : '';
  const count = `${answered} of ${nodes.length} nodes have answered${needed}`;
  const [first] = failures.map(messageOf);
  const message = `${why}: ${count}${first === undefined ? '' : `; ${first}`}`;
  const permanent = outcomes.filter((outcome) => outcome instanceof LockUnavailableError && outcome.permanent);
  return new LockUnavailableError(message, {
    cause: new AggregateError(errors, message),
    permanent: permanent.length > nodes.length - majority,
  });
}

function errorOf(name: string, outcome: Outcome): Error {
  if (outcome instanceof Error) return outcome;
  if (outcome === undefined) return new Error(`${name}: no reply yet`);
  if (outcome === 'answered') return new Error(`${name}: it has answered`);
  if (outcome.status === 'granted') return new Error(`${name}: the lock was given, and is given back`);
  return new Error(`${name}: the lock is held by others, for another ${outcome.remainingMs} ms`);
}
