import type { Clock } from '../../core/time/clock.js';
import { LockUnavailableError } from '../../core/errors.js';
import type { ExtendRequest, LockMode, LockOwnership } from '../../core/store/lock-store.js';
import { fenceKey } from '../../core/keys/resource-key.js';
import type { RedisClient } from '../../redis/redis-client.js';
import { RedisConnection } from '../../redis/redis-connection.js';
import { unavailableBecause } from '../../redis/redis-errors.js';
import { wholeMs } from '../../redis/redis-script.js';
import { PendingReleases, type NodeRelease } from './pending-releases.js';
import {
  inspectScript,
  type NodeAnswer,
  type NodeLock,
  type NodeRenewal,
  type NodeVote,
  scriptsFor,
} from './quorum-scripts.js';
import { InFlight } from './in-flight.js';

/** An ask, as all nodes get it. */
export interface NodeAcquire extends LockOwnership {
  readonly round: number;
  readonly leaseMs: number;
  readonly tokens: number;
  readonly proposedToken: number;
  /** The moment, on our clock, after which it must have no effect any more. */
  readonly expiresAt: number;
}

export interface NodeTimeouts {
  readonly requestTimeoutMs: number;
  readonly nodeTimeoutMs: number;
}

/** Who wants to know whether a node can be reached. */
export interface NodeListener {
  down(node: QuorumNode): void;
  up(node: QuorumNode): void;
}

/**
 * One of the masters: a connection with a clock of its own. A node that owes an answer for too long is not asked anything more
 * until it has answered something, so that nothing piles up before it, and nobody waits for it twice.
 */
export class QuorumNode {
  /** Why it cannot be reached; undefined while it can, as far as is known. */
  outage: Error | undefined;
  private readonly connection: RedisConnection;
  private readonly inFlight: InFlight;
  private listener: NodeListener | undefined;
  /** Releases that could not be sent, to follow as soon as it can. */
  private readonly pendingReleases = new PendingReleases();

  constructor(
    /** Its address, without password. */
    readonly name: string,
    /** Which one it is among all, by their names: to all who give them these the same, in whatever order. */
    private readonly place: number,
    readonly client: RedisClient,
    private readonly clock: Clock,
    { requestTimeoutMs, nodeTimeoutMs }: NodeTimeouts,
  ) {
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    this.inFlight = new InFlight(clock, nodeTimeoutMs, {
      overdue: () => this.down(new Error(`no answer within ${nodeTimeoutMs} ms`)),
      recovered: () => this.up(),
    });
  }

  listen(listener: NodeListener): () => void {
    this.listener = listener;
    return this.connection.listen({
      // One node's end is not the store's: what was asked has a timeout, and others answer.
      onDisconnected: () => {
        this.inFlight.forget();
        this.outage ??= new Error('the connection has ended');
      },
      onUnreachable: (error) => this.down(error),
      onReachable: () => this.up(),
    });
  }

  /** Whether its clock is known, which nobody can be asked without. */
  get known(): boolean {
    return this.microsAt(this.clock.now()) !== undefined;
  }

  /** Its time in µs, certainly not later than the local moment `at`. */
  microsAt(at: number): number | undefined {
    return this.connection.microsAt(at);
  }

  /** Waits until its clock is known, at most until `until`. */
  async synchronise(until: number): Promise<void> {
    await this.connection.synchronise(until).catch((error: unknown) => {
      throw this.failure(error);
    });
    if (!this.known) throw this.noConnection();
  }

  /**
   * Asks for its vote. Rejects with a `LockUnavailableError` that names it.
   * @param leaves asked right before the request leaves: whether it still shall.
   */
  async acquire(ask: NodeAcquire, leaves: () => boolean): Promise<NodeVote> {
    // One that nothing is known of yet is just being connected.
    if (this.known || this.outage !== undefined) this.demandReady();
    if (!this.known) await this.synchronise(ask.expiresAt);
    let answer = await this.acquireOnce(ask, leaves);
    // Its clock may have been set forward since it was last heard: its answer has told, so ask once more.
    if (answer.status === 'late') answer = await this.acquireOnce(ask, leaves);
    if (answer.status !== 'late') return answer;
    throw this.failure(new Error('the request could not be delivered in time'));
  }

