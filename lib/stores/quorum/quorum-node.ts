import type { Timer } from '../../core/time/clock.js';
import { dropOldest } from '../../core/drop-oldest.js';
import { LockUnavailableError } from '../../core/errors.js';
import type { StoreOperation } from '../../core/store/refusals.js';
import { SILENT_LIMITS } from '../../core/store/server-signs.js';
import type { FenceKeys } from '../../redis/fence-keys.js';
import type { ServerClient } from '../../redis/client-port.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { type RedisScript, wholeMs } from '../../redis/redis-script.js';
import { UnansweredError } from '../contract.js';
import { PendingRequests } from '../pending-requests.js';
import type { StoreContext } from '../store-context.js';
import {
  acquireScript,
  extendScript,
  inspectScript,
  type NodeLock,
  type NodeVote,
  releaseScript,
  writeBackScript,
} from './node-lock.js';

/** What a node is asked about: the lock of a key for one ballot. */
export interface Candidate {
  readonly key: string;
  /** Names the ballot on the nodes. Never used again after its release. */
  readonly ballot: string;
}

/** A release of a ballot. */
export interface NodeRelease extends Candidate {
  /** The local moment until which the node keeps the lock closed. A moment in the past: it is free now. */
  readonly closedUntil: number;
  /** The local moment at which the lease is over without a release. */
  readonly forgetAt: number;
}

export interface NodeListener {
  onDown(): void;
  onUp(node: QuorumNode): void;
  /** A connection that had ended is back, perhaps to a server that has lost locks. */
  onReconnected(): void;
  /** A request to the node failed. */
  onFailed(node: QuorumNode, operation: StoreOperation, key: string, error: unknown): void;
}

/** Beyond this number the oldest releases are dropped, and their locks expire with their leases. */
const MOST_OWED = 10_000;

/**
 * One of the masters, with its own connection. A node that is silent gets no further requests until it replies, so that
 * callers wait for it once only. Every method rejects with a `LockUnavailableError` that names the node.
 */
export class QuorumNode {
  /** Why the node cannot be reached. Undefined while it can, as far as is known. */
  outage: Error | undefined;
  readonly connection: RedisConnection;
  private readonly requests: PendingRequests;
  /** The releases that the node has missed, each once. It gets them when it is up. */
  private readonly owed = new Map<string, NodeRelease>();
  private listener: NodeListener | undefined;
  private onTheirWay = 0;
  private wasLost = false;
  private resetTimer: Timer | undefined;

  constructor(
    /** The node's address, without password. */
    readonly name: string,
    readonly client: ServerClient,
    private readonly context: Pick<StoreContext, 'clock' | 'requestTimeoutMs'>,
    nodeTimeoutMs: number,
    private readonly fences: FenceKeys,
  ) {
    const { clock, requestTimeoutMs } = context;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    const times = { clock, requestTimeoutMs: nodeTimeoutMs };
    const servers = { connections: () => [this.connection] };
    this.requests = new PendingRequests(times, servers, (silence) => this.onSilent(silence));
  }

  /** Begins to watch the connection. Returns a function that ends it. */
  listen(listener: NodeListener): () => void {
    this.listener = listener;
    const stop = this.connection.listen({
      // Not reported: the requests end, and the other nodes reply. The connection reports a lasting outage.
      onDisconnected: () => {
        this.outage = new Error('the connection has ended');
        this.wasLost = true;
        this.resetTimer?.cancel();
        this.requests.cut();
      },
      // Reported when the server has replied.
      onReconnected: () => undefined,
      onUnreachable: (error) => this.onDown(error),
      onReachable: () => this.onUp(),
    });
    return () => {
      stop();
      this.resetTimer?.cancel();
      this.requests.close();
    };
  }

  /** Whether requests are sent to the node. */
  get isReady(): boolean {
    return this.connection.ready && !(this.outage instanceof UnansweredError);
  }

  /** Waits for the first connection. */
  async connected(): Promise<void> {
    const { clock, requestTimeoutMs } = this.context;
    if (!this.isReady && this.outage === undefined)
      await this.connection.synchronise(clock.now() + requestTimeoutMs).catch(() => undefined);
    this.demandReady();
  }

