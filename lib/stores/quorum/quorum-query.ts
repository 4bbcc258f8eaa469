import type { HolderInfo, LockState } from '../../core/store/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import { noMajority, type Outcome } from './quorum-errors.js';
import type { NodeLock } from './quorum-scripts.js';
import { type Ballot, Vote } from './quorum-vote.js';

/** What all nodes are asked, and what follows from their answers. */
export interface NodeQuery<Answer, Result> {
  readonly ask: (node: QuorumNode) => Promise<Answer>;
  readonly ballotOf: (answer: Answer) => Ballot;
  /** Undefined while that cannot be told. */
  readonly decide: (vote: Vote, answers: readonly Answer[]) => Result | undefined;
}

/** Asks all nodes at once, and answers as soon as that is decided; rejects with `LockUnavailableError` if it cannot be. */
export function queryNodes<Answer, Result>(
  nodes: readonly QuorumNode[],
  subject: string,
  { ask, ballotOf, decide }: NodeQuery<Answer, Result>,
): Promise<Result> {
  const vote = new Vote(nodes.length);
  const answers: Answer[] = [];
  const outcomes: Outcome[] = nodes.map(() => undefined);
  return new Promise((resolve, reject) => {
    const cast = (node: number, ballot: Ballot, outcome: Outcome): void => {
      outcomes[node] = outcome;
      vote.cast(node, ballot);
      const result = decide(vote, answers);
      if (result !== undefined) resolve(result);
      else if (vote.unreachable)
        reject(noMajority(`${subject} got no answer of use from a majority of the nodes`, nodes, outcomes));
      else if (vote.complete)
        reject(noMajority(`${subject} got answers of which no ${vote.majority} agree`, nodes, outcomes));
    };
    for (const [i, node] of nodes.entries()) {
      const answered = (answer: Answer): void => {
        answers.push(answer);
        cast(i, ballotOf(answer), 'answered');
      };
      ask(node).then(answered, (error: Error) => cast(i, 'silent', error));
    }
  });
}

/**
 * Who holds a lock that nodes were looked at for: whoever has a majority, or may have one among those that are silent. Of those
 * who share it, all; that is told when nobody can join them any more.
 */
export function holderOf(vote: Vote, answers: readonly (readonly NodeLock[])[]): LockState | null | undefined {
  const missing = vote.count(undefined);
  const unheard = missing + vote.count('silent');
  const possible = holdsIn(answers).filter(({ length }) => length + unheard >= vote.majority);
  if (possible.length === 0) return vote.reached ? null : undefined;
  const certain = possible.filter(({ length }) => length >= vote.majority);
  const isAll = certain.length === possible.length || missing === 0 || certain[0]?.[0].mode === 'exclusive';
  if (certain.length > 0 && isAll) return stateOf(certain, vote.majority);
  return vote.complete && vote.reached ? stateOf(possible, vote.majority) : undefined;
}

/** What nodes have of each owner, who has the most of them first. */
function holdsIn(answers: readonly (readonly NodeLock[])[]): readonly (readonly NodeLock[])[] {
  const perOwner = new Map<string, NodeLock[]>();
  for (const lock of answers.flat()) perOwner.set(lock.owner, [...(perOwner.get(lock.owner) ?? []), lock]);
  return [...perOwner.values()].toSorted((one, other) => other.length - one.length);
}

function stateOf([first, ...rest]: readonly (readonly NodeLock[])[], majority: number): LockState {
  const [{ mode }] = first;
  const others = mode === 'shared' ? rest.filter(([other]) => other.mode === mode) : [];
  return { ...infoOf(first, majority), mode, others: others.map((locks) => infoOf(locks, majority)) };
}

/** Its lease lasts as long as it has a majority. */
function infoOf(locks: readonly NodeLock[], majority: number): HolderInfo {
  const leases = locks.map(({ remainingMs }) => remainingMs).toSorted((one, other) => other - one);
  const tokens = locks.flatMap(({ token }) => token ?? []);
  return {
    holder: locks[0].holder,
    remainingMs: leases[Math.min(majority, leases.length) - 1],
    token: tokens.length === 0 ? undefined : Math.max(...tokens),
  };
}
