import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  HandOff,
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
      handedOver: (handOff) => listener.handedOver(this.shortened(handOff)),
      freed: (key) => listener.freed(key),
      listening: (concerns) => listener.listening(concerns),
      degraded: (message) => listener.degraded(message),
      disconnected: (concerns) => listener.disconnected(concerns),
      unreachable: (error, server) => listener.unreachable(error, server),
      reachable: (server) => listener.reachable(server),
    });
  }

  ask(request: AskRequest): Promise<AskReply> {
    return this.inner.ask({ ...this.lengthened(request), handOffMs: request.handOffMs + this.delayMs });
  }

  release(request: ReleaseRequest): Promise<boolean> {
    return this.inner.release({ ...request, handOffMs: request.handOffMs + this.delayMs });
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

  private shortened(handOff: HandOff): HandOff {
    return { ...handOff, leaseMs: handOff.leaseMs - this.delayMs };
  }
}
