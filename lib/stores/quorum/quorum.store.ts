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
  StorePing,
} from '../../core/store/lock-store.js';
import { Pinger } from '../../redis/pinger.js';
import { FormerStore } from '../former-store.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { QuorumAcquire } from './quorum-acquire.js';
import { QuorumExtend } from './quorum-extend.js';
import type { QuorumNode } from './quorum-node.js';
import { nodeTimeoutOf, openNodes, type QuorumDeps, QuorumHealth, type QuorumNodeAddress } from './quorum-nodes.js';
import { queryNodes, stateFrom } from './quorum-query.js';

/**
 * The options of {@link quorum}.
 *
 * @publicApi
 */
export interface QuorumOptions {
  /**
   * How long one node may take to reply, in milliseconds, from 1 to 500. A result
   * never waits for it if the replies of a majority decide. Long: if nodes hang, an acquire that needs them takes that
   * long, and blocks other callers on the remaining nodes in that time. Short: slow nodes are not counted.
   *
   * @default 200
   */
  readonly nodeTimeoutMs?: number | undefined;
}

/**
 * Keeps each lock on a majority of `nodes`, which are independent masters: the Redlock algorithm of
 * {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ | Redis' documentation}. Locks stay
 * available while a minority of the nodes is down, slow or empty. Without a majority they are unavailable:
 * `LockUnavailableError`.
 *
 * Two callers can hold one lock only if the nodes that both majorities share forget it. A node forgets it if it
 * restarts without its data within a lease, if its clock is set forward by a lease, or if it evicts keys. Start a node
 * again no sooner than the longest lease, or use `appendfsync always`.
 *
 * Fencing tokens rise with every grant, whatever the nodes' clocks, as long as the majority of the last grant keeps its
 * data. A holder that is stopped for longer than its lease notices only afterwards, so let the guarded resource refuse
 * lower tokens: Kleppmann,
 * {@link https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html | "How to do distributed locking"}.
 *
 * The store has no queue. Waiting callers retry every 5 to 200 ms, and busy instances yield to others between their
 * turns. Only exclusive locks are supported, without `list()` and `forceRelease()`.
 *
 * @param nodes an odd number of URLs, options of ioredis, or clients, at least 3, to servers that are not replicas of
 * each other. Clients that are passed in are never closed.
 * @throws LockConfigError when the module starts, if the nodes or the options are invalid.
 *
 * @publicApi
 */
export function quorum(nodes: readonly QuorumNodeAddress[], options: QuorumOptions = {}): StoreFactory {
  return (context) => new FormerStore(new QuorumStore(nodes, options, context), context);
}

