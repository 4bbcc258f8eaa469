import { LockUnavailableError } from '../../core/errors.js';
import type { ListedLock, ListRequest } from '../../core/store/lock-listing.js';
import type { LockState } from '../../core/store/lock-state.js';
import { listLocks, type LockSource } from '../list-locks.js';
import { noMajority, type Outcome } from './quorum-errors.js';
import type { QuorumNode } from './quorum-node.js';
import { queryNodes, stateFrom } from './quorum-query.js';
import type { NodeLock } from './quorum-scripts.js';
import { majorityOf } from './quorum-vote.js';

/** The replies of one node about several keys. */
type Replies = Promise<readonly (readonly NodeLock[] | Error)[]>;

/**
 * Yields the locks that a majority of the nodes keeps, as an inspection decides. Every majority has a node in common
 * with every other one, so it is enough to scan one: `majority` nodes, one after the other. A node that fails is
 * replaced by another one.
 *
 * @throws LockUnavailableError if fewer than `majority` nodes could be scanned, or if no majority replied for a lock.
 */
export function listQuorum(nodes: readonly QuorumNode[], request: ListRequest): AsyncGenerator<ListedLock> {
  return listLocks(request, new QuorumListing(nodes, request));
}

class QuorumListing implements LockSource {
  readonly pages: AsyncIterable<readonly string[]>;
  /** What each node replied to its scan: all of its keys, or an error. */
  private readonly outcomes: Outcome[];
  /** The replies about the keys that were inspected last. */
  private inspected: { readonly keys: readonly string[]; readonly replies: ReadonlyMap<QuorumNode, Replies> };

  constructor(
    private readonly nodes: readonly QuorumNode[],
    request: ListRequest,
  ) {
    this.outcomes = nodes.map(() => undefined);
    this.inspected = { keys: [], replies: new Map() };
    this.pages = this.scanMajority(request);
  }

  inspectAll(keys: readonly string[]): Promise<readonly (LockState | null | Error)[]> {
    const { nodes } = this;
    const replies = new Map(nodes.map((node) => [node, node.inspectAll(keys)]));
    // A majority may decide before they fail.
    for (const reply of replies.values()) reply.catch(() => undefined);
    this.inspected = { keys, replies };
    const stateOf = (_: string, i: number): Promise<LockState | null | Error> => {
      const send = (node: QuorumNode) => replyOf(node, replies, i);
      return queryNodes(nodes, 'An inspection', { send, decide: stateFrom }).catch(mainError);
    };
    return Promise.all(keys.map(stateOf));
  }

  /** Returns whether a node that was scanned before keeps the lock: it was yielded then. */
  async isFoundElsewhere(key: string): Promise<boolean> {
    const { keys, replies } = this.inspected;
    const at = keys.indexOf(key);
    const scanned = this.nodes.filter((_, i) => this.outcomes[i] === 'answered');
    const kept = scanned.map((node) => replyOf(node, replies, at).catch((): readonly NodeLock[] => []));
    return (await Promise.all(kept)).some((locks) => locks.length > 0);
  }

  private async *scanMajority(request: ListRequest): AsyncGenerator<readonly string[]> {
    const { nodes, outcomes } = this;
    const isEnough = (): boolean =>
      outcomes.filter((outcome) => outcome === 'answered').length >= majorityOf(nodes.length);
    for (const [i, node] of nodes.entries()) {
      if (isEnough()) return;
      try {
        yield* node.scan(request);
        outcomes[i] = 'answered';
      } catch (error) {
        outcomes[i] = error as Error;
      }
    }
    if (!isEnough()) {
      throw noMajority('A listing of locks got no usable reply from a majority of the nodes', nodes, outcomes);
    }
  }
}

/** Returns what a node keeps of the lock. Rejects with a `LockUnavailableError` that names the node. */
async function replyOf(
  node: QuorumNode,
  replies: ReadonlyMap<QuorumNode, Replies>,
  nth: number,
): Promise<readonly NodeLock[]> {
  const reply = (await replies.get(node))?.[nth];
  if (reply === undefined || reply instanceof Error) throw node.errorOf(reply);
  return reply;
}

/** Returns the error of one node if it says that the key is not a lock, otherwise the error of all nodes. */
function mainError(error: LockUnavailableError): Error {
  const { cause } = error;
  const each: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [];
  const found = each.find((one) => one instanceof LockUnavailableError && one.refusal === 'WRONGTYPE');
  return found instanceof Error ? found : error;
}
