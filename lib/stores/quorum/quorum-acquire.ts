import { driftOf, type Timer } from '../../core/time/clock.js';
import { instanceOf } from '../../core/store/instance-id.js';
import type { AcquireReply, AcquireRequest, HolderHint } from '../../core/store/lock-store.js';
import { otherWireOf, WIRE_VERSION } from '../../redis/wire.js';
import { isHeld, noMajority, type Outcome } from './quorum-errors.js';
import { REPLY_GRACE_MS } from './quorum-in-flight.js';
import type { NodeAcquire } from './quorum-node.js';
import { latestMicros, type QuorumDeps } from './quorum-nodes.js';
import type { NodeGranted, NodeVote } from './quorum-scripts.js';
import { type Ballot, Vote } from './quorum-vote.js';

/**
 * How far a proposed token is ahead of the latest known clock, in milliseconds. A request that arrives within this time
 * finds no node whose clock is later, so all nodes give the proposed token and no write-back is needed.
 */
const PROPOSAL_LEAD_MS = 50;

/**
 * Sends one acquire request to all nodes at once, as Redlock does. The lock is granted if a majority has given it and
 * has reserved all tokens of the grant. Otherwise it is released on every node, and again on a node that gives it
 * later.
 *
 * Tokens rise because two majorities share a node. Before the lock is granted, every node of the majority has a fence
 * at or above the agreed token: by giving that token or a higher one, or by write-back (as in an ABD register) while
 * the owner has the key. The shared node gives the next owner a token above its fence. Clocks are not compared for
 * this.
 */
export class QuorumAcquire {
  /** The result. Rejects with a `LockUnavailableError` that lists the outcome of every node. */
  readonly reply: Promise<AcquireReply>;
  /** Resolves when all nodes have replied, however late. */
  readonly over: Promise<unknown>;

  private readonly vote: Vote;
  private readonly outcomes: Outcome[];
  /** The indexes of the nodes that the request was sent to. */
  private readonly sentTo = new Set<number>();
  private readonly granted = new Map<number, NodeGranted>();
  private readonly sentAt: number;
  private readonly nodeRequest: NodeAcquire;
  /** The owner with its round, as nodes keep it. */
  private readonly holder: string;
  private timer: Timer;
  /** The agreed token, once a majority has given the lock. */
  private token: number | undefined;
  private tokens = 1;
  private decided = false;
  /** Whether every node that gives the lock is sent a release. */
  private abandoned = false;
  private resolve!: (reply: AcquireReply) => void;
  private reject!: (error: Error) => void;

  constructor(
    private readonly deps: QuorumDeps,
    private readonly request: AcquireRequest,
    round: number,
  ) {
    const { nodes, clock, nodeTimeoutMs } = deps;
    this.vote = new Vote(nodes.length);
    this.outcomes = nodes.map(() => undefined);
    this.sentAt = clock.now();
    this.holder = `${request.owner} ${round}`;
    this.reply = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    const expiresAt = Math.min(request.expiresAt, this.sentAt + nodeTimeoutMs);
    const proposedToken = Math.ceil(latestMicros(nodes, this.sentAt + PROPOSAL_LEAD_MS));
    this.nodeRequest = { ...request, round, proposedToken, expiresAt };
    this.timer = this.startTimeout(expiresAt - this.sentAt);
    this.over = Promise.all(nodes.map((_, node) => this.send(node)));
  }

  /** Cancels the acquire, because its owner has been released. A node that still gives the lock is sent a release. */
  cancel(): void {
    this.abandoned = true;
    this.end();
    this.resolve({ status: 'expired' });
  }

  private send(node: number): Promise<void> {
    const beforeSend = (): boolean => {
      if (!this.abandoned) this.sentTo.add(node);
      return !this.abandoned;
    };
    return this.deps.nodes[node].acquire(this.nodeRequest, beforeSend).then(
      (reply) => this.onReply(node, reply),
      (error: Error) => this.onError(node, error),
    );
  }

  private onReply(node: number, reply: NodeVote): void {
    this.outcomes[node] = reply;
    if (reply.status === 'held') return this.cast(node, 'no');
    this.vote.cast(node, 'granted');
    if (this.abandoned) {
      this.releaseAt(node);
      return this.decide();
    }
    this.granted.set(node, reply);
    if (this.token !== undefined) this.agree(node, reply);
    else if (this.granted.size === this.vote.majority) this.agreeOnToken();
    else this.decide();
  }

  private onError(node: number, error: Error): void {
    this.outcomes[node] = error;
    this.cast(node, 'no-reply');
  }

  /** Takes the highest token of the majority that has given the lock as the grant's token. */
  private agreeOnToken(): void {
    const replies = [...this.granted.values()];
    this.token = Math.max(...replies.map(({ token }) => token));
    // Nodes do not record how many tokens they reserved in an earlier round.
    if (!replies.some(({ repeated }) => repeated)) this.tokens = this.request.tokens;
    for (const [node, reply] of this.granted) this.agree(node, reply);
    if (this.decided) return;
    this.timer.cancel();
    this.timer = this.startTimeout(this.deps.nodeTimeoutMs);
  }

