import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  KeyFilter,
  LockOwnership,
  ReleaseRequest,
} from '../../core/store/lock-store.js';
import { afterPromiseJobs, type Clock } from '../../core/time/clock.js';
import type { DeadlineReply, DeadlineScript } from '../../redis/deadline-requests.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { redirectionIn } from '../../redis/redirection.js';
import { acquireFailed, isErrorReply, refusesEverything, releaseFailed, toError } from '../../redis/redis-errors.js';
import type { ReplyListener } from '../../core/store/pending-reply.js';
import { wholeMs } from '../../redis/redis-script.js';
import type { NodeRequest, RedisNode } from '../../redis/topology.js';
import { OwnersOfSeveral } from './owners-of-several.js';
import { encodeEntry } from './queue-entry.js';
import { type QueuedOwners, RecentNames } from './queued-owners.js';
import { type BatchSender, Entry, type RepliesTogether, TickBatches } from './tick-batches.js';
import {
  acquireBatchScript,
  acquireManyScript,
  acquireScript,
  decodeAcquireReply,
  entriesOfAll,
  extendBatchScript,
  extendCall,
  extendScript,
  furtherHandoffs,
  furtherHandoffsOf,
  instancePartOf,
  keysOfAll,
  releaseBatchScript,
  type ReleaseReply,
  releaseScript,
  type RepliesOfBatch,
} from './token-scripts.js';
import type { TokenTopology } from './token-topology.js';

/** How long the requests of a group are sent alone after the server has refused several in one script call. */
const ALONE_MS = 5_000;

/** The reply to a request that was cancelled before it was sent. */
const EXPIRED: AcquireReply = { status: 'expired' };

/** How this instance receives handoffs. */
export interface Subscription {
  /** Returns whether handoffs of the key can be received from the node. */
  isSubscribed(key: string, node: RedisNode): boolean;
  /** Begins to receive handoffs of the key. */
  open(key: string): void;
  /** Called with each owner that got a lock in a reply. */
  onGranted(owner: string, key: string): void;
  /** Called with each owner that is released. */
  onReleased(owner: string): void;
}

/** Sends acquires, extensions and releases to the node that has the key. Requests of one tick travel together. */
export class TokenRequests {
  private readonly batches: TickBatches<
    AcquireRequest,
    AcquireReply,
    ReleaseRequest,
    boolean,
    ExtendRequest,
    ExtendReply
  >;
  /** The releases that were sent again, with the key of each. */
  private readonly repeats = new Map<Promise<void>, string>();
  /** The groups of locks whose requests are sent alone for a while, because the server refused several in one call. */
  private readonly refused = new RecentNames();
  /** What all owners of this instance begin with. */
  private instancePart = '';
  private readonly several = new OwnersOfSeveral();

  constructor(
    private readonly topology: TokenTopology,
    private readonly clock: Clock,
    private readonly queued: QueuedOwners,
    private readonly subscription: Subscription,
    /** Called with each reply that names an instance of another wire version. */
    private readonly onOtherWire: (version: number) => void = noop,
  ) {
    const groupOf = (request: LockOwnership): string => this.groupOf(request);
    const acquires: BatchSender<AcquireRequest, AcquireReply> = {
      groupOf,
      fits: (one, other) =>
        one.leaseMs === other.leaseMs &&
        one.queue === other.queue &&
        one.handoffMs === other.handoffMs &&
        one.mode === other.mode,
      sendAlone: (entry, hasOthers) => this.acquireAlone(entry, hasOthers),
      sendTogether: (requests) =>
        this.sendTogether(requests, (node) => this.runAcquireBatch(requests, node), acquireFailed),
    };
    const releases: BatchSender<ReleaseRequest, boolean> = {
      groupOf,
      fits: (one, other) =>
        one.tokens === other.tokens &&
        one.handoffMs === other.handoffMs &&
        one.mode === other.mode &&
        this.maySendTogether(one) &&
        this.maySendTogether(other),
      sendAlone: (entry, hasOthers) => this.releaseAlone(entry, hasOthers),
      sendTogether: (requests) =>
        this.sendTogether(requests, (node) => this.runReleaseBatch(requests, node), releaseFailed),
    };
    const extensions: BatchSender<ExtendRequest, ExtendReply> = {
      groupOf: topology.serverOf === undefined ? groupOf : () => '',
      fits: (one, other) => one.leaseMs === other.leaseMs && one.mode === other.mode,
      sendAlone: (entry) => void this.extendAlone(entry),
      sendTogether: (requests) => this.extendTogether(requests),
    };
    this.batches = new TickBatches(clock, acquires, releases, extensions);
  }