/** The store behind {@link quorum}. */
export class QuorumStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'quorum()',
    queue: false,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive'],
    resolutionMs: 1,
  };

  private readonly nodes: readonly QuorumNode[];
  private readonly deps: QuorumDeps;
  private readonly pinger: Pinger;
  /** The owners whose acquire waits for a majority to be known and is not sent yet. */
  private readonly unsent = new Set<string>();
  /** The last acquire of each owner, until all nodes have replied to it. */
  private readonly acquires = new Map<string, QuorumAcquire>();
  private round = 0;
  /** The extends that not all nodes have replied to. */
  private readonly extensions = new Set<QuorumExtend>();
  /** The longest lease that was ever requested: a lock without a release expires after it. */
  private longestLeaseMs = 0;

  constructor(nodes: readonly QuorumNodeAddress[], { nodeTimeoutMs }: QuorumOptions, context: StoreContext) {
    const { clock, requestTimeoutMs } = context;
    const timeoutMs = nodeTimeoutOf(nodeTimeoutMs, requestTimeoutMs);
    this.nodes = openNodes(nodes, context, timeoutMs);
    this.pinger = new Pinger({ clock, timeoutMs });
    this.deps = { nodes: this.nodes, clock, requestTimeoutMs, nodeTimeoutMs: timeoutMs };
  }

  listen(listener: StoreListener): () => void {
    const health = new QuorumHealth(this.nodes, this.deps.clock, listener);
    const stops = this.nodes.map((node) => node.listen(health));
    return () => {
      for (const stop of stops) stop();
    };
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { owner, expiresAt, leaseMs } = request;
    this.longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
    if (this.isPast(expiresAt)) return { status: 'expired' };
    if (!this.majorityKnown && !(await this.isWantedOnceKnown(owner, expiresAt))) return { status: 'expired' };
    if (this.isPast(expiresAt)) return { status: 'expired' };
    this.round += 1;
    const acquire = new QuorumAcquire(this.deps, request, this.round);
    this.acquires.set(owner, acquire);
    void acquire.over.then(() => this.acquires.get(owner) === acquire && this.acquires.delete(owner));
    return acquire.reply;
  }

  release({ keys: [key], owner, closedForMs }: ReleaseRequest): Promise<boolean> {
    this.unsent.delete(owner);
    this.acquires.get(owner)?.cancel();
    for (const extension of this.extensions) extension.onRelease(owner);
    const now = this.deps.clock.now();
    const closedUntil = closedForMs === 0 ? 0 : now + closedForMs;
    const forgetAt = now + this.deps.requestTimeoutMs + this.longestLeaseMs;
    const release = { key, owner, closedUntil, forgetAt };
    return queryNodes(this.nodes, 'A release', {
      send: (node) => node.release(release),
      ballotOf: (released) => (released ? 'yes' : 'no'),
      decide: (vote) => (vote.carried ? true : vote.defeated ? false : undefined),
    });
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    if (requests.length === 0) return [];
    for (const { leaseMs } of requests) this.longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
    const extension = new QuorumExtend(this.deps, requests);
    this.extensions.add(extension);
    void extension.over.then(() => this.extensions.delete(extension));
    return extension.replies;
  }

  async inspect(key: string): Promise<LockState | null> {
    if (!this.majorityKnown) await this.waitForMajority(this.deps.clock.now() + this.deps.requestTimeoutMs);
    return queryNodes(this.nodes, 'An inspection', { send: (node) => node.inspect(key), decide: stateFrom });
  }

  async ping(): Promise<StorePing> {
    const servers = await Promise.all(this.nodes.map(({ connection, name }) => this.pinger.ping(connection, name)));
    const down = servers.filter(({ isUp }) => !isUp);
    const isUp = down.length * 2 < servers.length;
    const limit = `Locks continue with ${servers.length - down.length} of ${servers.length} nodes`;
    const why = down.map(({ server, error }) => `${server}: ${error}`).join(', ');
    return { isUp, handoff: 'polling', degraded: isUp && down.length > 0 ? `${limit}: ${why}` : undefined, servers };
  }

  /** Does nothing: the module closes the connections that it opened. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * The number of requests that the store keeps, because they are not sent or not answered by all nodes.
   *
   * @internal
   */
  get inFlightCount(): number {
    return this.unsent.size + this.acquires.size + this.extensions.size;
  }

  private isPast(moment: number): boolean {
    return this.deps.clock.now() >= moment;
  }

  /** Whether the clocks of a majority are known, so that requests can be sent at once. */
  private get majorityKnown(): boolean {
    return this.nodes.filter((node) => node.known).length * 2 > this.nodes.length;
  }

  /**
   * Waits for a majority. Returns false if the owner was released during the wait: the acquire must not follow its
   * release.
   */
  private async isWantedOnceKnown(owner: string, until: number): Promise<boolean> {
    this.unsent.add(owner);
    let wanted = false;
    try {
      await this.waitForMajority(until);
    } finally {
      wanted = this.unsent.delete(owner);
    }
    return wanted;
  }

  /** Waits until the clocks of a majority are known: for `nodeTimeoutMs` if a node is down, until `until` otherwise. */
  private waitForMajority(until: number): Promise<true> {
    const soon = Math.min(until, this.deps.clock.now() + this.deps.nodeTimeoutMs);
    return queryNodes(this.nodes, 'A lock', {
      send: (node) => node.synchronise(node.outage === undefined ? until : soon),
      decide: (vote) => vote.carried || undefined,
    });
  }
}
