import type { Timer } from '../../core/time/clock.js';
import type { ExtendReply, ExtendRequest } from '../../core/store/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumDeps } from './quorum-nodes.js';
import { type NodeExtendReply, tokenOf } from './quorum-scripts.js';
import { Vote } from './quorum-vote.js';

/**
 * Extends a batch of locks, with one packet for each node. A lock is extended if a majority has extended it.
 * Nodes that have lost it are restored then, as in Dynamo's read repair, so that losses of single nodes do not add up.
 */
export class QuorumExtend {
  /** One reply for each request, in the same order. Never rejects. */
  readonly replies: Promise<readonly ExtendReply[]>;
  /** Resolves when all nodes have replied, however late, and lost locks are restored. */
  readonly over: Promise<unknown>;
  private readonly locks: readonly ExtendedLock[];
  private readonly until: number;
  /** The owners that have not been released since. */
  private readonly holders: Set<string>;
  private timer: Timer;
  private resolve!: (replies: readonly ExtendReply[]) => void;

  constructor(
    private readonly deps: QuorumDeps,
    requests: readonly ExtendRequest[],
  ) {
    const { nodes, clock, requestTimeoutMs, nodeTimeoutMs } = deps;
    this.locks = requests.map((request) => new ExtendedLock(request, nodes.length));
    this.holders = new Set(requests.map(({ owner }) => owner));
    this.until = clock.now() + requestTimeoutMs;
    this.replies = new Promise((resolve) => (this.resolve = resolve));
    this.timer = clock.schedule(nodeTimeoutMs, () => this.onTimeout(), true);
    const sent = nodes.map((node, i) =>
      node.extend(requests).then(
        (replies) => this.onReplies(i, replies),
        (error: Error) => this.onReplies(i, [error]),
      ),
    );
    this.over = Promise.all(sent);
  }

  /** Called when an owner is released: its lock is not restored on any node from now on. */
  onRelease(owner: string): void {
    this.holders.delete(owner);
  }

  private async onReplies(node: number, replies: readonly (NodeExtendReply | Error)[]): Promise<void> {
    const restores: Promise<unknown>[] = [];
    for (const [i, lock] of this.locks.entries()) {
      const reply = replies[i] ?? replies[0];
      if (reply instanceof Error) lock.vote.cast(node, 'no-reply');
      else {
        lock.onReply(node, reply);
        if (reply.status === 'missing') lock.missingAt.push(this.deps.nodes[node]);
      }
      if (lock.vote.carried) restores.push(...lock.missingAt.splice(0).map((missing) => this.restore(missing, lock)));
    }
    if (this.locks.every(({ decided }) => decided)) this.reply();
    await Promise.all(restores);
  }

  /** Replies if a lock is decided. Waits for slow nodes only while no decided lock waits with the others. */
  private onTimeout(): void {
    if (this.locks.some(({ decided }) => decided)) return this.reply();
    const { clock } = this.deps;
    this.timer = clock.schedule(this.until - clock.now(), () => this.reply(), true);
  }

  private reply(): void {
    this.timer.cancel();
    this.resolve(this.locks.map(({ reply }) => reply));
  }

  private async restore(node: QuorumNode, { request, value, fence }: ExtendedLock): Promise<void> {
    const { keys, owner, leaseMs } = request;
    if (!this.holders.has(owner)) return;
    const restored = await node.restore(request, value, fence, this.until).catch(() => false);
    // If the node had forgotten the script, the restore was sent again and may have run after the release.
    if (!restored || this.holders.has(owner)) return;
    const forgetAt = this.deps.clock.now() + leaseMs;
    await node.release({ key: keys[0], owner, closedUntil: 0, forgetAt }).catch(() => false);
  }
}

/** One lock of a batch, and what the nodes replied about it. */
class ExtendedLock {
  readonly vote: Vote;
  /** The value and the fence to restore: the highest of all replies. */
  value = '';
  fence = 0;
  /** The nodes that have lost the lock and are not restored yet. */
  readonly missingAt: QuorumNode[] = [];

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

  onReply(node: number, reply: NodeExtendReply): void {
    this.vote.cast(node, reply.status === 'renewed' ? 'yes' : 'no');
    if (reply.status !== 'renewed') return;
    if (this.value === '' || tokenOf(reply.value) > tokenOf(this.value)) this.value = reply.value;
    this.fence = Math.max(this.fence, reply.fence);
  }
}
