import type { HolderInfo, LockState } from '../../core/store/lock-store.js';
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
 * open. The holder has a majority of the nodes, or may have one together with nodes that did not reply.
 */
export function stateFrom(vote: Vote, replies: readonly (NodeLock | null)[]): LockState | null | undefined {
  const locks = locksOfLikeliestOwner(replies);
  const unknown = vote.count(undefined) + vote.count('no-reply');
  if (locks.length + unknown < vote.majority) return vote.replied ? null : undefined;
  const isDecided = locks.length >= vote.majority || (vote.complete && vote.replied);
  return isDecided ? holderOf(locks, vote.majority) : undefined;
}

/** Returns what the nodes keep of the owner that is on most of them. Empty if the lock is free on all. */
function locksOfLikeliestOwner(replies: readonly (NodeLock | null)[]): readonly NodeLock[] {
  const byOwner = new Map<string, NodeLock[]>();
  for (const lock of replies) {
    if (lock !== null) byOwner.set(lock.owner, [...(byOwner.get(lock.owner) ?? []), lock]);
  }
  return [...byOwner.values()].reduce((most, locks) => (locks.length > most.length ? locks : most), []);
}

/** Returns the holder. Its lease lasts as long as it has a majority. */
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
