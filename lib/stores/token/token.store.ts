import { forwardTo } from '../../core/store/forward-to.js';
import { type Clock, withTimeout } from '../../core/time/clock.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  ListedLock,
  ListRequest,
  LockOwnership,
  LockState,
  KeyFilter,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  ServerConnection,
  StoreListener,
  StorePing,
} from '../../core/store/lock-store.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { withinTime } from '../../redis/key-scan.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import type { RedisScript } from '../../redis/redis-script.js';
import type { StoreContext } from '../store-context.js';
import type { Call } from '../../redis/topology.js';
import { extendReplies } from '../extend-replies.js';
import { listLocks, type LockSource } from '../list-locks.js';
import { toStorePing } from '../ping-reply.js';
import { warnOnce } from '../warn-once.js';
import { CHANNEL_OF_TAG, HandoffChannels, ONE_CHANNEL } from './handoff/handoff-channels.js';
import { decodeForced, decodeHandoff, type HandoffGrant } from './handoff/handoff-message.js';
import { ForcedReleases } from './forced-releases.js';
import { QueuedOwners, RecentNames } from './queued-owners.js';
import { type Subscription, TokenRequests } from './token-requests.js';
import { inspectScript, isFoundElsewhere, lockOf, queueScript, stateOf } from './token-scripts.js';
import { tokenTopology, type TokenTopology } from './token-topology.js';
import { otherWireWarning } from '../../redis/wire.js';

/** Keeps the script for several locks short, because Redis runs one script at a time. */
const MAX_KEYS = 256;

