import { runOutside } from '../../../core/context/async-context.js';
import { type Clock, withTimeout } from '../../../core/time/clock.js';
import { LockReplicationError, LockUnavailableError } from '../../../core/errors.js';
import { secondsOf } from '../../../core/format-value.js';
import type { StoreLog } from '../../../core/store/store-health.js';
import type { ExtendRequest } from '../../../core/store/lock-store.js';
import { type FurtherConnection, inOnePacket } from '../../../redis/client-port.js';
import { isOne } from '../../../redis/decode.js';
import { acquireFailed, toError } from '../../../redis/redis-errors.js';
import type { ReplicaDemand } from '../../store-context.js';
import { extendCall, type ScriptNames } from '../token-scripts.js';
import { isFromReplica, replicasOf, tooFewReplicas, waitRefused } from './replica-errors.js';
import { scripts } from '../scripts.js';

/** `lost`: the owner does not have the lock. An error: the owner may have it, but too few replicas know. */
export type Confirmed = 'renewed' | 'lost' | LockUnavailableError;

/** Waits until replicas have locks. */
export interface Acks {
  /** Connects in the background. Does nothing if it is connected already. */
  open(): void;
  /** Writes the leases and waits until enough replicas have them. Returns a result for each. Does not reject. */
  confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]>;
  /**
   * Called if a lock that was just granted was not found. The connection may lead to a server that is not the store's.
   */
  onLockMissing(): void;
  /** Called after the connection for commands was lost. */
  reconnect(): void;
  close(): void;
}

/** One call of `confirm`. */
interface Confirmation {
  readonly requests: readonly ExtendRequest[];
  readonly resolve: (confirmed: readonly Confirmed[]) => void;
}

/** The replies to a batch: one for each lease, and that of WAIT. An error is also a reply. */
type Replies = readonly unknown[];

/** A connection that leads to the wrong server is given this long to find the right one before it is cut. */
const REOPEN_AFTER_MS = 1_000;

const EXTEND = scripts.extend.lua;

/**
 * Waits until replicas have locks, by a write of each lock's lease followed by WAIT. It uses its own connection,
 * because WAIT blocks all later commands. One batch is unanswered at a time. Requests that come before its reply are in
 * the next batch.
 *
 * WAIT counts only what was written over the same connection. So a batch has failed if its connection ends, whatever is
 * replied later. Scripts are sent in full, because one with an unknown digest would be sent again after WAIT.
 */
export class ReplicaAcks implements Acks {
  private waiting: Confirmation[] = [];
  /** Rejects the unanswered batch. */
  private rejectBatch: ((error: Error) => void) | undefined;
  private state: 'unopened' | 'open' | 'closed' = 'unopened';
  private connectedAt = Infinity;
  private readyAt = Infinity;
  /** When too few replicas acknowledged for the first time since they last were enough. */
  private fewSince: number | undefined;

  constructor(
    private readonly connection: FurtherConnection,
    private readonly names: ScriptNames,
    private readonly demand: ReplicaDemand,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly log: StoreLog,
    /** Whether each key may be at the server before its slot is. */
    private readonly asks = false,
  ) {}

  open(): void {
    const { connection, state } = this;
    // The client gives up permanently if its retryStrategy says so.
    if (state === 'closed' || (state === 'open' && connection.status !== 'end')) return;
    runOutside(() => {
      if (state === 'unopened') this.addListeners();
      this.state = 'open';
      connection.connect();
    });
  }

  confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]> {
    if (this.state === 'closed') return Promise.resolve(failAll(requests, noConnection()));
    this.open();
    let confirmation: Confirmation | undefined;
    const confirmed = new Promise<readonly Confirmed[]>((resolve) => {
      confirmation = { requests, resolve };
      this.waiting.push(confirmation);
      this.sendNext();
    });
    return withTimeout(this.clock, this.requestTimeoutMs, confirmed, () => {
      this.waiting = this.waiting.filter((other) => other !== confirmation);
      this.reconnectIfNeverReady();
      const why = `there was no reply within ${this.requestTimeoutMs} ms on the connection that waits for replicas`;
      return failAll(requests, acquireFailed(new Error(why)));
    });
  }

  onLockMissing(): void {
    if (this.clock.now() - this.readyAt > REOPEN_AFTER_MS) this.reconnect();
  }

  reconnect(): void {
    if (this.state === 'open') this.connection.disconnect(true);
  }

  close(): void {
    if (this.state === 'open') this.connection.disconnect();
    this.state = 'closed';
    const confirmations = this.waiting.splice(0);
    for (const { requests, resolve } of confirmations) resolve(failAll(requests, noConnection()));
  }

  private addListeners(): void {
    const { connection } = this;
    connection.watch({
      connect: () => (this.connectedAt = this.clock.now()),
      ready: () => this.onReady(),
      close: () => this.onClose(),
    });
  }

  private onReady(): void {
    this.readyAt = this.clock.now();
    this.connection.send('wait', [], ['0', '1']).then(
      () => this.warnIfTooFew(),
      (error: Error) => this.warnOnce(waitRefused(error)),
    );
    this.sendNext();
  }

  /** Warns early if the server has too few replicas. */
  private async warnIfTooFew(): Promise<void> {
    const replicas = await replicasOf(this.connection);
    if (replicas !== undefined && replicas < this.demand.min) this.warnOnce(tooFewReplicas(this.demand, 0, replicas));
  }

  private onClose(): void {
    this.connectedAt = this.readyAt = Infinity;
    this.rejectBatch?.(noConnection());
  }

  // A hung server accepts connections that never become ready. Another server may have taken its place by now.
  private reconnectIfNeverReady(): void {
    const neverReady =
      this.connection.status !== 'ready' && this.clock.now() - this.connectedAt >= this.requestTimeoutMs;
    if (neverReady) this.reconnect();
  }

  private sendNext(): void {
    if (this.rejectBatch !== undefined || this.waiting.length === 0 || this.connection.status !== 'ready') return;
    const batch = this.waiting.splice(0);
    void runOutside(() => this.sendBatch(batch));
  }

  private async sendBatch(batch: readonly Confirmation[]): Promise<void> {
    const requests = batch.flatMap((confirmation) => confirmation.requests);
    const replies = await this.sendAll(requests).catch(toError);
    const decoding =
      replies instanceof Error ? failAll(requests, acquireFailed(replies)) : this.decode(requests, replies);
    // The next batch need not wait for INFO, which explains a failure.
    this.sendNext();
    const confirmed = await decoding;
    let from = 0;
    for (const { requests: own, resolve } of batch) resolve(confirmed.slice(from, (from += own.length)));
  }

  /** Writes the leases and waits for the replicas. Rejects if the connection ends before its reply. */
  private async sendAll(requests: readonly ExtendRequest[]): Promise<Replies> {
    const { min, timeoutMs } = this.demand;
    const { connection, asks } = this;
    const calls = requests.map((request) => extendCall(request, this.names));
    const reply = new Promise<Replies | null>((resolve, reject) => {
      this.rejectBatch = reject;
      const replies = inOnePacket(connection, () => [
        ...calls.map(({ keys, args }) => {
          if (asks) connection.send('asking').catch(() => undefined);
          return connection.run('eval', EXTEND, keys, args);
        }),
        connection.send('wait', [], [String(min), String(timeoutMs)]),
      ]);
      void Promise.all(replies.map((each) => each.catch(toError))).then(resolve);
    });
    try {
      const replies = await withTimeout(this.clock, timeoutMs + this.requestTimeoutMs, reply, () => null);
      if (replies !== null) return replies;
      this.connection.disconnect(true);
      throw new Error('the connection that waits for replicas gave no reply');
    } finally {
      this.rejectBatch = undefined;
    }
  }

  private async decode(requests: readonly ExtendRequest[], replies: Replies): Promise<readonly Confirmed[]> {
    const waited = replies[requests.length];
    const failure = waited instanceof Error ? waitRefused(waited) : await this.replicationError(Number(waited));
    if (failure === undefined) this.onEnough();
    else this.warnOnce(failure);
    return requests.map((_, i) => {
      const extended = replies[i];
      if (extended instanceof Error) return this.requestError(extended);
      return isOne(extended) ? (failure ?? 'renewed') : 'lost';
    });
  }

  private requestError(error: Error): LockUnavailableError {
    if (isFromReplica(error)) this.onLockMissing();
    return acquireFailed(error);
  }

  private async replicationError(acknowledged: number): Promise<LockReplicationError | undefined> {
    if (acknowledged >= this.demand.min) return undefined;
    return tooFewReplicas(this.demand, acknowledged, await replicasOf(this.connection));
  }

  /** Warns once until enough replicas have acknowledged again. */
  private warnOnce({ message }: Error): void {
    if (this.fewSince !== undefined) return;
    this.fewSince = this.clock.now();
    this.log.warn(message);
  }

  private onEnough(): void {
    if (this.fewSince === undefined) return;
    const after = secondsOf(this.clock.now() - this.fewSince);
    this.fewSince = undefined;
    this.log.info(`Enough replicas know of the locks again after ${after} (replicas.min: ${this.demand.min}).`);
  }
}

function failAll(requests: readonly ExtendRequest[], error: LockUnavailableError): readonly Confirmed[] {
  return requests.map(() => error);
}

function noConnection(): LockUnavailableError {
  return acquireFailed(new Error('the connection that waits for replicas is closed'));
}
