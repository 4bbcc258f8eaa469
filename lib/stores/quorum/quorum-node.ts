import type { Timer } from '../../clock/clock.js';
import { dropOldest } from '../../common/drop-oldest.js';
import { isPermanent, RefusalLog, type StoreOperation } from '../../contract/refusal-log.js';
import { SILENT_LIMITS } from '../../contract/server-signs.js';
import type { ServerClient } from '../../redis/client-port.js';
import type { FenceKeys } from '../../redis/slots.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { type RedisScript, wholeMs } from '../../redis/redis-script.js';
import { type StoreListener, UnansweredError } from '../../contract/store.js';
import { PendingRequests } from '../pending-requests.js';
import type { StoreContext } from '../store-context.js';
import { nodeScripts, type NodeVote } from './node-lock.js';

/** Beyond this number the oldest missed releases are dropped, and their locks expire with their leases. */
const MOST_OWED = 10_000;

/**
 * One of the masters, with its own connection. A quorum is composed of such nodes. A node that is silent gets no
 * requests until it replies, so that callers wait for it once only. Every method rejects with a `LockUnavailableError`
 * that names the node.
 */
export class QuorumNode {
  /** Why the node cannot be reached. Undefined while it can, as far as is known. */
  outage: Error | undefined;
  readonly connection: RedisConnection;
  private readonly requests: PendingRequests;
  private refusals: RefusalLog | undefined;
  /** Sends the releases that the node has missed, by their ballots. It gets them when it is up. */
  private readonly owed = new Map<string, () => Promise<boolean>>();
  private onChanged: (() => void) | undefined;
  private stopWatching: (() => void) | undefined;
  /** Resets the connection of a silent node. */
  private resetTimer: Timer | undefined;

  constructor(
    /** The node's address, without password. */
    readonly name: string,
    readonly client: ServerClient,
    private readonly context: StoreContext,
    nodeTimeoutMs: number,
    private readonly fences: FenceKeys,
  ) {
    this.connection = new RedisConnection(client, context.clock, context.requestTimeoutMs);
    const servers = { connections: () => [this.connection] };
    const times = { ...context, requestTimeoutMs: nodeTimeoutMs };
    this.requests = new PendingRequests(times, servers, (silence) => this.onSilent(silence));
  }

  /** Begins to watch the connection. @param onChanged called when the node is up, or is seen to be down. */
  listen(listener: StoreListener, onChanged: () => void): void {
    const now = (): number => this.context.clock.now();
    this.refusals = new RefusalLog((message) => listener.onDegraded(message), now);
    this.onChanged = onChanged;
    this.stopWatching = this.connection.listen({
      // Not reported, because the other nodes reply. The connection reports a lasting outage.
      onDisconnected: () => {
        this.resetTimer?.cancel();
        this.outage = new Error('the connection has ended');
        this.requests.cut();
      },
      onReconnected: () => listener.onReconnected(),
      onDown: (error) => this.onDown(error),
      onUp: () => this.onUp(),
    });
  }

  close(): void {
    this.stopWatching?.();
    this.stopWatching = undefined;
    this.resetTimer?.cancel();
    this.requests.close();
  }

  /** Whether requests are sent to the node. */
  get isReady(): boolean {
    return this.connection.ready && !(this.outage instanceof UnansweredError);
  }

  /**
   * Requests the lock.
   *
   * @param proposed the token that the node gives if it is higher than all others.
   * @param onVote called with the vote, even if it comes after the request has failed.
   */
  acquire(key: string, ballot: string, leaseMs: number, proposed: number, onVote: (vote: NodeVote) => void) {
    const sentAt = this.context.clock.now();
    const args = [ballot, wholeMs(leaseMs), String(proposed)];
    return this.send('acquire', nodeScripts.acquire, [key, this.fences.of(key)], args, ({ vote, now }) => {
      this.connection.observeTime(now, sentAt);
      onVote(vote);
    });
  }

  /** Writes the token of a grant to the node. Returns false if the ballot does not have the lock there. */
  writeBack(key: string, ballot: string, token: number): Promise<boolean> {
    return this.send('acquire', nodeScripts.writeBack, [key, this.fences.of(key)], [ballot, String(token)]);
  }

  /**
   * Releases the lock. If that fails, it rejects, and the node gets the release again when it is up.
   *
   * @param closedUntil the local moment until which the node keeps the lock closed. In the past: it is free now.
   */
  async release(key: string, ballot: string, closedUntil: number): Promise<boolean> {
    const closedForMs = Math.max(0, closedUntil - this.context.clock.now());
    try {
      return await this.send('release', nodeScripts.release, [key], [ballot, wholeMs(closedForMs)]);
    } catch (error) {
      if (!isPermanent(error)) this.owed.set(ballot, () => this.release(key, ballot, closedUntil));
      dropOldest(this.owed, MOST_OWED);
      throw error;
    }
  }

  /** Renews the lease. Returns 1: renewed, 0: another owner has the lock there, or -1: nobody has it there. */
  extend(key: string, ballot: string, leaseMs: number): Promise<number> {
    return this.send('extend', nodeScripts.extend, [key], [ballot, wholeMs(leaseMs)]);
  }

  /** Returns what the node keeps of a lock. Null if it is free there. */
  inspect(key: string) {
    return this.send(undefined, nodeScripts.inspect, [key], []);
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
      // The requests of a tick leave in one packet.
      connection.cork();
      const reply = script.run(connection, keys, args);
      reply.then(onReply, () => undefined);
      return await this.requests.expect(keys[0], () => reply);
    } catch (error) {
      const named = unavailableBecause(error, `a request to ${this.name}`);
      if (operation !== undefined) this.refusals?.onFailed(operation, keys[0], named, this.name);
      throw named;
    }
  }

  private onSilent(silence: Error): void {
    if (this.outage instanceof UnansweredError || this.stopWatching === undefined) return;
    this.onDown(silence);
    const { clock, requestTimeoutMs } = this.context;
    this.resetTimer?.cancel();
    // A connection that leads nowhere would be waited for.
    this.resetTimer = clock.schedule(SILENT_LIMITS * requestTimeoutMs, () => this.connection.onLongSilence(), true);
  }

  private onDown(outage: Error): void {
    this.outage = outage;
    this.onChanged?.();
  }

  private onUp(): void {
    const wasDown = this.outage !== undefined;
    this.resetTimer?.cancel();
    this.outage = undefined;
    if (wasDown) this.onChanged?.();
    const missed = [...this.owed.values()];
    this.owed.clear();
    for (const release of missed) release().catch(() => undefined);
  }
}