  /** Rejects with `LockUnavailableError`. */
  acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    if (request.keys.length === 1) return this.batches.acquire(request);
    this.batches.flush();
    const entry = new Entry<AcquireRequest, AcquireReply>(request);
    this.acquireAlone(entry, false);
    return entry;
  }

  /** Rejects with `LockUnavailableError`. */
  release(request: ReleaseRequest): PromiseLike<boolean> {
    const { keys, owner } = request;
    if (this.several.onReleased(owner, keys)) this.subscription.onReleased(owner);
    const wasUnsent = this.batches.cancel(owner, EXPIRED) || this.topology.cancelPending(owner);
    // An owner whose lock a reply granted is released too, because the lease may have been over by then.
    if (wasUnsent && !this.queued.has(owner)) return Promise.resolve(false);
    return this.batches.release(request);
  }

  /** Sends the requests at once, several in one script call. Returns a reply or an error for each. Does not reject. */
  extend(requests: readonly ExtendRequest[]): Promise<readonly (ExtendReply | Error)[]> {
    return Promise.all(this.batches.extend(requests).map((reply) => reply.then(undefined, toError)));
  }

  /** Sends the waiting requests. Call it before a request that has to arrive after them. */
  flush(): void {
    this.batches.flush();
  }

  /** Hands a lock to further sharers after a release by force. */
  handOffMore(request: ForceReleaseRequest): void {
    this.repeat(furtherHandoffsOf(request));
  }

  /** Waits until released locks are handed to all sharers that wait for them. */
  async settled(): Promise<void> {
    while (this.repeats.size > 0) await Promise.all(this.repeats.keys());
  }

  /** Forgets what was sent again for these keys, because a client may drop it with its connection. */
  onDisconnected(concerns: KeyFilter = () => true): void {
    for (const [repeated, key] of this.repeats) if (concerns(key)) this.repeats.delete(repeated);
  }

  private acquireAlone(entry: Entry<AcquireRequest, AcquireReply>, hasOthers: boolean): void {
    this.topology.request(entry.request.keys[0], new AcquireAlone(this, entry, hasOthers));
  }

  /** Runs the script of an acquire request at a node. @internal */
  runAcquire(request: AcquireRequest, node: RedisNode, deadline: string, listener: ReplyListener<DeadlineReply>): void {
    if (request.keys.length > 1) return this.runAcquireMany(request, node, deadline, listener);
    const { leaseMs, tokens, handoffMs } = request;
    const [key] = request.keys;
    const joins = this.joinQueue([request], node) ? '1' : '0';
    const own = [this.entryOf(request), wholeMs(leaseMs), deadline, String(tokens), joins, wholeMs(handoffMs)];
    const args = own.concat(this.topology.handoffArgs(key));
    acquireScript.runThen(node.connection, this.topology.keysOf(key), args, listener);
  }

  private runAcquireMany(
    request: AcquireRequest,
    { connection }: RedisNode,
    deadline: string,
    listener: ReplyListener<DeadlineReply>,
  ): void {
    const args = [this.entryOf(request), wholeMs(request.leaseMs), deadline];
    acquireManyScript.runThen(connection, keysOfAll(request.keys, this.topology), args, listener);
  }

  /**
   * Sends several requests in one script call. Returns a reply or an error for each, or undefined if they have to be
   * sent alone.
   */
  private sendTogether<Reply>(
    requests: readonly LockOwnership[],
    run: (node: RedisNode) => RepliesTogether<Reply>,
    failed: (error: unknown) => Error,
  ): RepliesTogether<Reply> | undefined {
    const [key] = requests[0].keys;
    if (this.goesAlone(key)) return undefined;
    const send = (node: RedisNode): RepliesTogether<Reply> =>
      run(node).catch((error: unknown) => {
        if (!this.isRefusedTogether(error, key)) throw error;
        return undefined;
      });
    return this.topology.sendToNode(key, send).catch((error: unknown) => {
      throw failed(error);
    });
  }

  /** Returns true if the requests of the key's group are to be sent alone. */
  private goesAlone(key: string): boolean {
    return this.refused.has(this.topology.scriptGroupOf(key), this.clock.now());
  }

  /** Returns true if the server refused a script call of several requests. They are then sent alone. */
  private isRefusedTogether(error: unknown, key: string): boolean {
    if (!isErrorReply(error) || refusesEverything(error)) return false;
    const redirection = redirectionIn(error);
    // The requests that are sent alone now go to the node that has the slot.
    if (redirection?.kind === 'moved') this.topology.learnRedirection?.(key, redirection);
    else this.refused.add(this.topology.scriptGroupOf(key), this.clock.now(), ALONE_MS);
    return true;
  }

  /** Returns undefined if a request is past its deadline, or if the server's clock is not known. */
  private async runAcquireBatch(requests: readonly AcquireRequest[], node: RedisNode) {
    const { connection } = node;
    const [first] = requests;
    const sentAt = this.clock.now();
    const expiresAt = Math.min(...requests.map((request) => request.expiresAt));
    const deadline = connection.microsAt(expiresAt);
    if (deadline === undefined || sentAt >= expiresAt) return undefined;
    const tokens = Math.max(...requests.map((request) => request.tokens));
    const joins = this.joinQueue(requests, node) ? '1' : '0';
    const args = [...entriesOfAll(requests, this.topology), wholeMs(first.leaseMs), String(deadline), String(tokens)];
    args.push(joins, wholeMs(first.handoffMs), ...this.topology.handoffArgs(first.keys[0]));
    connection.cork();
    const replies = await acquireBatchScript.run(connection, this.keysOfBatch(requests), args);
    connection.observeTime(replies.now, sentAt);
    return eachOf(requests, replies, acquireFailed, (request, reply) => this.decode(request, reply, connection));
  }

  private releaseAlone(entry: Entry<ReleaseRequest, boolean>, hasOthers: boolean): void {
    this.topology.request(entry.request.keys[0], new ReleaseAlone(this, entry, hasOthers));
  }

  /** Runs the script of a release. @internal */
  runRelease(request: ReleaseRequest, connection: RedisConnection, listener: ReplyListener<ReleaseReply>): void {
    const { keys, closedForMs, tokens, handoffMs } = request;
    const own = [this.entryOf(request), String(closedForMs), String(tokens), wholeMs(handoffMs)];
    const args = own.concat(this.topology.handoffArgs(keys[0]));
    releaseScript.runThen(connection, this.topology.keysOf(keys[0]), args, listener);
  }

  private async runReleaseBatch(requests: readonly ReleaseRequest[], { connection, failsFast }: RedisNode) {
    if (!failsFast) throw noConnection();
    const [{ keys, tokens, handoffMs }] = requests;
    const args = [...entriesOfAll(requests, this.topology), String(tokens), wholeMs(handoffMs)];
    args.push(...this.topology.handoffArgs(keys[0]));
    connection.cork();
    const replies = await releaseBatchScript.run(connection, this.keysOfBatch(requests), args);
    return eachOf(requests, replies, releaseFailed, (request, reply) => this.onReleased(request, reply));
  }

  /** Called with the reply to a release. @internal */
  onReleased(request: ReleaseRequest, { wasHeld, repeat }: ReleaseReply): boolean {
    this.queued.delete(request.owner);
    if (repeat) this.repeat(request);
    return wasHeld;
  }

  /** Sends a release that hands the lock to further sharers. */
  private repeat(request: ReleaseRequest): void {
    // If it fails, the next request of a waiter continues the handoffs.
    const repeated = this.batches.release(request).then(noop, noop);
    this.repeats.set(repeated, request.keys[0]);
    void repeated.then(() => this.repeats.delete(repeated));
  }

  private async extendAlone(entry: Entry<ExtendRequest, ExtendReply>): Promise<void> {
    const [reply] = await this.topology.runAll(extendScript, [extendCall(entry.request, this.topology)]);
    if (reply instanceof Error) entry.reject(reply);
    else entry.resolve(reply);
  }

  private extendTogether(requests: readonly ExtendRequest[]): RepliesTogether<ExtendReply> | undefined {
    const calls = requests.map((request) => extendCall(request, this.topology));
    // While a cluster moves a slot, it refuses a script with several keys. A renewal must not wait for that.
    if (this.topology.serverOf !== undefined) return this.topology.runAll(extendScript, calls);
    const keys = calls.flatMap((call) => call.keys);
    const args = [...entriesOfAll(requests, this.topology), wholeMs(requests[0].leaseMs)];
    const run = ({ connection }: RedisNode): RepliesTogether<ExtendReply> =>
      connection.together(() => extendBatchScript.run(connection, keys, args));
    return this.sendTogether(requests, run, toError);
  }

  private keysOfBatch(requests: readonly LockOwnership[]): readonly string[] {
    return keysOfAll(
      requests.map(({ keys }) => keys[0]),
      this.topology,
    );
  }

  /** Decodes the reply to an acquire request. @internal */
  decode(request: AcquireRequest, reply: DeadlineReply, from?: RedisConnection): AcquireReply {
    if (reply.more === true) this.repeat(furtherHandoffs(request));
    const decoded = decodeAcquireReply(request, reply, from);
    if (decoded.status === 'granted') this.onGranted(request);
    if (decoded.status !== 'held') return decoded;
    // From now on a subscription is worth its cost.
    if (request.queue) this.subscription.open(request.keys[0]);
    const wires = decoded.holder?.wireVersions;
    if (wires !== undefined) this.onOtherWire(wires.holder);
    return decoded;
  }

  private onGranted({ owner, keys }: AcquireRequest): void {
    // The owner's release leaves with the others of its tick, as if nobody had waited for the lock.
    this.queued.onGranted(owner);
    this.several.onGranted(owner, keys);
    this.subscription.onGranted(owner, keys[0]);
  }

  /**
   * Returns true if these owners may join their queues. Without a subscription a handoff would remove them. They are in
   * one script call, and so belong to one channel.
   */
  private joinQueue(requests: readonly AcquireRequest[], node: RedisNode): boolean {
    const [{ keys, queue }] = requests;
    if (!queue || !this.subscription.isSubscribed(keys[0], node)) return false;
    const now = this.clock.now();
    for (const request of requests) {
      const { owner, mode } = request;
      this.queued.add({ owner, mode, keys: [request.keys[0]] }, now);
    }
    return true;
  }

  /**
   * Returns whether a release may share a script call with others. Behind an exclusive owner that may have waited in a
   * queue others probably wait, and a handoff takes the server longer than a release.
   */
  private maySendTogether({ mode, owner, closedForMs }: ReleaseRequest): boolean {
    return closedForMs === 0 && (mode !== 'exclusive' || !this.queued.mayWait(owner));
  }

  /** The entries of requests with the same group and mode differ only in their attempts. A script call needs that. */
  private groupOf({ keys, owner }: LockOwnership): string {
    if (this.instancePart === '') this.instancePart = instancePartOf(owner);
    const group = this.topology.scriptGroupOf(keys[0]);
    return owner.startsWith(this.instancePart) ? group : `${group}|${instancePartOf(owner)}`;
  }

  private entryOf(request: LockOwnership): string {
    return encodeEntry(request, this.topology.secret);
  }
}

