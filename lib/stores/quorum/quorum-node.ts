import type { Clock } from '../../core/time/clock.js';
import { dropOldest } from '../../core/drop-oldest.js';
import { LockUnavailableError } from '../../core/errors.js';
import type { ExtendRequest, LockOwnership } from '../../core/store/lock-store.js';
import type { StoreOperation } from '../../core/store/refusals.js';
import type { FenceKeys } from '../../redis/fence-keys.js';
import type { ServerClient } from '../../redis/client-port.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { wholeMs } from '../../redis/redis-script.js';
import { InFlight } from './quorum-in-flight.js';
import {
  acquireScript,
  extendScript,
  inspectScript,
  type NodeAcquireReply,
  type NodeExtendReply,
  type NodeLock,
  type NodeVote,
  releaseScript,
  restoreScript,
  writeBackScript,
} from './quorum-scripts.js';

/** An acquire request, as every node receives it. */
export interface NodeAcquire extends LockOwnership {
  /** Rises with every acquire of a store. A node ignores a round of the same owner that is lower than the last one. */
  readonly round: number;
  readonly leaseMs: number;
  /** How many tokens the node reserves. */
  readonly tokens: number;
  readonly proposedToken: number;
  /** The moment on the local clock after which a node must ignore the request. */
  readonly expiresAt: number;
}

/** A release of one owner on one node. */
export interface NodeRelease {
  readonly key: string;
  /** The owner, alone or with the only round that is released. */
  readonly owner: string;
  /** The local moment until which the node keeps the lock. 0 releases it now. */
  readonly closedUntil: number;
  /** The local moment at which the lease expires without a release. */
  readonly forgetAt: number;
}

export interface NodeTimeouts {
  readonly requestTimeoutMs: number;
  readonly nodeTimeoutMs: number;
}

/** Called when a node becomes unreachable or reachable, and with the outcomes of its requests. */
export interface NodeListener {
  onDown(node: QuorumNode): void;
  onUp(node: QuorumNode): void;
  /** A connection that had ended is back, perhaps to a server that has lost locks. */
  onReconnected(): void;
  /** A request to the node failed. */
  onFailed(node: QuorumNode, operation: StoreOperation, key: string, error: unknown): void;
}

/**
 * One of the masters, with its own connection and server clock. A node with an overdue reply gets no further requests
 * until it replies, so that requests do not pile up and callers do not wait for it again. Every method rejects with a
 * `LockUnavailableError` that names the node.
 */
export class QuorumNode {
  /** Why the node cannot be reached. Undefined while it can, as far as is known. */
  outage: Error | undefined;
  readonly connection: RedisConnection;
  private readonly inFlight: InFlight;
  private readonly pendingReleases = new PendingReleases();
  private listener: NodeListener | undefined;
  private wasLost = false;
  /** A caller has waited for the node's clock and did not learn it. */
  private isSilent = false;

  constructor(
    /** The node's address, without password. */
    readonly name: string,
    readonly client: ServerClient,
    private readonly clock: Clock,
    { requestTimeoutMs, nodeTimeoutMs }: NodeTimeouts,
    private readonly fences: FenceKeys,
  ) {
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    this.inFlight = new InFlight(clock, nodeTimeoutMs, {
      onOverdue: () => this.setDown(new Error(`no reply within ${nodeTimeoutMs} ms`)),
      onRecovered: () => this.setUp(),
    });
  }

  /** Begins to watch the connection. Returns a function that ends it. */
  listen(listener: NodeListener): () => void {
    this.listener = listener;
    const stop = this.connection.listen({
      // The end of one connection is not reported: every request has a timeout, and the other nodes still reply.
      onDisconnected: () => {
        this.inFlight.forget();
        this.wasLost = true;
        this.outage ??= new Error('the connection has ended');
      },
      // Reported once the node's clock is known: before that it gets no requests.
      onReconnected: () => undefined,
      onUnreachable: (error) => this.setDown(error),
      onReachable: () => this.setUp(),
    });
    return () => {
      stop();
      this.inFlight.forget();
    };
  }

  /** Whether the node's clock is known. Without it no deadline can be sent. */
  get known(): boolean {
    return this.microsAt(this.clock.now()) !== undefined;
  }

  /** Returns a server time in µs that is not later than the local moment `at`. Undefined while the clock is unknown. */
  microsAt(at: number): number | undefined {
    return this.connection.microsAt(at);
  }

  /** Waits until the node's clock is known, at most until the local moment `until`. */
  async synchronise(until: number): Promise<void> {
    await this.connection.synchronise(until).catch((error: unknown) => {
      throw this.errorOf(error);
    });
    if (this.known) return;
    this.isSilent = true;
    throw this.noConnection();
  }

  /**
   * Sends an acquire request and returns the node's vote.
   * @param beforeSend is called right before the request is sent. False cancels it.
   */
  async acquire(request: NodeAcquire, beforeSend: () => boolean): Promise<NodeVote> {
    // A node that is neither known nor down is still connecting. Meanwhile a caller has the lock on other nodes. If
    // each caller waited here, several could keep each other from a majority forever, so only one does.
    if (this.known || this.isSilent || this.outage !== undefined) this.demandReady();
    if (!this.known) await this.synchronise(request.expiresAt);
    let reply = await this.acquireOnce(request, beforeSend);
    // The node's clock may have been set forward. The reply has corrected the known time, so the second try can
    // succeed.
    if (reply.status === 'expired') reply = await this.acquireOnce(request, beforeSend);
    if (reply.status !== 'expired') return reply;
    throw this.errorOf(new Error('the request could not be delivered in time'));
  }

