import { LockUnavailableError, messageOf } from '../../core/errors.js';
import type { QuorumNode } from './quorum-node.js';
import type { HeldThere, NodeVote } from './quorum-scripts.js';

/** What is known of one node's answer: its vote, that there is one, why there is none, or nothing yet. */
export type Outcome = NodeVote | 'answered' | Error | undefined;

/**
 * When the lock will be free on so many nodes more, if nobody renews. Undefined where none of those who have it somewhere can
 * have a majority: they are giving it back, and it is a matter of moments.
 */
export function freeIn(missing: number, majority: number, outcomes: readonly Outcome[]): number | undefined {
  const held = outcomes.filter(isHeld);
  const perHolder = new Map<string, number>();
  for (const { holder } of held) perHolder.set(holder, (perHolder.get(holder) ?? 0) + 1);
  const unknown = outcomes.filter((outcome) => outcome === undefined || outcome instanceof Error).length;
  if (Math.max(...perHolder.values()) + unknown < majority) return undefined;
  return held.map(({ remainingMs }) => remainingMs).toSorted((one, other) => one - other)[missing - 1];
}

/** No majority of the nodes could be asked, or could be told from what they have answered. The cause has what each of them has answered. */
export function noMajority(
  why: string,
  nodes: readonly QuorumNode[],
  outcomes: readonly Outcome[],
): LockUnavailableError {
  const errors = nodes.map(({ name }, i) => errorOf(name, outcomes[i]));
  const failures = errors.filter((_, i) => outcomes[i] === undefined || outcomes[i] instanceof Error);
  const answered = nodes.length - failures.length;
  const majority = Math.floor(nodes.length / 2) + 1;
  const needed = answered < majority ? `, ${majority} are needed` : '';
  const count = `${answered} of ${nodes.length} nodes have answered${needed}`;
  const [first] = failures.map(messageOf);
  const message = `${why}: ${count}${first === undefined ? '' : `; ${first}`}`;
  const refusedForGood = outcomes.filter((outcome) => outcome instanceof LockUnavailableError && outcome.permanent);
  return new LockUnavailableError(message, {
    cause: new AggregateError(errors, message),
    permanent: refusedForGood.length > nodes.length - majority,
  });
}

function errorOf(name: string, outcome: Outcome): Error {
  if (outcome instanceof Error) return outcome;
  if (outcome === undefined) return new Error(`${name}: no answer yet`);
  if (outcome === 'answered') return new Error(`${name}: it has answered`);
  if (outcome.status === 'given') return new Error(`${name}: the lock was given, and is given back`);
  return new Error(`${name}: the lock is held by others, for another ${outcome.remainingMs} ms`);
}

/** Others have it there. */
export function isHeld(outcome: Outcome): outcome is HeldThere {
  return typeof outcome === 'object' && 'status' in outcome && outcome.status === 'held';
}