/** An acquire request with a script call of its own. */
class AcquireAlone implements NodeRequest<DeadlineReply>, DeadlineScript {
  private node: RedisNode | undefined = undefined;

  constructor(
    private readonly requests: TokenRequests,
    private readonly entry: Entry<AcquireRequest, AcquireReply>,
    private readonly hasOthers: boolean,
  ) {}

  get request(): AcquireRequest {
    return this.entry.request;
  }

  send(node: RedisNode, listener: ReplyListener<DeadlineReply>): void {
    this.node = node;
    // Each of many hash tags has a call of its own. The calls to a node leave together.
    if (this.hasOthers) node.connection.cork();
    node.deadlineRequests.sendWithDeadline(this, listener);
  }

  run(deadline: string, listener: ReplyListener<DeadlineReply>): void {
    this.requests.runAcquire(this.request, this.node as RedisNode, deadline, listener);
  }

  onReply(reply: DeadlineReply): void {
    this.entry.resolve(this.requests.decode(this.request, reply, this.node?.connection));
  }

  onFailed(error: unknown): void {
    this.entry.reject(acquireFailed(error));
  }
}

/** A release with a script call of its own. */
class ReleaseAlone implements NodeRequest<ReleaseReply> {
  constructor(
    private readonly requests: TokenRequests,
    private readonly entry: Entry<ReleaseRequest, boolean>,
    private readonly hasOthers: boolean,
  ) {}

