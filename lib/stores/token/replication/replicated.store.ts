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
import type { StoreLog } from '../../../core/store/store-health.js';
import type { Acks, Confirmed } from './replica-acks.js';
import { lockGone } from './replica-errors.js';

/**
 * A store whose grants and renewals count only after enough replicas have acknowledged them. Without that an acquire
 * request fails, and the caller releases the lock. A renewal without that does not count, and the local deadline
 * decides.
 *
 * Around a failover the connection that waits for replicas may lead to another server. So its reply alone neither
 * renews a lock nor ends it.
 */
export class ReplicatedStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  readonly serverOf: LockStore['serverOf'];
  readonly connections: LockStore['connections'];
  readonly list: LockStore['list'];
  readonly ping: LockStore['ping'];
  readonly forceRelease: LockStore['forceRelease'];
  private readonly acks: Acks;
  private listener: StoreListener | undefined;
  /** Owners whose acquire request is unanswered and was not followed by a release. */
  private readonly acquiring = new Set<string>();

  constructor(
    private readonly inner: LockStore,
    makeAcks: (log: StoreLog) => Acks,
    private readonly clock: Clock,
  ) {
    this.capabilities = { ...inner.capabilities, replicas: true };
    this.serverOf = inner.serverOf?.bind(inner);
    this.connections = inner.connections?.bind(inner);
    this.list = inner.list?.bind(inner);
    this.ping = inner.ping?.bind(inner);
    this.forceRelease = inner.forceRelease?.bind(inner);
    this.acks = makeAcks({
      warn: (message) => this.listener?.onDegraded(message),
      info: (message) => this.listener?.onRecovered?.(message),
    });
  }

  listen(listener: StoreListener): () => void {
    this.listener = listener;
    const overrides: Partial<StoreListener> = {
      onHandoff: (handoff) => {
        // Without a moment the owner acquires again, and that request is confirmed.
        if (handoff.grantedAt === undefined) this.listener?.onHandoff(handoff);
        else void this.onHandoff(handoff);
      },
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
    this.acquiring.add(request.owner);
    try {
      return await this.acquireReplicated(request);
    } finally {
      this.acquiring.delete(request.owner);
    }
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    this.acquiring.delete(request.owner);
    return this.inner.release(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const [replies, confirmed] = await Promise.all([this.inner.extend(requests), this.acks.confirm(requests)]);
    return replies.map((reply, i) => (reply === 'renewed' ? this.confirmedReply(confirmed[i]) : reply));
  }

  inspect(key: string): Promise<LockState | null> {
    return this.inner.inspect(key);
  }

  close(): Promise<void> {
    this.acks.close();
    return this.inner.close();
  }

  private async acquireReplicated(request: AcquireRequest): Promise<AcquireReply> {
    const sentAt = this.clock.now();
    const reply = await this.inner.acquire(request);
    if (reply.status !== 'granted') return reply;
    const each = await this.acks.confirm(request.keys.map((key) => ({ ...request, keys: [key] })));
    const confirmed = each.find((result) => result !== 'renewed');
    if (confirmed === undefined) return reply;
    if (confirmed !== 'lost') throw confirmed;
    // The lease had expired by then. The engine ignores a grant that arrives so late.
    if (this.clock.now() - sentAt >= request.leaseMs) return reply;
    // If a release has followed, it has removed the lock.
    if (this.acquiring.has(request.owner)) this.acks.onLockMissing();
    throw lockGone();
  }

  /**
   * Passes on a handoff. Without acknowledgement it has no `grantedAt`, so the owner acquires again and gets the error.
   */
  private async onHandoff(handoff: Handoff): Promise<void> {
    const [confirmed] = await this.acks.confirm([handoff]);
    this.listener?.onHandoff(confirmed === 'renewed' ? handoff : { ...handoff, grantedAt: undefined });
  }

  /** Returns the reply for a lock that the inner store has renewed. */
  private confirmedReply(confirmed: Confirmed): ExtendReply {
    if (confirmed === 'renewed') return confirmed;
    if (confirmed === 'lost') this.acks.onLockMissing();
    return confirmed instanceof LockReplicationError ? 'unreplicated' : 'unknown';
  }
}