/** The store behind `token()`. */
export class TokenStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'token()',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    maxKeys: MAX_KEYS,
    replicas: true,
    resolutionMs: 1,
  };

  readonly serverOf: LockStore['serverOf'];
  readonly topology: TokenTopology;
  /** @internal Public for tests. */
  handoffs: HandoffChannels | undefined;
  private readonly clock: Clock;
  private readonly requestTimeoutMs: number;
  private readonly queued = new QueuedOwners();
  /** The owners whose locks stay closed for a while after their release. */
  private readonly closed = new RecentNames();
  private readonly requests: TokenRequests;
  private readonly forced: ForcedReleases;
  private listener: StoreListener | undefined;
  /** Why handoffs cannot be received. Undefined if they can, or if that has not been tried yet. */
  private refusal: string | undefined;
  /** Whether a caller has needed handoffs. Until then, only long holds try to receive messages. */
  private isAwaited = false;
  /** Reports once that waiting costs more requests. */
  private readonly warn = warnOnce((message) => this.listener?.onDegraded(message));

  constructor(context: StoreContext) {
    this.clock = context.clock;
    this.requestTimeoutMs = context.requestTimeoutMs;
    this.topology = tokenTopology(context);
    this.serverOf = this.topology.serverOf?.bind(this.topology);
    const subscription: Subscription = {
      isSubscribed: (key, node) => this.handoffs?.isSubscribed(key, node) === true,
      open: (key) => this.openHandoffs(key),
      onGranted: (owner, key) => this.handoffs?.onGranted(owner, key),
      onReleased: (owner) => this.handoffs?.onReleased(owner),
    };
    const warn = warnOnce((message) => this.listener?.onDegraded(message));
    this.requests = new TokenRequests(this.topology, this.clock, this.queued, subscription, (version) =>
      warn(otherWireWarning(version)),
    );
    this.forced = new ForcedReleases(this.topology, this.clock, this.requestTimeoutMs, this.requests);
  }

  connections(): Iterable<ServerConnection> {
    return this.topology.connections();
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const onDisconnected = (concerns?: KeyFilter): void => {
      this.requests.onDisconnected(concerns);
      listener.onDisconnected(concerns);
    };
    const { topology, clock, requestTimeoutMs } = this;
    const times = this.serverOf === undefined ? ONE_CHANNEL : CHANNEL_OF_TAG;
    const deps = { clock, requestTimeoutMs };
    this.handoffs = new HandoffChannels(listener.instanceId, topology, times, deps, {
      onMessage: (message, from) => this.onMessage(message, from, listener),
      onSubscribed: (concerns) => {
        this.refusal = undefined;
        listener.onSubscribed(concerns);
      },
      onRefused: (why) => {
        this.refusal = why;
        this.reportRefusal();
      },
    });
    return topology.watch(forwardTo(listener, { onDisconnected }), this.handoffs.subscriptions);
  }

  acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    return this.requests.acquire(request);
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    const { owner, closedForMs } = request;
    if (closedForMs > 0) this.closed.add(owner, this.clock.now(), closedForMs);
    return this.requests.release(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return extendReplies(requests, await this.requests.extend(requests), this.listener);
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return this.forced.release(request);
  }

  /** Waits until the holders of locks that were released by force are notified, for at most 3 s. */
  notified(): Promise<void> {
    return this.forced.notified();
  }

  async inspect(key: string): Promise<LockState | null> {
    this.requests.flush();
    try {
      const [lock, , queue] = this.topology.keysOf(key);
      // Two scripts with one key each: while a cluster migrates a slot, a script with several keys is refused.
      const reads = [this.read(key, inspectScript, lock), this.read(key, queueScript, queue)] as const;
      return stateOf(...(await Promise.all(reads)), this.topology.nodeOf(key)?.connection);
    } catch (error) {
      throw unavailableBecause(error, 'an inspection');
    }
  }

  list(request: ListRequest): AsyncIterable<ListedLock> {
    const { clock, requestTimeoutMs } = this;
    const pages = this.topology.scan(request);
    const inspectAll: LockSource['inspectAll'] = (keys) => withinTime(this.statesOf(keys), { clock, requestTimeoutMs });
    return listLocks(request, { pages, lockOf, inspectAll, isFoundElsewhere });
  }

  async ping(): Promise<StorePing> {
    return toStorePing(await this.topology.ping(), DEGRADED, this.isAwaited ? this.refusal : undefined);
  }

  close(): Promise<void> {
    this.forced.close();
    this.handoffs?.close();
    // A late reply must not open the channels again.
    this.handoffs = undefined;
    return withTimeout(this.clock, this.requestTimeoutMs, this.requests.settled(), () => undefined);
  }

  /** Receives handoffs of the key from now on, for a caller that waits. */
  private openHandoffs(key: string): void {
    if (!this.isAwaited) {
      this.isAwaited = true;
      this.reportRefusal();
    }
    this.handoffs?.open(key);
  }

  /** An application in which nobody waits is not limited by a refusal. */
  private reportRefusal(): void {
    if (this.isAwaited && this.refusal !== undefined) this.warn(`${DEGRADED}: ${this.refusal}`);
  }

  private async statesOf(keys: readonly string[]): Promise<readonly (LockState | null | Error)[]> {
    const { topology } = this;
    const names = keys.map((key) => ({ key, names: topology.keysOf(key) }));
    const calls = (nth: 0 | 2): Call[] => names.map(({ key, names: each }) => ({ key, keys: [each[nth]], args: [] }));
    const reads = [topology.runAll(inspectScript, calls(0)), topology.runAll(queueScript, calls(2))] as const;
    const [locks, queues] = await Promise.all(reads);
    return locks.map((lock, i) => {
      const queue = queues[i];
      if (lock instanceof Error) return lock;
      return queue instanceof Error ? queue : stateOf(lock, queue, topology.nodeOf(keys[i])?.connection);
    });
  }

  /** Has no time limit, because the engine limits an inspection. Its probes of a silent server depend on that. */
  private read<T>(key: string, script: RedisScript<T>, name: string): Promise<T> {
    return this.topology.sendToNode(key, ({ connection }) => script.run(connection, [name], []));
  }

  private onMessage(message: string, from: RedisConnection, listener: StoreListener): void {
    const forced = decodeForced(message);
    if (forced !== undefined) return listener.onForceReleased?.(forced.slice(this.topology.prefix.length));
    const decoded = decodeHandoff(message, this.topology.secret);
    if (decoded === undefined) return;
    const { attempt, grant } = decoded;
    const owner = `${listener.instanceId}:${attempt}`;
    // The lock stays closed after this owner: a message that is repeated must not open it.
    if (this.closed.has(owner, this.clock.now())) return;
    const queued = this.queued.get(owner);
    // A message without proof neither grants nor releases anything: waiters repeat their request.
    if (grant === undefined) return queued && listener.onReleased(queued.keys[0]);
    // An owner that was granted nothing repeats its request.
    if (grant.grantedAt === undefined)
      return queued && listener.onHandoff({ ...grant, ...queued, grantedAt: undefined });
    const grantedAt = from.localLowerBound(grant.grantedAt);
    if (queued !== undefined) this.handoffs?.onGranted(owner, queued.keys[0]);
    const ownership = queued ?? this.formerOwnership(owner, grant, grantedAt);
    if (ownership !== undefined) listener.onHandoff({ ...grant, ...ownership, grantedAt });
  }

  /**
   * Returns the lock of an owner that this instance has released. After a failover the queue may contain the owner,
   * because the new master missed that release. The engine then releases the lock again. Returns undefined if the
   * lease has expired: then the message is an old one that somebody repeats.
   */
  // Without a reading of the server's clock the lease counts as running.
  private formerOwnership(
    owner: string,
    { key, mode, leaseMs }: HandoffGrant,
    grantedAt = Infinity,
  ): LockOwnership | undefined {
    const { prefix } = this.topology;
    if (!key.startsWith(prefix) || this.clock.now() > grantedAt + leaseMs) return undefined;
    return { owner, mode, keys: [key.slice(prefix.length)] };
  }
}

const DEGRADED = 'Waiting for locks costs more requests, because handoffs cannot be received';
