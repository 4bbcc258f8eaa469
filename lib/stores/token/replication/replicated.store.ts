import type { Clock } from '../../../core/time/clock.js';
import { LockReplicationError } from '../../../core/errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  Handoff,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from '../../../core/store/lock-store.js';
import { forwardTo } from '../../../core/store/forward-to.js';
import type { Acks, Confirmed } from './replica-acks.js';
import { notThere } from './replica-errors.js';

/**
 * A store whose grants and renewals count only when enough replicas know of them. What too few know of is given back by whoever
 * asked, as after any ask that failed; a renewal that too few know of is none, and only the local deadline decides.
 *
 * The connection that waits for replicas may lead to another server for a while, around a failover: so its word alone neither
 * renews a lock nor ends it.
 */
export class ReplicatedStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  readonly serverOf: LockStore['serverOf'];
  private readonly acks: Acks;
  private listener: StoreListener | undefined;
  /** Owners of asks that are under way and were not given up. */
  private readonly asking = new Set<string>();

  constructor(
    private readonly inner: LockStore,
    makeAcks: (warn: (message: string) => void) => Acks,
    private readonly clock: Clock,
  ) {
    this.capabilities = { ...inner.capabilities, replicas: true };
    this.serverOf = inner.serverOf?.bind(inner);
    this.acks = makeAcks((message) => this.listener?.onDegraded(message));
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const overrides: Partial<StoreListener> = {
      onHandoff: (handoff) => void this.handedOver(handoff),
      onDisconnected: (concerns) => {
        this.acks.reconnect();
        listener.onDisconnected(concerns);
      },
      onReachable: (server) => {
        this.acks.open();
        listener.onReachable(server);
      },
    };
    const stop = this.inner.listen(forwardTo(listener, overrides));
    return () => {
      this.listener = undefined;
      stop();
    };
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    this.asking.add(request.owner);
    try {
      return await this.askFor(request);
    } finally {
      this.asking.delete(request.owner);
    }
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.asking.delete(request.owner);
    return this.inner.release(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const [replies, confirmed] = await Promise.all([this.inner.extend(requests), this.acks.confirm(requests)]);
    return replies.map((reply, i) => (reply === 'renewed' ? this.renewalOf(confirmed[i]) : reply));
  }

  inspect(key: string): Promise<LockState | null> {
    return this.inner.inspect(key);
  }

  close(): Promise<void> {
    this.acks.close();
    return this.inner.close();
  }

  private async askFor(request: AcquireRequest): Promise<AcquireReply> {
    const sentAt = this.clock.now();
    const reply = await this.inner.acquire(request);
    if (reply.status !== 'granted') return reply;
    const each = await this.acks.confirm(request.keys.map((key) => ({ ...request, keys: [key] })));
    const confirmed = each.find((word) => word !== 'renewed');
    if (confirmed === undefined) return reply;
    if (confirmed !== 'lost') throw confirmed;
    // Its lease was over by then: an answer like any that comes too late to be believed in.
    if (this.clock.now() - sentAt >= request.leaseMs) return reply;
    // Where it was given up it was given back as well.
    if (this.asking.has(request.owner)) this.acks.misled();
    throw notThere();
  }

  /** Told only when replicas know of it; otherwise as one that cannot be believed in, so that its owner asks, and hears why. */
  private async handedOver(handoff: Handoff): Promise<void> {
    const [confirmed] = await this.acks.confirm([handoff]);
    this.listener?.onHandoff(confirmed === 'renewed' ? handoff : { ...handoff, grantedAt: undefined });
  }

  /** Of a lock that was renewed where it was given. */
  private renewalOf(confirmed: Confirmed): ExtendReply {
    if (confirmed === 'renewed') return confirmed;
    if (confirmed === 'lost') this.acks.misled();
    return confirmed instanceof LockReplicationError ? 'unreplicated' : 'unknown';
  }
}
