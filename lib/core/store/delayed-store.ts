import { forwardTo } from './forward-to.js';
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
} from './lock-store.js';

/**
 * Keeps a lock closed for `delayMs` after its lease, if its holder does not release it. Adds `delayMs` to every lease
 * sent to the store and subtracts it from every lease received. If nothing is left of a handed-off lease, the owner
 * asks the store again.
 */
export class DelayedStore implements LockStore {
  readonly serverOf: LockStore['serverOf'];
  readonly connections: LockStore['connections'];
  readonly list: LockStore['list'];
  readonly ping: LockStore['ping'];
  readonly forceRelease: LockStore['forceRelease'];

  constructor(
    private readonly inner: LockStore,
    private readonly delayMs: number,
  ) {
    this.serverOf = inner.serverOf?.bind(inner);
    this.connections = inner.connections?.bind(inner);
    this.list = inner.list?.bind(inner);
    this.ping = inner.ping?.bind(inner);
    const forceRelease = inner.forceRelease?.bind(inner);
    this.forceRelease =
      forceRelease && ((request) => forceRelease({ ...request, handoffMs: request.handoffMs + this.delayMs }));
  }

  get capabilities(): StoreCapabilities {
    return this.inner.capabilities;
  }

  listen(listener: StoreListener): () => void {
    const onHandoff = (handoff: Handoff): void => listener.onHandoff(this.shortened(handoff));
    return this.inner.listen(forwardTo(listener, { onHandoff }));
  }

  acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    return this.inner.acquire({ ...this.lengthened(request), handoffMs: request.handoffMs + this.delayMs });
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    return this.inner.release({ ...request, handoffMs: request.handoffMs + this.delayMs });
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return this.inner.extend(requests.map((request) => this.lengthened(request)));
  }

  inspect(key: string): Promise<LockState | null> {
    return this.inner.inspect(key);
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  private lengthened<T extends { readonly leaseMs: number }>(request: T): T {
    return { ...request, leaseMs: request.leaseMs + this.delayMs };
  }

  private shortened(handoff: Handoff): Handoff {
    return { ...handoff, leaseMs: handoff.leaseMs - this.delayMs };
  }
}