  /**
   * Writes the agreed token to the node and raises its fence to `last`. Returns false if the round does not hold the
   * lock there.
   * @param holder the owner with its round.
   */
  writeBack({ keys: [key] }: NodeAcquire, holder: string, token: number, last: number): Promise<boolean> {
    const args = [holder, String(token), String(last)];
    return this.track(writeBackScript.run(this.connection, this.keysOf(key), args));
  }

  /**
   * Releases the lock on the node. If that fails, it rejects and repeats the release when the node is reachable again.
   */
  async release(release: NodeRelease): Promise<boolean> {
    const { key, owner, closedUntil } = release;
    const closedForMs = closedUntil === 0 ? 0 : Math.max(0, Math.ceil(closedUntil - this.clock.now()));
    try {
      this.demandReady();
      this.corkIfBusy();
      return await this.track(releaseScript.run(this.connection, [key], [owner, String(closedForMs)]));
    } catch (error) {
      this.listener?.onFailed(this, 'release', key, error);
      if (!(error as LockUnavailableError).permanent) this.pendingReleases.add(release);
      throw error;
    }
  }

  /** Extends many locks with one packet. Returns a reply or an error for each, in the same order. */
  async extend(requests: readonly ExtendRequest[]): Promise<readonly (NodeExtendReply | Error)[]> {
    this.demandReady();
    const calls = requests.map(({ keys: [key], owner, leaseMs }) => {
      return { keys: this.keysOf(key), args: [owner, wholeMs(leaseMs)] };
    });
    const replies = await this.track(extendScript.runAll(this.connection, calls));
    for (const [i, reply] of replies.entries()) {
      const [key] = requests[i].keys;
      if (reply instanceof Error) this.listener?.onFailed(this, 'extend', key, this.errorOf(reply));
    }
    return replies;
  }

  /** Restores a lock that the node has lost. Returns false if the key is taken or the request arrived after `until`. */
  async restore({ keys, leaseMs }: ExtendRequest, value: string, fence: number, until: number): Promise<boolean> {
    const [key] = keys;
    const deadline = this.microsAt(until);
    if (deadline === undefined) return false;
    const args = [value, String(fence), wholeMs(leaseMs), String(deadline)];
    return this.track(restoreScript.run(this.connection, this.keysOf(key), args));
  }

  /** Returns what the node keeps of a lock. Null if the lock is free there. */
  async inspect(key: string): Promise<NodeLock | null> {
    this.demandReady();
    return this.track(inspectScript.run(this.connection, [key], []));
  }

  /** Returns an error that names this node. */
  errorOf(error: unknown): LockUnavailableError {
    return error instanceof LockUnavailableError ? error : unavailableBecause(error, `a request to ${this.name}`);
  }

  private async acquireOnce(request: NodeAcquire, beforeSend: () => boolean): Promise<NodeAcquireReply> {
    const { keys, owner, round, leaseMs, tokens, proposedToken, expiresAt } = request;
    const [key] = keys;
    const deadline = this.microsAt(expiresAt);
    const sentAt = this.clock.now();
    if (deadline === undefined || sentAt >= expiresAt || !beforeSend()) return { status: 'expired', now: 0 };
    const numbers = [wholeMs(leaseMs), String(deadline), String(tokens), String(proposedToken)];
    const args = [owner, String(round), ...numbers];
    this.corkIfBusy();
    try {
      const reply = await this.track(acquireScript.run(this.connection, this.keysOf(key), args));
      this.connection.observeTime(reply.now, sentAt);
      return reply;
    } catch (error) {
      this.listener?.onFailed(this, 'acquire', key, error);
      throw error;
    }
  }

  /** Lets requests of many callers leave in one packet. A single lock waits for nothing. */
  private corkIfBusy(): void {
    if (this.inFlight.isBusy) this.connection.cork();
  }

  private setDown(outage: Error): void {
    this.outage = outage;
    this.listener?.onDown(this);
  }

  private setUp(): void {
    const wasDown = this.outage !== undefined;
    this.outage = undefined;
    if (wasDown) this.listener?.onUp(this);
    for (const release of this.pendingReleases.take(this.clock.now())) this.release(release).catch(() => undefined);
    const { wasLost } = this;
    this.wasLost = false;
    this.isSilent = false;
    if (wasLost) this.listener?.onReconnected();
  }

  /** Throws if nothing can be sent now. */
  private demandReady(): void {
    if (this.inFlight.overdue || (this.isSilent && !this.known))
      throw this.errorOf(new Error('it has not answered an earlier request yet'));
    if (!this.connection.ready) throw this.noConnection();
  }

  private noConnection(): LockUnavailableError {
    return this.errorOf(this.outage ?? this.connection.whyNotReady());
  }

  private keysOf(key: string): readonly string[] {
    return [key, this.fences.of(key)];
  }

  private async track<T>(reply: Promise<T>): Promise<T> {
    try {
      return await this.inFlight.track(reply);
    } catch (error) {
      throw this.errorOf(error);
    }
  }
}

/** Beyond this number the oldest pending releases are dropped, and their locks expire with their leases. */
const MAX_PENDING = 10_000;

/** The releases that a node has not received, each once. */
class PendingReleases {
  private readonly releases = new Map<string, NodeRelease>();

  add(release: NodeRelease): void {
    this.releases.set(`${release.key} ${release.owner}`, release);
    dropOldest(this.releases, MAX_PENDING);
  }

  /** Removes all releases and returns those whose leases are not over. */
  take(now: number): readonly NodeRelease[] {
    if (this.releases.size === 0) return [];
    const due = [...this.releases.values()].filter(({ forgetAt }) => forgetAt > now);
    this.releases.clear();
    return due;
  }
}
