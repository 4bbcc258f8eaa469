import { driftOf, type Timer } from '../../core/time/clock.js';
import type { AcquireReply, AcquireRequest } from '../../core/store/lock-store.js';
import type { NodeAcquire } from './quorum-node.js';
import { latestMicros, type QuorumDeps } from './quorum-nodes.js';
import { freeIn, isHeld, noMajority, type Outcome } from './quorum-errors.js';
import type { Given, NodeVote } from './quorum-scripts.js';
import { TURN_MS } from './in-flight.js';
import { Vote } from './quorum-vote.js';

/**
 * How far tokens run ahead of the clocks. Every asker proposes one that all nodes can take as it is, because it is later than
 * their clocks, as far as they are known, when the ask arrives there. So they agree on it without being told; where requests
 * take longer than this, or somebody else knew of a clock that is further ahead, the highest token is written back.
 */
const AHEAD_MS = 50;

/**
 * All nodes are asked once, at the same time, for one lock. It is granted when a majority has given it and has closed all tokens
 * up to the last that goes with it; otherwise it is given back everywhere at once, and once more where it is given late.
 *
 * Why tokens rise: on a majority of the nodes whoever is granted the lock has the key, and a fence that is not before the last
 * of its tokens, because that node gave this token (or a higher one) itself, or had it written back while the key was still the
 * asker's. The next one's majority has a node in common with that one. There it got the key later, so that the token that it
 * got there is behind the fence, and so is the highest of its quorum. No clock takes part in this, only memory. The same holds for
 * one who shares the lock and whoever was granted it before that one asked. Of two who ask for it beside each other at the same
 * time neither is the next: they get two tokens because no two nodes ever give the same one.
 */
export class QuorumAcquire {
  readonly reply: Promise<AcquireReply>;
  /** When all nodes have answered, however late. */
  readonly over: Promise<unknown>;

  private readonly vote: Vote;
  private readonly outcomes: Outcome[];
  /** Nodes that the ask was sent to. */
  private readonly asked = new Set<number>();
  private readonly given = new Map<number, Given>();
  private readonly sentAt: number;
  /** What all nodes are asked. */
  private readonly ask: NodeAcquire;
  /** Of so many tokens in a row each node gives one of its own to those who share the lock, and closes the others to all. */
  private readonly block: number;
  /** The owner in this round. */
  private readonly asker: string;
  private timer: Timer;
  /** The quorum's, since a majority has given the lock. */
  private token: number | undefined;
  private tokens = 1;
  private decided = false;
  /** Whatever is given to this round is given back. */
  private abandoned = false;
  private resolve!: (reply: AcquireReply) => void;
  private reject!: (error: Error) => void;

  constructor(
    private readonly tools: QuorumDeps,
    private readonly request: AcquireRequest,
    round: number,
  ) {
    const { nodes, clock, nodeTimeoutMs } = tools;
    this.vote = new Vote(nodes.length);
    this.outcomes = nodes.map(() => undefined);
    this.sentAt = clock.now();
    this.asker = `${request.owner} ${round}`;
    this.reply = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    const expiresAt = Math.min(request.expiresAt, this.sentAt + nodeTimeoutMs);
    this.block = request.mode === 'shared' ? nodes.length : 1;
    const tokens = request.mode === 'shared' ? this.block : request.tokens;
    const proposedToken = Math.ceil(latestMicros(nodes, this.sentAt + AHEAD_MS) / this.block) * this.block;
    this.ask = { ...request, round, tokens, proposedToken, expiresAt };
    this.timer = this.waitFor(expiresAt - this.sentAt);
    const answers = nodes.map((node, i) =>
      node
        .acquire(this.ask, () => this.leaves(i))
        .then(
          (answer) => this.answered(i, answer),
          (error: Error) => this.failed(i, error),
        ),
    );
    this.over = Promise.all(answers);
  }

  /** Its owner has been released: what this round is given from now on is given back. */
  callOff(): void {
    this.abandoned = true;
    this.end();
    this.resolve({ status: 'expired' });
  }

  private leaves(node: number): boolean {
    if (this.abandoned) return false;
    this.asked.add(node);
    return true;
  }

  private answered(node: number, answer: NodeVote): void {
    this.outcomes[node] = answer;
    if (answer.status === 'held') return this.cast(node, 'no');
    this.vote.cast(node, 'given');
    if (this.abandoned) {
      this.giveBackAt(node);
      return this.decide();
    }
    this.given.set(node, answer);
    if (this.token !== undefined) this.agree(node, answer);
    else if (this.given.size === this.vote.majority) this.agreeOnToken();
    else this.decide();
  }

