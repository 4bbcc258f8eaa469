import type { AcquireReply, ExtendReply, Granted } from '../contract.js';
import { majorityOf, poll, verdictOf, type Outcome } from './poll.js';
import type { NodeGranted, NodeHeld, NodeVote } from './node-lock.js';
import type { QuorumNode } from './quorum-node.js';
import { heldReplyOf } from './quorum-state.js';
import type { Clock } from '../../core/time/clock.js';

/** How many tokens a grant has: one for the holder, and one for each caller to which it passes the lock. */
const TOKENS = 17;

/**
 * How far a proposed token is ahead of the latest known clock, in milliseconds. A request that arrives within this time
 * finds no node whose clock is later, so all nodes give the proposed token and no write-back is needed.
 */
const PROPOSAL_LEAD_MS = 50;

const ignore = (): void => undefined;

/**
 * What an owner asks all nodes for, from its first request to its release. A refused ballot is released, so the owner's
 * next request is a ballot with another name. So a release never ends what a later request brought.
 *
 * Tokens rise because two majorities share a node. Before the lock is granted, each node of the majority has a fence at
 * or above the agreed token: by giving that token or a higher one, or by write-back (as in an ABD register) while the
 * ballot has the key. The shared node gives the next ballot a token above its fence. Clocks are not compared for this.
 */
export class Ballot {
  private readonly candidate: { readonly key: string; readonly ballot: string };
  /** The nodes that may have given the lock. */
  private readonly mayHave = new Set<QuorumNode>();
  /** The token on which a majority has agreed. Undefined if the ballot is refused. */
  private agreed: Promise<number | undefined> = Promise.resolve(undefined);
  private agree: (token: number | undefined) => void = ignore;
  /** The tokens that nodes have given. */
  private given = new Map<QuorumNode, number>();
  private token: number | undefined;
  private longestMs = 0;
  private isOver = false;
  private closedUntil = 0;

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
    key: string,
    name: string,
  ) {
    this.candidate = { key, ballot: name };
  }

  /**
   * Asks for the lock, or for its full lease. It is granted if a majority gives it. Otherwise it is released on every
   * node, before the result is known: others must not wait for nodes that do not reply.
   */
  acquire(leaseMs: number): Promise<AcquireReply> {
    this.given = new Map();
    this.token = undefined;
    this.agreed = new Promise((resolve) => (this.agree = resolve));
    const at = this.clock.now() + PROPOSAL_LEAD_MS;
    const proposed = Math.max(...this.nodes.map(({ connection }) => connection.microsAt(at) ?? 0));
    return poll(
      this.nodes,
      'A lock',
      (node) => this.ask(node, leaseMs, proposed),
      (outcomes) => this.decide(outcomes),
    );
  }

  /** Renews the lock on a majority. A node that has lost it gets it back then, so that losses do not add up. */
  extend(leaseMs: number): Promise<ExtendReply> {
    const extendAt = async (node: QuorumNode): Promise<boolean> => {
      const reply = await node.extend(this.candidate, leaseMs);
      if (reply < 0) void renewed.then((isRenewed) => isRenewed && this.restore(node, leaseMs), ignore);
      return reply > 0;
    };
    const renewed = poll(this.nodes, 'A renewal', extendAt, verdictOf);
    return renewed.then(
      (isRenewed) => (isRenewed ? 'renewed' : 'lost'),
      () => 'unknown',
    );
  }

  /** Releases the lock on every node that may have given it. Returns whether a majority had it. */
  release(closedUntil: number): Promise<boolean> {
    this.isOver = true;
    this.closedUntil = closedUntil;
    this.agree(undefined);
    const releaseAt = async (node: QuorumNode): Promise<boolean> => this.mayHave.has(node) && this.releaseAt(node);
    return poll(this.nodes, 'A release', releaseAt, verdictOf);
  }

  private restore(node: QuorumNode, leaseMs: number): void {
    if (!this.isOver && this.token !== undefined) this.ask(node, leaseMs, this.token).catch(ignore);
  }

  /** Returns the vote of a node, once the node has the agreed token. */
  private async ask(node: QuorumNode, leaseMs: number, proposed: number): Promise<NodeVote> {
    this.longestMs = Math.max(this.longestMs, leaseMs);
    if (node.isReady) this.mayHave.add(node);
    let confirmed: Promise<NodeVote> | undefined;
    await node.acquire(this.candidate, leaseMs, proposed, (vote) => {
      confirmed = this.confirm(node, vote);
      // It may come after the request has failed.
      confirmed.catch(ignore);
    });
    return confirmed as Promise<NodeVote>;
  }

  private async confirm(node: QuorumNode, vote: NodeVote): Promise<NodeVote> {
    if (vote.status === 'held') {
      this.mayHave.delete(node);
      return vote;
    }
    if (this.isOver) {
      // It came late, perhaps after the release.
      this.releaseAt(node).catch(ignore);
      return vote;
    }
    this.given.set(node, vote.token);
    if (this.given.size >= majorityOf(this.nodes.length)) this.agree((this.token ??= Math.max(...this.given.values())));
    const token = await this.agreed;
    if (token === undefined || vote.token === token) return vote;
    if (await node.writeBack(this.candidate, token)) return vote;
    throw new Error(`${node.name}: it has lost the lock again`);
  }

  private decide(outcomes: readonly Outcome<NodeVote>[]): AcquireReply | undefined {
    const majority = majorityOf(this.nodes.length);
    const held = outcomes.filter(isHeld);
    const granted = outcomes.filter(isGranted).length;
    const failed = outcomes.filter((outcome) => outcome instanceof Error).length;
    if (granted >= majority && !this.isOver) return this.granted();
    if (!this.isOver && this.nodes.length - held.length - failed < majority) this.release(0).catch(ignore);
    if (!this.isOver || held.length + granted < majority) return undefined;
    return heldReplyOf(held.map(({ lock }) => lock), this.nodes.length, granted);
  }

  private granted(): Granted {
    return { status: 'granted', token: this.token, tokens: TOKENS };
  }

  private releaseAt(node: QuorumNode): Promise<boolean> {
    const { candidate, closedUntil, longestMs } = this;
    return node.release({ ...candidate, closedUntil, forgetAt: this.clock.now() + longestMs });
  }
}

function isGranted(outcome: Outcome<NodeVote>): outcome is NodeGranted {
  return outcome !== undefined && 'status' in outcome && outcome.status === 'granted';
}

function isHeld(outcome: Outcome<NodeVote>): outcome is NodeHeld {
  return outcome !== undefined && 'status' in outcome && outcome.status === 'held';
}
