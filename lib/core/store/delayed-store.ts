import { forwardTo } from './forward-to.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  Handoff,
  LockStore,
  ReleaseRequest,
  StoreListener,
} from './lock-store.js';
import { RejectingStore } from './rejecting-store.js';

/**
 * Keeps a lock closed for `delayMs` after its lease, if its holder does not release it. Adds `delayMs` to every lease
 * sent to the store and subtracts it from every lease received. If nothing is left of a handed-off lease, the owner
 * requests the lock again.
 */
export class DelayedStore extends RejectingStore {
  override readonly forceRelease: LockStore['forceRelease'];

  constructor(
    inner: LockStore,
    private readonly delayMs: number,
  ) {
    super(inner);
    const forceRelease = inner.forceRelease?.bind(inner);
    this.forceRelease =
      forceRelease && ((request) => forceRelease({ ...request, handoffMs: request.handoffMs + this.delayMs }));
  }

  override listen(listener: StoreListener): () => void {
    const onHandoff = (handoff: Handoff): void => listener.onHandoff(this.shortened(handoff));
    return super.listen(forwardTo(listener, { onHandoff }));
  }

  override acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    return super.acquire({ ...this.lengthened(request), handoffMs: request.handoffMs + this.delayMs });
  }

  override release(request: ReleaseRequest): PromiseLike<boolean> {
    return super.release({ ...request, handoffMs: request.handoffMs + this.delayMs });
  }

  override extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return super.extend(requests.map((request) => this.lengthened(request)));
  }

  private lengthened<T extends { readonly leaseMs: number }>(request: T): T {
    return { ...request, leaseMs: request.leaseMs + this.delayMs };
  }

  private shortened(handoff: Handoff): Handoff {
    return { ...handoff, leaseMs: handoff.leaseMs - this.delayMs };
  }
}