  private failed(node: number, error: Error): void {
    this.outcomes[node] = error;
    this.cast(node, 'silent');
  }

  private cast(node: number, ballot: 'yes' | 'no' | 'silent'): void {
    this.vote.cast(node, ballot);
    this.decide();
  }

  /** A majority has given the lock: the highest of its tokens counts. */
  private agreeOnToken(): void {
    const all = [...this.given.values()];
    this.token = Math.max(...all.map(({ token }) => token));
    // Nobody remembers how many were set aside with one that was given before.
    if (!all.some(({ before }) => before) && this.block === 1) this.tokens = this.request.tokens;
    for (const [node, answer] of this.given) this.agree(node, answer);
    if (this.decided) return;
    this.timer.cancel();
    this.timer = this.waitFor(this.tools.nodeTimeoutMs);
  }

  /** A node that gave that token, one beside it in its block, or a higher one, gives none of this lock's any more; another has to be told. */
  private agree(node: number, { token }: Given): void {
    const agreed = this.token as number;
    const behind = this.blockOf(token) < this.blockOf(agreed);
    if (!behind) this.cast(node, 'yes');
    if (token === agreed || (!behind && this.block > 1)) return;
    const last = (this.blockOf(agreed) + 1) * this.block + this.tokens - 2;
    this.tools.nodes[node].writeBack(this.ask, this.asker, agreed, last).then(
      (ours) => behind && this.cast(node, ours ? 'yes' : 'no'),
      (error: Error) => behind && this.failed(node, error),
    );
  }

  private decide(): void {
    const { vote } = this;
    if (this.decided) return;
    if (vote.carried) return this.win();
    if (!vote.hopeless) return;
    // It is not known yet why not; but what nobody can use any more is in the way of others.
    if (!this.abandoned) this.giveBack();
    if (vote.reached) this.refuse();
    else if (vote.unreachable) this.fail('No majority of the nodes can be reached');
  }

  private win(): void {
    const { leaseMs } = this.request;
    if (this.tools.clock.now() < this.sentAt + leaseMs - driftOf(leaseMs)) {
      this.end();
      return this.resolve({ status: 'granted', token: this.token, tokens: this.tokens });
    }
    this.giveBack();
    this.fail(`A majority of the nodes took longer than the lease of ${leaseMs} ms`);
  }

  private refuse(): void {
    this.end();
    const missing = this.vote.majority - this.given.size;
    const remainingMs = freeIn(missing, this.vote.majority, this.outcomes);
    this.resolve({ status: 'held', queued: false, remainingMs });
  }

  private fail(why: string): void {
    this.end();
    this.reject(noMajority(why, this.tools.nodes, this.outcomes));
  }

  private end(): void {
    this.decided = true;
    this.timer.cancel();
  }

  /** On the nodes that have given the lock, and on those that may have, or may still, though they have not said so. */
  private giveBack(): void {
    this.abandoned = true;
    for (const node of this.asked) if (!isHeld(this.outcomes[node])) this.giveBackAt(node);
  }

  private giveBackAt(node: number): void {
    const { nodes, clock } = this.tools;
    const { keys, mode } = this.request;
    const forgetAt = clock.now() + this.tools.nodeTimeoutMs + this.request.leaseMs;
    nodes[node].release({ key: keys[0], mode, owner: this.asker, keepUntil: 0, forgetAt }).catch(() => undefined);
  }

  private waitFor(ms: number): Timer {
    const { clock } = this.tools;
    return clock.schedule(ms, () => (this.timer = clock.schedule(TURN_MS, () => this.late(), true)), true);
  }

  /** Who has not answered by now is not waited for: neither for a vote, nor for the token to be written. */
  private late(): void {
    const { nodes, nodeTimeoutMs } = this.tools;
    const missing = this.token === undefined ? [undefined] : [undefined, 'given'];
    for (const [i, node] of nodes.entries()) {
      if (!missing.includes(this.vote.of(i))) continue;
      this.outcomes[i] = node.failure(new Error(`no answer within ${nodeTimeoutMs} ms`));
      this.vote.cast(i, 'silent');
    }
    this.decide();
  }

  private blockOf(token: number): number {
    return Math.floor(token / this.block);
  }
}
