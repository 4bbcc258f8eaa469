import type { Timer } from '../core/clock.js';
import type { ExtendReply, ExtendRequest } from '../core/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumTools } from './quorum-nodes.js';
import { type NodeRenewal, tokenOf } from './quorum-scripts.js';
import { Vote } from './quorum-vote.js';

/** One lock of a batch. */
class Renewed {
  readonly vote: Vote;
  /** What a majority keeps, as far as it is known: the highest. */
  value = '';
  fence = 0;
  /** Nodes that have lost the lock and could have it back. */
  readonly gone: QuorumNode[] = [];

  constructor(
    readonly request: ExtendRequest,
    nodes: number,
  ) {
    this.vote = new Vote(nodes);
  }

  get decided(): boolean {
    return this.vote.carried || this.vote.defeated || this.vote.complete;
  }

  get reply(): ExtendReply {
    if (this.vote.carried) return 'renewed';
    return this.vote.defeated ? 'lost' : 'unknown';
  }

  heard(node: number, answer: NodeRenewal): void {
    this.vote.cast(node, answer.status === 'renewed' ? 'yes' : 'no');
    if (answer.status !== 'renewed') return;
    if (this.value === '' || tokenOf(answer.value) > tokenOf(this.value)) this.value = answer.value;
    this.fence = Math.max(this.fence, answer.fence);
  }
}

/**
 * A batch of renewals, to all nodes in one pipeline each. A majority makes a lease; nodes that have lost the lock while a
 * majority has it get it back, so that losses that come one by one do not add up.
 */
export class Renewal {
  readonly replies: Promise<readonly ExtendReply[]>;
  /** When all nodes have answered, however late. */
  readonly over: Promise<unknown>;
  private readonly locks: readonly Renewed[];
  private readonly until: number;
  private readonly timer: Timer;
  private resolve!: (replies: readonly ExtendReply[]) => void;

  constructor(
    private readonly tools: QuorumTools,
    requests: readonly ExtendRequest[],
    /** Whether the owner has not released it meanwhile. */
    private readonly isHeld: (owner: string) => boolean,
  ) {
    const { nodes, clock, requestTimeoutMs } = tools;
    this.locks = requests.map((request) => new Renewed(request, nodes.length));
    this.until = clock.now() + requestTimeoutMs;
    this.replies = new Promise((resolve) => (this.resolve = resolve));
    this.timer = clock.schedule(requestTimeoutMs, () => this.answer(), true);
    const answers = nodes.map((node, i) =>
      node.extend(requests).then(
        (heard) => this.heard(i, heard),
        (error: Error) => this.heard(i, [error]),
      ),
    );
    this.over = Promise.all(answers);
  }

  private heard(node: number, answers: readonly (NodeRenewal | Error)[]): void {
    for (const [i, lock] of this.locks.entries()) {
      const answer = answers[i] ?? answers[0];
      if (answer instanceof Error) lock.vote.cast(node, 'silent');
      else {
        lock.heard(node, answer);
        if (answer.status === 'gone') lock.gone.push(this.tools.nodes[node]);
      }
      if (lock.vote.carried) this.heal(lock);
    }
    if (this.locks.every(({ decided }) => decided)) this.answer();
  }

  private answer(): void {
    this.timer.cancel();
    this.resolve(this.locks.map(({ reply }) => reply));
  }

  private heal({ request, gone, value, fence }: Renewed): void {
    const { keys, owner, leaseMs } = request;
    for (const node of gone.splice(0)) {
      if (this.isHeld(owner)) node.heal(keys[0], value, fence, leaseMs, this.until).catch(() => undefined);
    }
  }
}