  /** Writes a token back that others gave, and closes all up to `last`; false if the lock is not that round's any more. */
  writeBack({ keys: [key], mode }: NodeAcquire, round: string, token: number, last: number): Promise<boolean> {
    const args = [round, String(token), String(last)];
    return this.sent(scriptsFor(mode).writeBack.run(this.connection, [key, fenceKey(key)], args));
  }

  /** Releases, at the latest when it is back. Rejects if it cannot be told now. */
  async release(release: NodeRelease): Promise<boolean> {
    const { key, mode, owner, keepUntil } = release;
    const keepMs = keepUntil === 0 ? 0 : Math.max(0, Math.ceil(keepUntil - this.clock.now()));
    try {
      this.demandReady();
      return await this.sent(scriptsFor(mode).release.run(this.connection, [key], [owner, String(keepMs)]));
    } catch (error) {
      if (!(error as LockUnavailableError).permanent) this.pendingReleases.add(release);
      throw error;
    }
  }

  /** Renews many, those of each mode in one pipeline; an answer, or an error, for each. */
  async extend(requests: readonly ExtendRequest[]): Promise<readonly (NodeRenewal | Error)[]> {
    this.demandReady();
    const renewed = new Map<LockMode, (NodeRenewal | Error)[]>();
    const renew = async (mode: LockMode): Promise<void> => {
      const calls = requests.filter((request) => request.mode === mode).map(callOf);
      renewed.set(mode, await scriptsFor(mode).extend.runAll(this.connection, calls));
    };
    const modes = new Set(requests.map(({ mode }) => mode));
    await this.sent(Promise.all([...modes].map(renew)));
    return requests.map(({ mode }) => renewed.get(mode)?.shift() as NodeRenewal | Error);
  }

  /** Gives a lock back that it has lost; false if somebody has it, or `until` was over before that arrived. */
  async restore({ keys, mode, leaseMs }: ExtendRequest, value: string, fence: number, until: number): Promise<boolean> {
    const [key] = keys;
    const deadline = this.microsAt(until);
    if (deadline === undefined) return false;
    const args = [value, String(fence), wholeMs(leaseMs), String(deadline)];
    return this.sent(scriptsFor(mode).restore.run(this.connection, [key, fenceKey(key)], args));
  }

  async inspect(key: string): Promise<readonly NodeLock[]> {
    this.demandReady();
    return this.sent(inspectScript.run(this.connection, [key], []));
  }

  private async acquireOnce(ask: NodeAcquire, leaves: () => boolean): Promise<NodeAnswer> {
    const { keys, mode, owner, round, leaseMs, tokens, proposedToken, expiresAt } = ask;
    const [key] = keys;
    const deadline = this.microsAt(expiresAt);
    const sentAt = this.clock.now();
    if (deadline === undefined || sentAt >= expiresAt || !leaves()) return { status: 'late', now: 0 };
    const proposed = mode === 'shared' ? proposedToken + this.place : proposedToken;
    const terms = [wholeMs(leaseMs), String(deadline), String(tokens), String(proposed)];
    const args = [owner, String(round), ...terms];
    const answer = await this.sent(scriptsFor(mode).acquire.run(this.connection, [key, fenceKey(key)], args));
    this.connection.heard(answer.now, sentAt);
    return answer;
  }

  private down(outage: Error): void {
    this.outage = outage;
    this.listener?.down(this);
  }

  private up(): void {
    const wasDown = this.outage !== undefined;
    this.outage = undefined;
    if (wasDown) this.listener?.up(this);
    for (const release of this.pendingReleases.take(this.clock.now())) this.release(release).catch(() => undefined);
  }

  /** Throws the reason why nothing can be sent now, if there is one. */
  private demandReady(): void {
    if (this.inFlight.overdue) throw this.failure(new Error('it has not answered an earlier request yet'));
    if (!this.connection.ready) throw this.noConnection();
  }

  private noConnection(): LockUnavailableError {
    return this.failure(this.outage ?? new Error(`no connection (${this.client.status})`));
  }

  private async sent<T>(answer: Promise<T>): Promise<T> {
    try {
      return await this.inFlight.track(answer);
    } catch (error) {
      throw this.failure(error);
    }
  }

  /** An error that names this node. */
  failure(error: unknown): LockUnavailableError {
    return error instanceof LockUnavailableError ? error : unavailableBecause(error, `a request to ${this.name}`);
  }
}

function callOf({ keys: [key], owner, leaseMs }: ExtendRequest) {
  return { keys: [key, fenceKey(key)], args: [owner, wholeMs(leaseMs)] };
}
