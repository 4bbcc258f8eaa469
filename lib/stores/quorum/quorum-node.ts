import { dropOldest } from '../../core/drop-oldest.js';
import { LockUnavailableError } from '../../core/errors.js';
import { Refusals, type StoreOperation } from '../../core/store/refusals.js';
import { SILENT_LIMITS } from '../../core/store/server-signs.js';
import type { ServerClient } from '../../redis/client-port.js';
import type { FenceKeys } from '../../redis/fence-keys.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { type RedisScript, wholeMs } from '../../redis/redis-script.js';
import { type StoreListener, UnansweredError } from '../contract.js';
import { PendingRequests } from '../pending-requests.js';
import type { StoreContext } from '../store-context.js';
import {
  acquireScript,
  extendScript,
  inspectScript,
  type NodeVote,
  releaseScript,
  writeBackScript,
} from './node-lock.js';

/** A release of a ballot on a node. */
export interface NodeRelease {
  readonly key: string;
  readonly ballot: string;
  /** The local moment until which the node keeps the lock closed. A moment in the past: it is free now. */
  readonly closedUntil: number;
  /** The local moment at which the lease is over without a release. */
  readonly forgetAt: number;
}

/** Beyond this number the oldest releases are dropped, and their locks expire with their leases. */
const MOST_OWED = 10_000;

/**
 * One of the masters, with its own connection: the primitive of which a quorum is composed. A node that is silent gets
 * no requests until it replies, so that callers wait for it once only. Every method rejects with a
 * `LockUnavailableError` that names the node.
 */
export class QuorumNode {
  /** Why the node cannot be reached. Undefined while it can, as far as is known. */
  outage: Error | undefined;
  readonly connection: RedisConnection;
  private readonly requests: PendingRequests;
  private readonly refusals: Refusals;
  /** The releases that the node has missed, by their ballots. It gets them when it is up. */
  private readonly owed = new Map<string, NodeRelease>();
  private listener: StoreListener | undefined;
  private onChanged: (() => void) | undefined;
  private onTheirWay = 0;
  private wasLost = false;
  private stopWatching: (() => void) | undefined;

  constructor(
    /** The node's address, without password. */
    readonly name: string,
    readonly client: ServerClient,
    private readonly context: StoreContext,
    nodeTimeoutMs: number,
    private readonly fences: FenceKeys,
  ) {
    const { clock, requestTimeoutMs } = context;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    const servers = { connections: () => [this.connection] };
    const times = { clock, requestTimeoutMs: nodeTimeoutMs };
    this.requests = new PendingRequests(times, servers, (silence) => this.onSilent(silence));
    const warn = (message: string): void => this.listener?.onDegraded(message);
    this.refusals = new Refusals(warn, () => clock.now());
  }

  /** Begins to watch the connection. @param onChanged called when the node is up, or is seen to be down. */
  listen(listener: StoreListener, onChanged: () => void): void {
    this.listener = listener;
    this.onChanged = onChanged;
    this.stopWatching = this.connection.listen({
      onDisconnected: () => this.onLost(),
      // Reported when the server has replied.
      onReconnected: () => undefined,
      onUnreachable: (error) => this.onDown(error),
      onReachable: () => this.onUp(),
    });
  }

  close(): void {
    this.stopWatching?.();
    this.requests.close();
  }

  /** Whether requests are sent to the node. */
  get isReady(): boolean {
    return this.connection.ready && !(this.outage instanceof UnansweredError);
  }

  /**
   * Asks for the lock.
   *
   * @param proposed the token that the node gives if it is higher than all others.
   * @param onVote called with the vote, even if it comes after the request has failed.
   */
  acquire(key: string, ballot: string, leaseMs: number, proposed: number, onVote: (vote: NodeVote) => void) {
    const sentAt = this.context.clock.now();
    const args = [ballot, wholeMs(leaseMs), String(proposed)];
    return this.send('acquire', acquireScript, [key, this.fences.of(key)], args, ({ vote, now }) => {
      this.connection.observeTime(now, sentAt);
      onVote(vote);
    });
  }

  /** Writes the token of a grant to the node. Returns false if the ballot does not have the lock there. */
  writeBack(key: string, ballot: string, token: number): Promise<boolean> {
    return this.send('acquire', writeBackScript, [key, this.fences.of(key)], [ballot, String(token)]);
  }

  /** Releases the lock. If that fails, it rejects, and the node gets the release again when it is up. */
  async release(release: NodeRelease): Promise<boolean> {
    const { key, ballot, closedUntil } = release;
    const closedForMs = Math.max(0, closedUntil - this.context.clock.now());
    try {
      return await this.send('release', releaseScript, [key], [ballot, wholeMs(closedForMs)]);
    } catch (error) {
      if (!(error as LockUnavailableError).permanent) this.owed.set(ballot, release);
      dropOldest(this.owed, MOST_OWED);
      throw error;
    }
  }

  /** Renews the lease. Returns 1: renewed, 0: another owner has the lock there, or -1: nobody has it there. */
  extend(key: string, ballot: string, leaseMs: number): Promise<number> {
    return this.send('extend', extendScript, [key], [ballot, wholeMs(leaseMs)]);
  }

  /** Returns what the node keeps of a lock. Null if it is free there. */
  inspect(key: string) {
    return this.send(undefined, inspectScript, [key], []);
  }

  private async send<T>(
    operation: StoreOperation | undefined,
    script: RedisScript<T>,
    keys: readonly string[],
    args: readonly string[],
    onReply?: (reply: T) => void,
  ): Promise<T> {
    const { connection, outage } = this;
    try {
      if (outage instanceof UnansweredError) throw new Error('it has not answered an earlier request yet');
      if (!connection.ready) throw outage ?? connection.whyNotReady();
      // Requests of many callers leave in one packet. A single one waits for nothing.
      if (this.onTheirWay > 0) connection.cork();
      this.onTheirWay += 1;
      const reply = script.run(connection, keys, args).finally(() => (this.onTheirWay -= 1));
      reply.then(onReply, () => undefined);
      return await this.requests.expect(keys[0], () => reply);
    } catch (error) {
      const named = unavailableBecause(error, `a request to ${this.name}`);
      if (operation !== undefined) this.refusals.onFailed(operation, keys[0], named, this.name);
      throw named;
    }
  }

  private onSilent(silence: Error): void {
    if (this.outage instanceof UnansweredError) return;
    this.onDown(silence);
    const { clock, requestTimeoutMs } = this.context;
    const reset = (): void => void (this.outage === silence && this.connection.reset());
    // A connection that leads nowhere would be waited for.
    clock.schedule(SILENT_LIMITS * requestTimeoutMs, reset, true);
  }

  /** Not reported: its requests end, and the other nodes reply. The connection reports a lasting outage. */
  private onLost(): void {
    this.outage = new Error('the connection has ended');
    this.wasLost = true;
    this.requests.cut();
  }

  private onDown(outage: Error): void {
    this.outage = outage;
    this.onChanged?.();
  }

  private onUp(): void {
    const { outage, wasLost } = this;
    this.outage = undefined;
    this.wasLost = false;
    if (outage !== undefined) this.onChanged?.();
    const now = this.context.clock.now();
    const missed = [...this.owed.values()];
    this.owed.clear();
    for (const release of missed) if (release.forgetAt > now) this.release(release).catch(() => undefined);
    // The server may have lost locks.
    if (wasLost) this.listener?.onReconnected();
  }
}
