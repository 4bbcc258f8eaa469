import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
} from './lock-store.js';

/**
 * Forwards all requests to a store, where they must return a promise. A request that returns none, or throws, rejects
 * here, so that callers have one kind of failure to handle.
 */
export class RejectingStore implements LockStore {
  readonly serverOf: LockStore['serverOf'];
  readonly connections: LockStore['connections'];
  readonly list: LockStore['list'];
  readonly ping: LockStore['ping'];
  readonly forceRelease: LockStore['forceRelease'];

  constructor(protected readonly inner: LockStore) {
    this.serverOf = inner.serverOf?.bind(inner);
    this.connections = inner.connections?.bind(inner);
    this.list = inner.list?.bind(inner);
    this.ping = inner.ping?.bind(inner);
    this.forceRelease = inner.forceRelease?.bind(inner);
  }

  get capabilities(): StoreCapabilities {
    return this.inner.capabilities;
  }

  listen(listener: StoreListener): () => void {
    return this.inner.listen(listener);
  }

  acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    try {
      return promised(this.inner.acquire(request));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    try {
      return promised(this.inner.release(request));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    try {
      return promised(this.inner.extend(requests));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  inspect(key: string): Promise<LockState | null> {
    try {
      return promised(this.inner.inspect(key));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

/** @throws TypeError if a store has returned no promise. */
function promised<Reply extends PromiseLike<unknown>>(reply: Reply): Reply {
  if (typeof (reply as Partial<Reply> | undefined)?.then === 'function') return reply;
  throw new TypeError('A request to a store must return a promise.');
}
