import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../core/store/lock-store.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { QuorumHealth } from './quorum-health.js';
import type { QuorumNode } from './quorum-node.js';
import { type QuorumNodeAddress, nodeTimeoutOf, openNodes, type QuorumDeps } from './quorum-nodes.js';
import { holderOf, queryNodes } from './quorum-query.js';
import { QuorumExtend } from './quorum-extend.js';
import { QuorumAcquire } from './quorum-acquire.js';

/**
 * The options of {@link quorum}.
 *
 * @publicApi
 */
export interface QuorumOptions {
  /**
   * How long one node may take to answer, in milliseconds; at most half of the module's `requestTimeoutMs`. Long: where so many
   * nodes hang that the answer depends on them, an ask takes that long, and what it got of the others is closed to everybody for
   * that time. Short: nodes that are only slow are not counted. The majority's answers are never waited for longer than they take.
   *
   * @default 200, or half of `requestTimeoutMs` if that is less
   */
  readonly nodeTimeoutMs?: number;
}

/**
 * Redlock: a lock is held by whoever has its key on a majority of `nodes`, which are masters that know nothing of each other, as
 * {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ | Redis' documentation} describes it. It goes on
 * while a minority is down, slow or empty; where a majority is, locks are unavailable, not unsafe.
 *
 * Two can hold one lock only if a majority's common nodes forget it: a node that restarts without its data within a lease (start
 * it again no sooner than the longest lease, or with `appendfsync always`), one whose clock is set forward by a lease, one that
 * evicts keys. Whoever is stopped for longer than a lease learns of it when it is over: what is locked should refuse fencing
 * tokens lower than the last (Kleppmann, {@link https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html | "How to do distributed locking"}).
 * These rise with every grant, whatever the nodes' clocks, as long as the majority that gave the last one keeps its data, and also
 * beyond that while the clocks agree.
 *
 * There is no queue: who waits asks again and again, 10 to 200 ms apart. So readers (`mode: 'shared'`) who overlap all the time keep
 * a writer waiting. There are no permits: majorities exclude, they do not count.
 *
 * @param nodes an odd number of URLs, options of ioredis, or clients, three at least, to servers that are not replicas of each
 * other. Clients that are given are never closed.
 * @throws LockConfigError at start, for a number of nodes, or nodes, that cannot work.
 *
 * @publicApi
 */
export function quorum(nodes: readonly QuorumNodeAddress[], options: QuorumOptions = {}): StoreFactory {
  return (context) => new QuorumStore(nodes, options, context);
}

class QuorumStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'quorum()',
    queue: false,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared'],
    resolutionMs: 1,
  };

  private readonly nodes: readonly QuorumNode[];
  private readonly tools: QuorumDeps;
  /** The last round of each owner, until all nodes have answered. */
  private readonly rounds = new Map<string, QuorumAcquire>();
  private roundCount = 0;
  /** Asks that wait for a majority to be there, by their owners. */
  private readonly unsent = new Set<string>();
  /** Those that not all nodes have answered yet. */
  private readonly renewals = new Set<QuorumExtend>();
  /** The longest lease that was ever asked for: nothing that is to be released lives longer. */
  private longestLeaseMs = 0;

  constructor(nodes: readonly QuorumNodeAddress[], { nodeTimeoutMs }: QuorumOptions, context: StoreContext) {
    const { clock, requestTimeoutMs } = context;
    const timeoutMs = nodeTimeoutOf(nodeTimeoutMs, requestTimeoutMs);
    this.nodes = openNodes(nodes, context, timeoutMs);
    this.tools = { nodes: this.nodes, clock, requestTimeoutMs, nodeTimeoutMs: timeoutMs };
  }

  listen(listener: StoreListener): () => void {
    const health = new QuorumHealth(this.nodes, listener);
    const stops = this.nodes.map((node) => node.listen(health));
    return () => {
      for (const stop of stops) stop();
    };
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { owner, expiresAt, leaseMs } = request;
    this.longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
    if (this.isPast(expiresAt)) return { status: 'expired' };
    if (!this.assembled && !(await this.assemble(owner, expiresAt))) return { status: 'expired' };
    if (this.isPast(expiresAt)) return { status: 'expired' };
    this.roundCount += 1;
    const round = new QuorumAcquire(this.tools, request, this.roundCount);
    this.rounds.set(owner, round);
    void round.over.then(() => this.rounds.get(owner) === round && this.rounds.delete(owner));
    return round.reply;
  }

  release({ keys: [key], mode, owner, keepMs }: ReleaseRequest): Promise<boolean> {
    this.unsent.delete(owner);
    this.rounds.get(owner)?.callOff();
    for (const renewal of this.renewals) renewal.released(owner);
    const now = this.tools.clock.now();
    const keepUntil = keepMs === 0 ? 0 : now + keepMs;
    const forgetAt = now + this.tools.requestTimeoutMs + this.longestLeaseMs;
    return queryNodes(this.nodes, 'A release', {
      ask: (node) => node.release({ key, mode, owner, keepUntil, forgetAt }),
      ballotOf: (ended) => (ended ? 'yes' : 'no'),
      decide: (vote) => (vote.carried ? true : vote.defeated ? false : undefined),
    });
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    if (requests.length === 0) return [];
    for (const { leaseMs } of requests) this.longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
    const renewal = new QuorumExtend(this.tools, requests);
    this.renewals.add(renewal);
    void renewal.over.then(() => this.renewals.delete(renewal));
    return renewal.replies;
  }

  async inspect(key: string): Promise<LockState | null> {
    const until = this.tools.clock.now() + this.tools.requestTimeoutMs;
    if (!this.assembled) await this.meet(until);
    return queryNodes(this.nodes, 'A look at a lock', {
      ask: (node) => node.inspect(key),
      ballotOf: () => 'yes',
      decide: holderOf,
    });
  }

  /** What was opened is closed by the module. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  private isPast(moment: number): boolean {
    return this.tools.clock.now() >= moment;
  }

  /** Whether a majority can be asked at once. */
  private get assembled(): boolean {
    return this.nodes.filter((node) => node.known).length * 2 > this.nodes.length;
  }

  /** Waits for a majority; false if the ask was called off meanwhile, so that it is not sent behind its release. */
  private async assemble(owner: string, until: number): Promise<boolean> {
    this.unsent.add(owner);
    let wanted = false;
    try {
      await this.meet(until);
    } finally {
      wanted = this.unsent.delete(owner);
    }
    return wanted;
  }

  /** One that is known to be down is not waited for as long as one that nothing is known of yet. */
  private meet(until: number): Promise<true> {
    const soon = Math.min(until, this.tools.clock.now() + this.tools.nodeTimeoutMs);
    return queryNodes(this.nodes, 'A lock', {
      ask: (node) => node.synchronise(node.outage === undefined ? until : soon),
      ballotOf: () => 'yes',
      decide: (vote) => vote.carried || undefined,
    });
  }
}
