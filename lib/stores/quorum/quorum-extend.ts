import type { Timer } from '../../core/time/clock.js';
import type { ExtendReply, ExtendRequest } from '../../core/store/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumDeps } from './quorum-nodes.js';
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
export class QuorumExtend {
  readonly replies: Promise<readonly ExtendReply[]>;
  /** When all nodes have answered, however late, and have the lock again where they had lost it. */
  readonly over: Promise<unknown>;
  private readonly locks: readonly Renewed[];
  private readonly until: number;
  /** Owners who have not released meanwhile. */
  private readonly holders: Set<string>;
  private timer: Timer;
  private resolve!: (replies: readonly ExtendReply[]) => void;

  constructor(
    private readonly tools: QuorumDeps,
    requests: readonly ExtendRequest[],
  ) {
    const { nodes, clock, requestTimeoutMs, nodeTimeoutMs } = tools;
    this.locks = requests.map((request) => new Renewed(request, nodes.length));
    this.holders = new Set(requests.map(({ owner }) => owner));
    this.until = clock.now() + requestTimeoutMs;
    this.replies = new Promise((resolve) => (this.resolve = resolve));
    this.timer = clock.schedule(nodeTimeoutMs, () => this.late(), true);
    const answers = nodes.map((node, i) =>
      node.extend(requests).then(
        (heard) => this.heard(i, heard),
        (error: Error) => this.heard(i, [error]),
      ),
    );
    this.over = Promise.all(answers);
  }

  /** Its lock is not given back to any node from now on. */
  released(owner: string): void {
    this.holders.delete(owner);
  }

  private async heard(node: number, answers: readonly (NodeRenewal | Error)[]): Promise<void> {
    const heals: Promise<unknown>[] = [];
    for (const [i, lock] of this.locks.entries()) {
      const answer = answers[i] ?? answers[0];
      if (answer instanceof Error) lock.vote.cast(node, 'silent');
      else {
        lock.heard(node, answer);
        if (answer.status === 'gone') lock.gone.push(this.tools.nodes[node]);
      }
      if (lock.vote.carried) heals.push(...lock.gone.splice(0).map((lossy) => this.restore(lossy, lock)));
    }
    if (this.locks.every(({ decided }) => decided)) this.answer();
    await Promise.all(heals);
  }

  /** Slow nodes are waited for longer only where no lock's answer waits with them. */
  private late(): void {
    if (this.locks.some(({ decided }) => decided)) return this.answer();
    const { clock } = this.tools;
    this.timer = clock.schedule(this.until - clock.now(), () => this.answer(), true);
  }

  private answer(): void {
    this.timer.cancel();
    this.resolve(this.locks.map(({ reply }) => reply));
  }

  private async restore(node: QuorumNode, { request, value, fence }: Renewed): Promise<void> {
    const { keys, mode, owner, leaseMs } = request;
    if (!this.holders.has(owner)) return;
    const healed = await node.restore(request, value, fence, this.until).catch(() => false);
    // A script that the node had forgotten is sent again, behind the release.
    if (!healed || this.holders.has(owner)) return;
    const forgetAt = this.tools.clock.now() + leaseMs;
    await node.release({ key: keys[0], mode, owner, keepUntil: 0, forgetAt }).catch(() => false);
  }
}