  /**
   * Asks for the lock.
   *
   * @param proposed the token that the node gives if it is higher than all others.
   * @param onVote called with the vote, even if it comes after this has failed.
   */
  acquire(
    { key, ballot }: Candidate,
    leaseMs: number,
    proposed: number,
    onVote: (vote: NodeVote) => void,
  ): Promise<unknown> {
    const sentAt = this.context.clock.now();
    const args = [ballot, wholeMs(leaseMs), String(proposed)];
    return this.send('acquire', key, acquireScript, [key, this.fences.of(key)], args, (vote) => {
      this.connection.observeTime(vote.now, sentAt);
      onVote(vote);
    });
  }

  /** Writes the token of a grant to the node. Returns false if the ballot does not have the lock there. */
  writeBack({ key, ballot }: Candidate, token: number): Promise<boolean> {
    return this.send('acquire', key, writeBackScript, [key, this.fences.of(key)], [ballot, String(token)]);
  }

  /** Releases the lock. If that fails, it rejects, and the node gets the release again when it is up. */
  async release(release: NodeRelease): Promise<boolean> {
    const { key, ballot, closedUntil } = release;
    const closedForMs = Math.max(0, Math.ceil(closedUntil - this.context.clock.now()));
    this.owed.delete(ballot);
    try {
      return await this.send('release', key, releaseScript, [key], [ballot, String(closedForMs)]);
    } catch (error) {
      if (!(error as LockUnavailableError).permanent) this.owed.set(ballot, release);
      dropOldest(this.owed, MOST_OWED);
      throw error;
    }
  }

  /** Renews the lease. Returns 1: renewed, 0: another owner has the lock there, or -1: nobody has it there. */
  extend({ key, ballot }: Candidate, leaseMs: number): Promise<number> {
    return this.send('extend', key, extendScript, [key], [ballot, wholeMs(leaseMs)]);
  }

  /** Returns what the node keeps of a lock. Null if it is free there. */
  inspect(key: string): Promise<NodeLock | null> {
    return this.send(undefined, key, inspectScript, [key], []);
  }

  private async send<T>(
    operation: StoreOperation | undefined,
    key: string,
    script: RedisScript<T>,
    keys: readonly string[],
    args: readonly string[],
    onReply: (reply: T) => void = () => undefined,
  ): Promise<T> {
    try {
      this.demandReady();
      // Requests of many callers leave in one packet. A single one waits for nothing.
      if (this.onTheirWay > 0) this.connection.cork();
      this.onTheirWay += 1;
      const reply = script.run(this.connection, keys, args).finally(() => (this.onTheirWay -= 1));
      reply.then(onReply, () => undefined);
      return await this.requests.expect(key, () => reply);
    } catch (error) {
      const named = this.errorOf(error);
      if (operation !== undefined) this.listener?.onFailed(this, operation, key, named);
      throw named;
    }
  }

  private demandReady(): void {
    if (this.outage instanceof UnansweredError)
      throw this.errorOf(new Error('it has not answered an earlier request yet'));
    if (!this.connection.ready) throw this.errorOf(this.outage ?? this.connection.whyNotReady());
  }

  private errorOf(error: unknown): LockUnavailableError {
    return unavailableBecause(error, `a request to ${this.name}`);
  }

  private onSilent(silence: Error): void {
    const { clock, requestTimeoutMs } = this.context;
    // A connection that no longer leads anywhere would be waited for.
    this.resetTimer?.cancel();
    this.resetTimer = clock.schedule(SILENT_LIMITS * requestTimeoutMs, () => this.connection.reset(), true);
    this.onDown(silence);
  }

  private onDown(outage: Error): void {
    this.outage = outage;
    this.listener?.onDown();
  }

  private onUp(): void {
    const { outage, wasLost, owed } = this;
    this.outage = undefined;
    this.wasLost = false;
    this.resetTimer?.cancel();
    if (outage !== undefined) this.listener?.onUp(this);
    if (owed.size > 0) this.sendOwed();
    if (wasLost) this.listener?.onReconnected();
  }

  private sendOwed(): void {
    const now = this.context.clock.now();
    const releases = [...this.owed.values()];
    this.owed.clear();
    for (const release of releases) if (release.forgetAt > now) this.release(release).catch(() => undefined);
  }
}
