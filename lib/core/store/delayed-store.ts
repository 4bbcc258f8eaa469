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
 * A store that keeps each lock closed for a while after its lease, if nobody releases it: it is asked for leases that are so much
 * longer, and nobody here believes in the rest. What others hand over has that rest as well, so that it is taken off again; of a
 * lock that came without one nothing may be left to believe in, and then its owner asks.
 */
export class DelayedStore implements LockStore {
  readonly serverOf: LockStore['serverOf'];

  constructor(
    private readonly inner: LockStore,
    private readonly delayMs: number,
  ) {
    this.serverOf = inner.serverOf?.bind(inner);
  }

  get capabilities(): StoreCapabilities {
    return this.inner.capabilities;
  }

  listen(listener: StoreListener): () => void {
    return this.inner.listen({
      instanceId: listener.instanceId,
      onHandoff: (handoff) => listener.onHandoff(this.shortened(handoff)),
      onReleased: (key) => listener.onReleased(key),
      onSubscribed: (concerns) => listener.onSubscribed(concerns),
      onDegraded: (message) => listener.onDegraded(message),
      onDisconnected: (concerns) => listener.onDisconnected(concerns),
      onUnreachable: (error, server) => listener.onUnreachable(error, server),
      onReachable: (server) => listener.onReachable(server),
    });
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.inner.acquire({ ...this.lengthened(request), handoffMs: request.handoffMs + this.delayMs });
  }

  release(request: ReleaseRequest): Promise<boolean> {
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