  send({ connection, failsFast }: RedisNode, listener: ReplyListener<ReleaseReply>): void {
    // In the client's queue, releases would pile up during an outage. The releaser repeats them instead.
    if (!failsFast) return afterPromiseJobs(() => listener.onFailed(noConnection()));
    if (this.hasOthers) connection.cork();
    this.requests.runRelease(this.entry.request, connection, listener);
  }

  onReply(reply: ReleaseReply): void {
    this.entry.resolve(this.requests.onReleased(this.entry.request, reply));
  }

  onFailed(error: unknown): void {
    this.entry.reject(releaseFailed(error));
  }
}

const noop = (): void => undefined;

/** Returns what `take` makes of the reply to each request, or an error. Undefined without replies. */
function eachOf<Request, Reply, Taken>(
  requests: readonly Request[],
  { ofAll, ofEach }: RepliesOfBatch<Reply>,
  failed: (error: unknown) => Error,
  take: (request: Request, reply: Reply) => Taken,
): readonly (Taken | Error)[] | undefined {
  if (ofAll !== undefined) return requests.map((request) => take(request, ofAll));
  return ofEach?.map((reply, i) => (reply instanceof Error ? failed(reply) : take(requests[i], reply)));
}

function noConnection(): Error {
  return new Error('there is no connection');
}
