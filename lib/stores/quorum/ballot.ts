import type { Clock } from '../../clock/clock.js';
import type { AcquireReply, ExtendReply } from '../../contract/store.js';
import type { NodeVote } from './node-lock.js';
import { hasReplied, majorityOf, type Outcome, poll, verdictOf } from './poll.js';
import type { QuorumNode } from './quorum-node.js';
import { heldReplyOf } from './quorum-state.js';

/** How many tokens a grant has: one for the holder, and one for each caller to which it passes the lock. */
const TOKENS = 17;

/**
 * How far a proposed token is ahead of the latest known clock, in milliseconds. A request that arrives within this time
 * finds no node whose clock is later, so all nodes give the proposed token and no write-back is needed.
 */
const PROPOSAL_LEAD_MS = 50;

const ignore = (): void => undefined;

/**
 * One owner's request for a lock, on which the nodes vote, until its release. A refused ballot is released and never
 * used again, so no release ends what a later request of its owner has brought.
 *
 * Tokens rise because two majorities share a node. Before the lock is granted, each node of the majority has a fence at
 * or above the agreed token: by giving that token or a higher one, or by write-back (as in an ABD register) while the
 * ballot has the key. The shared node gives the next ballot a token above its fence. Clocks are not compared for this.
 */
export class Ballot {
  /** The nodes that may have given the lock. */
  private readonly mayHave = new Set<QuorumNode>();
  /** The tokens that nodes have given. */
  private given = new Map<QuorumNode, number>();
  /** The token on which a majority has agreed. */
  private token: number | undefined;
  /** Resolves with the token. Undefined if the ballot is over. */
  private agreed: Promise<number | undefined> = Promise.resolve(undefined);
  private agree: (token: number | undefined) => void = ignore;
  /** Whether it is refused or released. */
  isOver = false;
  private closedUntil = 0;

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
    private readonly key: string,
    /** Names the ballot on the nodes: the owner, and a number. */
    private readonly name: string,
  ) {}

  /**
   * Requests the lock, or its full lease. It is granted if a majority gives it. Otherwise it is released on every
   * node at once, even if the result waits for nodes that do not reply.
   */
  acquire(leaseMs: number): Promise<AcquireReply> {
    this.given = new Map();
    this.token = undefined;
    this.agreed = new Promise((resolve) => (this.agree = resolve));
    const at = this.clock.now() + PROPOSAL_LEAD_MS;
    const proposed = Math.max(...this.nodes.map(({ connection }) => connection.microsAt(at) ?? 0));
    const ask = (node: QuorumNode): Promise<NodeVote> => this.ask(node, leaseMs, proposed);
    return poll(this.nodes, 'A lock', ask, (outcomes) => this.decide(outcomes));
  }

  /** Renews the lock on a majority. A node that has lost it gets it back then, so that losses do not add up. */
  extend(leaseMs: number): Promise<ExtendReply> {
    const extendAt = async (node: QuorumNode): Promise<boolean> => {
      const reply = await node.extend(this.key, this.name, leaseMs);
      if (reply < 0)
        void renewed.then((isRenewed) => (isRenewed ? this.restore(node, leaseMs) : undefined)).catch(ignore);
      return reply > 0;
    };
    const renewed = poll(this.nodes, 'A renewal', extendAt, verdictOf);
    const replyOf = (isRenewed: boolean): ExtendReply => (isRenewed ? 'renewed' : 'lost');
    return renewed.then(replyOf, () => 'unknown');
  }

  /** Releases the lock on every node that may have given it. Returns whether a majority had it. */
  release(closedUntil: number): Promise<boolean> {
    this.isOver = true;
    this.closedUntil = closedUntil;
    this.agree(undefined);
    const releaseAt = async (node: QuorumNode): Promise<boolean> => this.mayHave.has(node) && this.releaseAt(node);
    return poll(this.nodes, 'A release', releaseAt, verdictOf);
  }

  private releaseAt(node: QuorumNode): Promise<boolean> {
    return node.release(this.key, this.name, this.closedUntil);
  }

  /** The ballot has a majority, so nobody else can. A release that follows is sent behind this request. */
  private async restore(node: QuorumNode, leaseMs: number): Promise<void> {
    if (!this.isOver) await this.ask(node, leaseMs, this.token ?? 0);
  }

  /** Returns the vote of a node, once the node has the agreed token. */
  private async ask(node: QuorumNode, leaseMs: number, proposed: number): Promise<NodeVote> {
    if (node.isReady) this.mayHave.add(node);
    let counted: Promise<NodeVote> | undefined;
    await node.acquire(this.key, this.name, leaseMs, proposed, (vote) => {
      counted = this.count(node, vote);
      // It may come when nobody waits for it any longer.
      counted.catch(ignore);
    });
    return counted as Promise<NodeVote>;
  }

  private async count(node: QuorumNode, vote: NodeVote): Promise<NodeVote> {
    if (typeof vote !== 'number') this.mayHave.delete(node);
    // It came late, and may have been given after the release.
    else if (this.isOver) this.releaseAt(node).catch(ignore);
    else {
      this.given.set(node, vote);
      if (this.given.size >= majorityOf(this.nodes.length))
        this.agree((this.token ??= Math.max(...this.given.values())));
      const token = await this.agreed;
      if (token !== undefined && vote !== token && !(await node.writeBack(this.key, this.name, token)))
        throw new Error(`${node.name}: it has lost the lock again`);
    }
    return vote;
  }

  private decide(outcomes: readonly Outcome<NodeVote>[]): AcquireReply | undefined {
    const { nodes, token } = this;
    const majority = majorityOf(nodes.length);
    const votes = outcomes.filter(hasReplied);
    const others = votes.filter((vote) => typeof vote !== 'number');
    const granted = votes.length - others.length;
    const failed = outcomes.filter((outcome) => outcome instanceof Error).length;
    if (granted >= majority && !this.isOver) return { status: 'granted', token, tokens: TOKENS };
    if (nodes.length - others.length - failed < majority && !this.isOver) this.release(0).catch(ignore);
    return this.isOver && votes.length >= majority ? heldReplyOf(others, nodes.length, granted) : undefined;
  }
}
