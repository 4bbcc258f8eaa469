import type { HolderInfo, LockMode, LockState } from '../../core/store/lock-store.js';
import { noMajority, type Outcome } from './quorum-errors.js';
import type { QuorumNode } from './quorum-node.js';
import type { NodeLock } from './quorum-scripts.js';
import { type Ballot, Vote } from './quorum-vote.js';

/** A request to all nodes, and how their replies make one result. */
export interface NodeQuery<Reply, Result> {
  readonly send: (node: QuorumNode) => Promise<Reply>;
  /** Default: every reply is a yes. */
  readonly ballotOf?: (reply: Reply) => Ballot;
  /** Returns the result. Undefined while the replies do not decide it. */
  readonly decide: (vote: Vote, replies: readonly Reply[]) => Result | undefined;
}

/**
 * Sends a request to all nodes at once and returns the result as soon as the replies decide it. Rejects with
 * `LockUnavailableError` once all nodes have replied or failed without a decision.
 */
export function queryNodes<Reply, Result>(
  nodes: readonly QuorumNode[],
  subject: string,
  { send, ballotOf = () => 'yes', decide }: NodeQuery<Reply, Result>,
): Promise<Result> {
  const vote = new Vote(nodes.length);
  const replies: Reply[] = [];
  const outcomes: Outcome[] = nodes.map(() => undefined);
  return new Promise((resolve, reject) => {
    const cast = (node: number, ballot: Ballot, outcome: Outcome): void => {
      outcomes[node] = outcome;
      vote.cast(node, ballot);
      const result = decide(vote, replies);
      if (result !== undefined) return resolve(result);
      // The error says what each node replied, so it waits for all of them.
      if (!vote.complete) return;
      const why = vote.unreachable
        ? 'got no usable reply from a majority of the nodes'
        : `got no ${vote.majority} replies that agree`;
      reject(noMajority(`${subject} ${why}`, nodes, outcomes));
    };
    for (const [i, node] of nodes.entries()) {
      const onReply = (reply: Reply): void => {
        replies.push(reply);
        cast(i, ballotOf(reply), 'answered');
      };
      send(node).then(onReply, (error: Error) => cast(i, 'no-reply', error));
    }
  });
}

/**
 * Returns the state of a lock from the replies of the inspected nodes: null if it is free, undefined while that is
 * open. A holder has a majority of the nodes, or may have one together with nodes that did not reply. The holders of a
 * shared lock are returned together, as soon as no further holder is possible.
 */
export function stateFrom(vote: Vote, replies: readonly (readonly NodeLock[])[]): LockState | null | undefined {
  const missing = vote.count(undefined);
  const possible = possibleLocks(vote, replies);
  if (possible.length === 0) return vote.replied ? null : undefined;
  const certain = possible.filter(({ length }) => length >= vote.majority);
  const isAll = certain.length === possible.length || missing === 0 || certain[0]?.[0].mode === 'exclusive';
  if (certain.length > 0 && isAll) return stateOf(certain, vote.majority);
  return vote.complete && vote.replied ? stateOf(possible, vote.majority) : undefined;
}

/** An owner that holds a lock. */
export interface QuorumHolder extends HolderInfo {
  readonly owner: string;
  readonly mode: LockMode;
}

/**
 * Returns the owners that hold a lock, or may hold it together with nodes that did not reply. Undefined while replies
 * are missing that can change it.
 */
export function holdersFrom(
  vote: Vote,
  replies: readonly (readonly NodeLock[])[],
): readonly QuorumHolder[] | undefined {
  const possible = possibleLocks(vote, replies);
  const isKnown = vote.count(undefined) === 0 || possible.every(({ length }) => length >= vote.majority);
  // An owner that is on none of these nodes has no majority.
  if (!vote.replied || !isKnown) return undefined;
  return possible.map((locks) => ({ ...holderOf(locks, vote.majority), owner: locks[0].owner, mode: locks[0].mode }));
}

/**
 * Returns what the nodes keep of each owner that has a majority, or may have one together with nodes that did not
 * reply. The owner with the most nodes comes first.
 */
function possibleLocks(vote: Vote, replies: readonly (readonly NodeLock[])[]): readonly (readonly NodeLock[])[] {
  const byOwner = new Map<string, NodeLock[]>();
  for (const lock of replies.flat()) byOwner.set(lock.owner, [...(byOwner.get(lock.owner) ?? []), lock]);
  const unknown = vote.count(undefined) + vote.count('no-reply');
  const possible = [...byOwner.values()].filter(({ length }) => length + unknown >= vote.majority);
  return possible.toSorted((one, other) => other.length - one.length);
}

function stateOf([first, ...rest]: readonly (readonly NodeLock[])[], majority: number): LockState {
  const [{ mode }] = first;
  const others = mode === 'shared' ? rest.filter(([other]) => other.mode === mode) : [];
  return { ...holderOf(first, majority), mode, others: others.map((locks) => holderOf(locks, majority)) };
}

/** Returns one holder. Its lease lasts as long as it has a majority. */
function holderOf(locks: readonly NodeLock[], majority: number): HolderInfo {
  const leases = locks.map(({ remainingMs }) => remainingMs).toSorted((one, other) => other - one);
  const tokens = locks.flatMap(({ token }) => token ?? []);
  const [{ holder, wireVersion }] = locks;
  return {
    holder,
    remainingMs: leases[Math.min(majority, leases.length) - 1],
    token: tokens.length === 0 ? undefined : Math.max(...tokens),
    ...(wireVersion !== undefined && { wireVersion }),
  };
}
