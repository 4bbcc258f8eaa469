import { runOutside } from '../core/context/async-context.js';
import { UnansweredError } from './contract.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  LockStore,
  ReleaseRequest,
  StoreListener,
} from './contract.js';
import type { LockStore as FormerContract } from '../core/store/lock-store.js';
import { PendingRequests } from './pending-requests.js';
import type { StoreContext } from './store-context.js';

/** How many fencing tokens a grant reserves: one for the holder, and one for each caller that it is passed on to. */
const TOKENS = 17;

/** How long a request that came too late waits before it is sent again, in milliseconds. */
const AGAIN_AFTER_MS = 25;

/**
 * A store of the former contract behind the present one. A message of the store wakes the owner, which asks again. A
 * request ends by its reply, by the end of its connection, or when its server has been silent for the time limit.
 */
export class FormerStore implements LockStore {
  readonly list: LockStore['list'];
  readonly forceRelease: LockStore['forceRelease'];
  private readonly requests: PendingRequests;
  /** The owners that request locks or hold them. */
  private readonly owners = new Set<string>();
  private listener: StoreListener | undefined;
  private stopListening: (() => void) | undefined;

  constructor(
    private readonly inner: FormerContract,
    private readonly context: Pick<StoreContext, 'clock' | 'requestTimeoutMs'>,
  ) {
    this.requests = new PendingRequests(context, inner, (error, server) => this.listener?.onDown(error, server));
    this.list = inner.list?.bind(inner);
    const { forceRelease } = inner;
    this.forceRelease =
      forceRelease && ((request: ForceReleaseRequest) => forceRelease.call(inner, { ...request, tokens: TOKENS }));
  }

  get capabilities() {
    return this.inner.capabilities;
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.stopListening = this.inner.listen({
      instanceId: listener.instanceId,
      onReleased: (key) => listener.onReleased(key),
      onSubscribed: (concerns) => listener.onSubscribed(concerns),
      onDegraded: (message) => listener.onDegraded(message),
      onRecovered: (message) => listener.onRecovered(message),
      onExtendFailed: (key, error) => listener.onExtendFailed(key, error),
      onDisconnected: (concerns) => this.requests.cut(concerns),
      onReconnected: (concerns) => listener.onReconnected(concerns),
      onUnreachable: (error, server) => listener.onDown(error, server),
      onReachable: (server) => listener.onUp(server),
    });
  }

  serverOf(key: string): string | undefined {
    try {
      return this.inner.serverOf?.(key);
    } catch {
      // A store that does not know its server must not hide the error of its request.
      return undefined;
    }
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { key, owner, mode, leaseMs, wait: queue, handoffMs } = request;
    this.owners.add(owner);
    const { clock, requestTimeoutMs } = this.context;
    for (;;) {
      const expiresAt = clock.now() + requestTimeoutMs;
      const asked = { keys: [key], owner, mode, leaseMs, queue, handoffMs, tokens: TOKENS, expiresAt };
      const reply = await this.requests.expect(key, () => this.inner.acquire(asked));
      if (reply.status === 'held') return { ...reply, key: undefined } as AcquireReply;
      if (reply.status !== 'expired') return reply;
      // The server was busy, or the event loop blocked. The request had no effect.
      await new Promise<void>((resolve) => clock.schedule(AGAIN_AFTER_MS, resolve, true));
      if (!this.owners.has(owner)) throw new UnansweredError('the request could not be delivered in time');
    }
  }

  release(request: ReleaseRequest): Promise<boolean> {
    this.owners.delete(request.owner);
    const { closedForMs } = request;
    // The key expires without a message, so the next owner in the queue gets it from a second release.
    if (closedForMs > 0 && this.capabilities.queue) {
      const again = (): void => void this.sendRelease({ ...request, closedForMs: 0 }).catch(() => undefined);
      runOutside(() => this.context.clock.schedule(closedForMs, again, true));
    }
    return this.sendRelease(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const replies = this.inner.extend(requests.map(({ key, ...rest }) => ({ keys: [key], ...rest })));
    return this.requests.inTime(
      replies.catch((): readonly ExtendReply[] => []),
      (): readonly ExtendReply[] => [],
    );
  }

  inspect(key: string) {
    return this.inner.inspect(key);
  }

  ping() {
    return this.inner.ping();
  }

  async close(): Promise<void> {
    this.requests.close();
    this.stopListening?.();
    await this.inner.close();
  }

  private sendRelease({ key, ...rest }: ReleaseRequest): Promise<boolean> {
    const request = { keys: [key], tokens: TOKENS, ...rest };
    return this.requests.expect(key, () => this.inner.release(request));
  }
}
