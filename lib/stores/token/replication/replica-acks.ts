import { runOutside } from '../../../core/async-context.js';
import { type Clock, withTimeout } from '../../../core/time/clock.js';
import { LockReplicationError, LockUnavailableError } from '../../../core/errors.js';
import type { ExtendRequest } from '../../../core/store/lock-store.js';
import { scripts } from '../scripts.js';
import { toError, unavailableBecause } from '../../../redis/redis-errors.js';
import { isOfReplica, refused, replicasOf, tooFew } from './replica-errors.js';
import type { ReplicaDemand, ReplicaConnection } from './replica-options.js';
import { type KeyPlaces, renewalOf } from '../token-scripts.js';

/** `lost`: not the owner's (any more); an error: it may be the owner's, but the replicas do not know it. */
export type Confirmed = 'renewed' | 'lost' | LockUnavailableError;

/** Makes sure that replicas know of locks. */
export interface Acks {
  /** Connects, in the background, unless that was done already. */
  open(): void;
  /** Writes the leases and waits until enough replicas have them; an answer for each. Does not reject. */
  confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]>;
  /** A lock that was granted just now was not found: the connection may lead to another server than the one that gave it. */
  misled(): void;
  /** Goes where the connection that asks for locks goes next. */
  reconnect(): void;
  close(): void;
}

/** Locks that have to be known to replicas, and who wants to know whether they are. */
interface Confirmation {
  readonly requests: readonly ExtendRequest[];
  readonly settle: (confirmed: readonly Confirmed[]) => void;
}

/** The replies to the pipeline of a batch. */
type Replies = readonly [error: Error | null, result: unknown][];

/** A connection that has led to the wrong server for this long is tried anew: it may have been slow to follow. */
const REOPEN_AFTER_MS = 1_000;

const { keys: KEY_COUNT, lua: EXTEND } = scripts.extend;

/**
 * Makes sure that replicas know of locks: by a write of each lock's lease and a WAIT behind them, on a connection of its own, where
 * nothing else has to stand in line behind WAIT. One batch is on its way at a time; the next takes all that came meanwhile.
 *
 * WAIT counts for what was written over the same connection. So a batch that is not answered on the connection that it was sent
 * on has failed, whatever is answered later. Scripts are sent whole: one that was unknown and repeated would run behind WAIT.
 */
export class ReplicaAcks implements Acks {
  private waiting: Confirmation[] = [];
  /** Ends the batch that is on its way, without an answer. */
  private abandon: ((error: Error) => void) | undefined;
  private state: 'unopened' | 'open' | 'closed' = 'unopened';
  private connectedAt = Infinity;
  private readyAt = Infinity;
  private warned = false;

  constructor(
    private readonly link: ReplicaConnection,
    private readonly places: KeyPlaces,
    private readonly demand: ReplicaDemand,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly warn: (message: string) => void,
  ) {}

  open(): void {
    const { link, state } = this;
    // Its client may have given up: ioredis' retryStrategy decides.
    if (state === 'closed' || (state === 'open' && link.status !== 'end')) return;
    runOutside(() => {
      if (state === 'unopened') this.watch();
      this.state = 'open';
      link.connect().catch(() => undefined);
    });
  }

  confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]> {
    if (this.state === 'closed') return Promise.resolve(all(requests, noConnection()));
    this.open();
    let confirmation: Confirmation | undefined;
    const confirmed = new Promise<readonly Confirmed[]>((settle) => {
      confirmation = { requests, settle };
      this.waiting.push(confirmation);
      this.sendNext();
    });
    return withTimeout(this.clock, this.requestTimeoutMs, confirmed, () => {
      this.waiting = this.waiting.filter((other) => other !== confirmation);
      this.doubtConnection();
      const why = `there was no answer within ${this.requestTimeoutMs} ms on the connection that waits for replicas`;
      return all(requests, unavailableBecause(new Error(why), 'a lock'));
    });
  }

  misled(): void {
    if (this.clock.now() - this.readyAt > REOPEN_AFTER_MS) this.reconnect();
  }

  reconnect(): void {
    if (this.state === 'open') this.link.disconnect(true);
  }

  close(): void {
    if (this.state === 'open') this.link.disconnect();
    this.state = 'closed';
    const confirmations = this.waiting.splice(0);
    for (const { requests, settle } of confirmations) settle(all(requests, noConnection()));
  }

  private watch(): void {
    const { link } = this;
    link.on('error', () => undefined);
    link.on('connect', () => (this.connectedAt = this.clock.now()));
    link.on('ready', () => this.ready());
    link.on('close', () => this.lost());
  }

  private ready(): void {
    this.readyAt = this.clock.now();
    this.link.wait(0, 1).then(
      () => this.count(),
      (error: Error) => this.complain(refused(error)),
    );
    this.sendNext();
  }

  /** Says it early where there cannot be enough. */
  private async count(): Promise<void> {
    const replicas = await replicasOf(this.link);
    if (replicas !== undefined && replicas < this.demand.min) this.complain(tooFew(this.demand, 0, replicas));
  }

  private lost(): void {
    this.connectedAt = this.readyAt = Infinity;
    this.abandon?.(noConnection());
  }

  /** A server that hangs takes connections, and never gets them ready: another one may have its place by now. */
  private doubtConnection(): void {
    const unready = this.link.status !== 'ready' && this.clock.now() - this.connectedAt >= this.requestTimeoutMs;
    if (unready) this.reconnect();
  }

  private sendNext(): void {
    if (this.abandon !== undefined || this.waiting.length === 0 || this.link.status !== 'ready') return;
    const batch = this.waiting.splice(0);
    void runOutside(() => this.send(batch));
  }

  private async send(batch: readonly Confirmation[]): Promise<void> {
    const requests = batch.flatMap((confirmation) => confirmation.requests);
    const replies = await this.exchange(requests).catch(toError);
    const taken =
      replies instanceof Error ? all(requests, unavailableBecause(replies, 'a lock')) : this.take(requests, replies);
    // What came meanwhile need not wait until this answer is explained.
    this.sendNext();
    const confirmed = await taken;
    let from = 0;
    for (const { requests: own, settle } of batch) settle(confirmed.slice(from, (from += own.length)));
  }

  /** Ends with an answer on this very connection, or rejects. */
  private async exchange(requests: readonly ExtendRequest[]): Promise<Replies> {
    const { min, timeoutMs } = this.demand;
    const pipeline = this.link.pipeline();
    for (const { keys, args } of requests.map((request) => renewalOf(request, this.places))) {
      pipeline.eval(EXTEND, KEY_COUNT, ...keys, ...args);
    }
    pipeline.wait(min, timeoutMs);
    const answer = new Promise<Replies | null>((resolve, reject) => {
      this.abandon = reject;
      pipeline.exec().then(resolve, reject);
    });
    try {
      const replies = await withTimeout(this.clock, timeoutMs + this.requestTimeoutMs, answer, () => null);
      if (replies !== null) return replies;
      this.link.disconnect(true);
      throw new Error('the connection that waits for replicas gives no answer');
    } finally {
      this.abandon = undefined;
    }
  }

  private async take(requests: readonly ExtendRequest[], replies: Replies): Promise<readonly Confirmed[]> {
    const [failure, acknowledged] = replies[requests.length];
    const doubt = failure === null ? await this.doubt(Number(acknowledged)) : refused(failure);
    if (doubt === undefined) this.warned = false;
    else this.complain(doubt);
    return requests.map((_, i) => {
      const [error, written] = replies[i];
      if (error !== null) return this.refusal(error);
      return Number(written) === 1 ? (doubt ?? 'renewed') : 'lost';
    });
  }

  private refusal(error: Error): LockUnavailableError {
    if (isOfReplica(error)) this.misled();
    return unavailableBecause(error, 'a lock');
  }

  private async doubt(acknowledged: number): Promise<LockReplicationError | undefined> {
    if (acknowledged >= this.demand.min) return undefined;
    return tooFew(this.demand, acknowledged, await replicasOf(this.link));
  }

  /** Once, until it is well again. */
  private complain({ message }: Error): void {
    if (!this.warned) this.warn(message);
    this.warned = true;
  }
}

function all(requests: readonly ExtendRequest[], error: LockUnavailableError): readonly Confirmed[] {
  return requests.map(() => error);
}

function noConnection(): LockUnavailableError {
  return unavailableBecause(new Error('there is no connection to wait for replicas on'), 'a lock');
}
