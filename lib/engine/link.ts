import { runOutside } from '../common/async-context.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type LockStore,
  type ReleaseRequest,
  type TransferReply,
  type TransferRequest,
  UnansweredError,
} from '../contract/store.js';
import { afterPromiseJobs } from '../clock/clock.js';
import { type Linked, LinkedList } from '../common/linked-list.js';
import type { ReplyListener } from '../contract/reply-listener.js';
import type { StoreHealth } from './store-health.js';
import type { StoreOperation } from '../contract/refusal-log.js';

/**
 * How many acquire requests for the locks of one server may be on their way. More would go stale in the buffers of this
 * process and the machine, and delay the renewals and releases behind them.
 */
export const MOST_ON_THEIR_WAY = 1_000;

/** A request that waits until it may be sent. */
export interface Unsent extends Linked<Unsent> {
  /** Where it waits. The key may be on another server by now. */
  lane: Lane | undefined;
  /** Sends the request. */
  send(): void;
}

/** The acquire requests for one server. */
export interface Lane {
  onTheirWay: number;
  readonly unsent: LinkedList<Unsent>;
}

/** The only sender of acquire, extend and release requests. */
export class Link {
  /** By server. The only server of a store is undefined. */
  private readonly lanes = new Map<string | undefined, Lane>();

  constructor(
    readonly store: LockStore,
    readonly health: StoreHealth,
    /** How long a server may be silent, in milliseconds. */
    readonly limitMs: number,
    /** By how much the store keeps a lock longer than its holder relies on it, in milliseconds. */
    private readonly lockDelayMs: number,
  ) {}

  /**
   * Returns whether an acquire request for a key has to wait, because too many are on their way. Its `send` is called
   * when it may be sent. Renewals and releases never wait.
   */
  queueIfCrowded(key: string, request: Unsent): boolean {
    const lane = this.laneOf(key);
    if (lane.onTheirWay < MOST_ON_THEIR_WAY) return false;
    request.lane = lane;
    lane.unsent.push(request);
    return true;
  }

  /** Forgets a request that has not been sent. */
  drop(request: Unsent): void {
    request.lane?.unsent.remove(request);
    request.lane = undefined;
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    const { key, leaseMs, handoffMs } = request;
    const lane = this.laneOf(key);
    lane.onTheirWay += 1;
    if (this.health.isAnySilent) this.health.onRetry(key);
    const delayed = { ...request, leaseMs: this.delayed(leaseMs), handoffMs: this.delayed(handoffMs) };
    const sent = new Sent('acquire', key, this.health, listener, () => this.leave(lane));
    sent.sendBy(() => this.store.acquire(delayed, sent));
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    const delayed = { ...request, handoffMs: this.delayed(request.handoffMs) };
    const sent = new Sent('release', request.key, this.health, listener);
    sent.sendBy(() => this.store.release(delayed, sent));
  }

  /** Sends a transfer. Only for a store that can transfer locks. */
  transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    const { leaseMs, restMs } = request;
    const delayed = { ...request, leaseMs: this.delayed(leaseMs), restMs: restMs && this.delayed(restMs) };
    const onReply = (reply: TransferReply): void => {
      if (reply.status !== 'transferred' || reply.restMs === undefined) return listener.onReply(reply);
      const holdMs = reply.restMs - this.lockDelayMs;
      // Only the delay is left, in which nobody holds the lock.
      listener.onReply(holdMs > 0 ? { ...reply, restMs: holdMs } : { status: 'free' });
    };
    const undelayed = { onReply, onFailed: (error: unknown) => listener.onFailed(error) };
    const sent = new Sent('transfer', request.key, this.health, undelayed);
    sent.sendBy(() => this.store.transfer?.(delayed, sent));
  }

  /** Extends leases of one server. Returns a reply for each, in the same order. Does not reject. */
  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    try {
      return await this.store.extend(requests.map((each) => ({ ...each, leaseMs: this.delayed(each.leaseMs) })));
    } catch {
      // A store must not reject here. If one does, the process continues.
      return [];
    }
  }

  /** Returns how long the store keeps a lock whose holder relies on `leaseMs` of it, in milliseconds. */
  delayed(leaseMs: number): number {
    return leaseMs + this.lockDelayMs;
  }

  private laneOf(key: string): Lane {
    const server = this.store.serverOf(key);
    let lane = this.lanes.get(server);
    if (lane === undefined) this.lanes.set(server, (lane = { onTheirWay: 0, unsent: new LinkedList() }));
    return lane;
  }

  private leave(lane: Lane): void {
    lane.onTheirWay -= 1;
    // Outside of the context of the caller whose reply arrived, because the next request is not that caller's.
    if (lane.unsent.head !== undefined) runOutside(() => this.sendNext(lane));
  }

  private sendNext(lane: Lane): void {
    for (let next = lane.unsent.head; next !== undefined; next = lane.unsent.head) {
      if (lane.onTheirWay >= MOST_ON_THEIR_WAY) return;
      this.drop(next);
      next.send();
    }
  }
}

/** A request on its way. Reports its outcome to the health of its server, too. */
class Sent<Reply> implements ReplyListener<Reply> {
  constructor(
    private readonly operation: StoreOperation,
    private readonly key: string,
    private readonly health: StoreHealth,
    private readonly listener: ReplyListener<Reply>,
    private readonly onEnded?: () => void,
  ) {}

  /** A store must not throw. If one does, the request has failed, and keeps no place. */
  sendBy(send: () => void): void {
    try {
      send();
    } catch (error) {
      afterPromiseJobs(() => this.onFailed(error));
    }
  }

  onReply(reply: Reply): void {
    this.onEnded?.();
    if (this.operation === 'acquire') this.health.onReply(this.key);
    this.listener.onReply(reply);
  }

  onFailed(error: unknown): void {
    this.onEnded?.();
    if (!(error instanceof UnansweredError)) this.health.onFailed(this.operation, this.key, error);
    this.listener.onFailed(error);
  }
}
