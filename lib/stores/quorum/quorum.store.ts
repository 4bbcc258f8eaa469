import { checkOptions, milliseconds } from '../../common/check-options.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockStore,
  ReleaseRequest,
  StoreListener,
} from '../../contract/store.js';
import { answer, type ReplyListener } from '../../contract/reply-listener.js';
import type { StoreContext, StoreFactory } from '../store-context.js';
import { Ballot } from './ballot.js';
import { openNodes, type QuorumNodeAddress } from './open-nodes.js';
import { poll, verdictOf } from './poll.js';
import { healthReport } from './quorum-health.js';
import type { QuorumNode } from './quorum-node.js';
import { stateOf } from './quorum-state.js';

const NODE_TIMEOUT_MS = 200;

/**
 * The options of {@link quorum}.
 *
 * @publicApi
 */
export interface QuorumOptions {
  /**
   * How long one node may be silent while a request to it is on its way, in milliseconds, from 1 to 500. It then gets
   * no requests until it replies. A result never waits for it if the replies of a majority decide. Long: if nodes hang,
   * an acquire that needs them takes that long, and blocks other callers on the remaining nodes in that time. Short:
   * nodes that pause are not counted.
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
  return (context) => new QuorumStore(nodes, options, context);
}

/** The store behind {@link quorum}. */
export class QuorumStore implements LockStore {
  readonly capabilities: LockStore['capabilities'] = {
    name: 'quorum()',
    queue: false,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive'],
    resolutionMs: 1,
  };

  private readonly nodes: readonly QuorumNode[];
  private readonly nodeTimeoutMs: number;
  /** What the owners ask for and have. */
  private readonly ballots = new Map<string, Ballot>();
  private ballotCount = 0;
  private connected: Promise<unknown> | undefined;

  constructor(
    nodes: readonly QuorumNodeAddress[],
    options: QuorumOptions,
    private readonly context: StoreContext,
  ) {
    // An acquire takes two requests if the token has to be written back.
    const most = context.requestTimeoutMs / 2;
    checkOptions('quorum()', options, { nodeTimeoutMs: milliseconds(1, most) });
    this.nodeTimeoutMs = options.nodeTimeoutMs ?? Math.min(NODE_TIMEOUT_MS, most);
    this.nodes = openNodes(nodes, context, this.nodeTimeoutMs);
  }

  listen(listener: StoreListener): void {
    const report = healthReport(this.nodes, listener);
    for (const node of this.nodes) node.listen(listener, report);
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    answer(listener, this.acquireOne(request));
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    answer(listener, this.releaseOne(request));
  }

  private async acquireOne({ key, owner, leaseMs }: AcquireRequest) {
    await (this.connected ??= this.connect());
    const name = `${owner} ${++this.ballotCount}`;
    const ballot = this.ballots.get(owner) ?? new Ballot(this.nodes, this.context.clock, key, name);
    this.ballots.set(owner, ballot);
    return ballot.acquire(leaseMs).finally(() => ballot.isOver && this.ballots.delete(owner));
  }

  private async releaseOne({ owner, closedForMs }: ReleaseRequest): Promise<boolean> {
    const ballot = this.ballots.get(owner);
    if (ballot === undefined) return false;
    const wasHeld = await ballot.release(closedForMs === 0 ? 0 : this.context.clock.now() + closedForMs);
    this.ballots.delete(owner);
    return wasHeld;
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const extendOne = async ({ owner, leaseMs }: ExtendRequest) => this.ballots.get(owner)?.extend(leaseMs) ?? 'lost';
    const replies = requests.map(extendOne);
    // The work under these locks may block the event loop.
    for (const { connection } of this.nodes) connection.uncork();
    return Promise.all(replies);
  }

  async inspect(key: string) {
    await (this.connected ??= this.connect());
    return poll(this.nodes, 'An inspection', (node) => node.inspect(key), stateOf);
  }

  serverOf(): undefined {
    return undefined;
  }

  async ping() {
    const { nodes, nodeTimeoutMs } = this;
    const servers = await Promise.all(nodes.map(({ connection, name }) => connection.ping(name, nodeTimeoutMs)));
    const up = servers.filter((server) => server.isUp).length;
    const isUp = up * 2 > servers.length;
    const why = servers.flatMap(({ server, error }) => (error === undefined ? [] : `${server}: ${error}`)).join(', ');
    const degraded = isUp && why !== '' ? `Locks continue with ${up} of ${servers.length} nodes: ${why}` : undefined;
    return { isUp, handoff: 'polling', degraded, servers } as const;
  }

  /** The module closes the connections that it opened. */
  async close(): Promise<void> {
    for (const node of this.nodes) node.close();
  }

  /** Waits for the first connections. A caller must not keep the lock on some nodes while it waits for others. */
  private connect(): Promise<unknown> {
    const until = this.context.clock.now() + this.context.requestTimeoutMs;
    const connectTo = ({ connection }: QuorumNode): Promise<boolean> => connection.reached(until).then(() => true);
    return poll(this.nodes, 'A connection', connectTo, verdictOf).catch(() => undefined);
  }
}