  /** Counts a node's yes. If the node gave a lower token, the agreed one is written back first. */
  private agree(node: number, { token }: NodeGranted): void {
    const agreed = this.token as number;
    const isLower = token < agreed;
    if (!isLower) this.cast(node, 'yes');
    if (token === agreed) return;
    // A higher token is replaced as well, so that all nodes keep the same one.
    const last = agreed + this.tokens - 1;
    this.deps.nodes[node].writeBack(this.nodeRequest, this.holder, agreed, last).then(
      (written) => isLower && this.cast(node, written ? 'yes' : 'no'),
      (error: Error) => isLower && this.onError(node, error),
    );
  }

  private cast(node: number, ballot: Ballot): void {
    this.vote.cast(node, ballot);
    this.decide();
  }

  private decide(): void {
    const { vote } = this;
    if (this.decided) return;
    if (vote.carried) return this.win();
    if (!vote.cannotCarry) return;
    // The result may still be open: held or unavailable. The nodes that gave the lock must not block other owners until
    // it is known.
    if (!this.abandoned) this.releaseAll();
    if (vote.replied) this.refuse();
    // The error says what each node replied, so the request waits for the others, for at most `nodeTimeoutMs`.
    else if (vote.unreachable && vote.complete) this.fail('No majority of the nodes can be reached');
  }

  private win(): void {
    const { leaseMs } = this.request;
    if (this.deps.clock.now() < this.sentAt + leaseMs - driftOf(leaseMs)) {
      this.end();
      return this.resolve({ status: 'granted', token: this.token, tokens: this.tokens });
    }
    this.releaseAll();
    this.fail(`A majority of the nodes took longer than the lease of ${leaseMs} ms`);
  }

  private refuse(): void {
    this.end();
    const { majority } = this.vote;
    const remainingMs = remainingUntilFree(majority - this.granted.size, majority, this.outcomes);
    this.resolve({ status: 'held', queued: false, remainingMs, holder: holderIn(majority, this.outcomes) });
  }

  private fail(why: string): void {
    this.end();
    this.reject(noMajority(why, this.deps.nodes, this.outcomes));
  }

  private end(): void {
    this.decided = true;
    this.timer.cancel();
  }

  /** Releases the lock on every node that has given it or may still give it. */
  private releaseAll(): void {
    this.abandoned = true;
    for (const node of this.sentTo) if (!isHeld(this.outcomes[node])) this.releaseAt(node);
  }

  private releaseAt(node: number): void {
    const { nodes, clock, nodeTimeoutMs } = this.deps;
    const { keys, leaseMs } = this.request;
    const forgetAt = clock.now() + nodeTimeoutMs + leaseMs;
    nodes[node].release({ key: keys[0], owner: this.holder, closedUntil: 0, forgetAt }).catch(() => undefined);
  }

  private startTimeout(ms: number): Timer {
    const { clock } = this.deps;
    const afterTimeout = (): void => void (this.timer = clock.schedule(REPLY_GRACE_MS, () => this.onTimeout(), true));
    return clock.schedule(ms, afterTimeout, true);
  }

  /** Stops waiting for nodes that have not replied, and for nodes that have not confirmed the agreed token. */
  private onTimeout(): void {
    const { nodes, nodeTimeoutMs } = this.deps;
    const awaited = this.token === undefined ? [undefined] : [undefined, 'granted'];
    for (const [i, node] of nodes.entries()) {
      if (!awaited.includes(this.vote.of(i))) continue;
      this.outcomes[i] = node.errorOf(new Error(`no reply within ${nodeTimeoutMs} ms`));
      this.vote.cast(i, 'no-reply');
    }
    this.decide();
  }
}

/**
 * Returns in how many milliseconds the lock is free on `missing` more nodes if nobody extends it. Returns undefined if
 * no holder can have a majority: then all of them are about to release it.
 */
function remainingUntilFree(missing: number, majority: number, outcomes: readonly Outcome[]): number | undefined {
  const held = outcomes.filter(isHeld);
  const nodesOf = nodesByHolder(outcomes);
  const unknown = outcomes.filter((outcome) => outcome === undefined || outcome instanceof Error).length;
  if (Math.max(...nodesOf.values()) + unknown < majority) return undefined;
  return held.map(({ remainingMs }) => remainingMs).toSorted((one, other) => one - other)[missing - 1];
}

/**
 * Returns the holder that has a majority, or one of another wire version. A request is refused by at most a
 * majority of the nodes, so a holder with a majority is the only one. Tokens are of no use for its age, because the
 * nodes' clocks differ.
 */
function holderIn(majority: number, outcomes: readonly Outcome[]): HolderHint | undefined {
  for (const [holder, count] of nodesByHolder(outcomes)) {
    if (count >= majority && /^[\w-]+:\d+$/.test(holder)) return { instanceId: instanceOf(holder) };
    const other = otherWireOf(holder);
    if (other !== undefined) {
      return { instanceId: other.instanceId, wireVersions: { holder: other.version, own: WIRE_VERSION } };
    }
  }
  return undefined;
}

/** Returns on how many nodes each holder has the lock. */
function nodesByHolder(outcomes: readonly Outcome[]): ReadonlyMap<string, number> {
  const nodesOf = new Map<string, number>();
  for (const { holder } of outcomes.filter(isHeld)) nodesOf.set(holder, (nodesOf.get(holder) ?? 0) + 1);
  return nodesOf;
}
