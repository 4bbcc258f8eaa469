import type { Clock } from '../../core/time/clock.js';
import { instanceOf } from '../../core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  HolderHint,
  ListedLock,
  ListRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
} from '../../core/store/lock-store.js';
import type { StoreFactory } from '../store-context.js';
import { type TableHandoff, LockTable } from './lock-table.js';

/**
 * Keeps locks in this process, with the guarantees of the token store: a queue, fencing tokens, shared modes and
 * multi-locks. For tests and for development without Redis. Each module instance has its own locks.
 *
 * @publicApi
 */
export function memory(): StoreFactory {
  return ({ clock }) => new MemoryStore(clock);
}

/** The limit of the token store. */
const MAX_KEYS = 256;

/** The store behind {@link memory}. Several engines can use one. */
export class MemoryStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'memory()',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    maxKeys: MAX_KEYS,
    resolutionMs: 1,
  };

  private readonly listeners = new Map<string, StoreListener>();
  readonly table: LockTable;

  constructor(private readonly clock: Clock) {
    this.table = new LockTable({
      now: () => clock.now(),
      // A manual clock stands still. For tokens, a millisecond still passes, so that grants can reserve some.
      wallTime: () => Math.max(clock.wallTime(), this.table.lastToken / 1000 + 1),
      isSubscribed: (instanceId) => this.listeners.has(instanceId),
      onHandoff: (handoff) => this.deliver(handoff),
      // As with Redis, the message arrives later.
      onForced: (key, owner) => queueMicrotask(() => this.listeners.get(instanceOf(owner))?.onForceReleased?.(key)),
    });
    // No token was given out before this one.
    this.table.lastToken = 1;
  }

  listen(listener: StoreListener): () => void {
    this.listeners.set(listener.instanceId, listener);
    return () => this.listeners.delete(listener.instanceId);
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const reply = request.keys.length > 1 ? this.table.acquireAll(request) : this.table.acquire(request);
    if (reply.status !== 'held') return Promise.resolve(reply);
    return Promise.resolve({ ...reply, holder: this.holderOf(reply.key ?? request.keys[0]) });
  }

  release(request: ReleaseRequest): Promise<boolean> {
    return Promise.resolve(this.table.release(request));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return Promise.resolve(requests.map((request) => this.table.extend(request)));
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return Promise.resolve(this.table.forceRelease(request));
  }

  inspect(key: string): Promise<LockState | null> {
    return Promise.resolve(this.stateOf(key));
  }

  async *list({ selects }: ListRequest): AsyncGenerator<ListedLock> {
    // A lock that is acquired again during the listing is not yielded again.
    const keys = Array.from(this.table.rows.keys());
    for (const key of keys) {
      const state = selects(key) ? this.stateOf(key) : null;
      if (state !== null) yield { key, state };
    }
  }

  ping(): Promise<StorePing> {
    return Promise.resolve({ isUp: true, handoff: 'subscription', degraded: undefined, servers: [] });
  }

  close(): Promise<void> {
    this.table.clear();
    return Promise.resolve();
  }

  private stateOf(key: string): LockState | null {
    const holders = this.table.living(key);
    const waiting = this.table.waiting(key).map(({ owner, mode }) => ({ waiter: instanceOf(owner), mode }));
    if (holders.length === 0) return waiting.length === 0 ? null : { waiting };
    const [first, ...others] = holders.map(({ owner, token, expiresAt }) => {
      return { holder: instanceOf(owner), remainingMs: expiresAt - this.clock.now(), token };
    });
    return { ...first, since: this.holderOf(key)?.since, mode: holders[0].mode, others, waiting };
  }

  private holderOf(key: string): HolderHint | undefined {
    const holders = this.table.living(key);
    if (holders.length === 0) return undefined;
    const [{ owner, mode, token }] = holders;
    const instanceId = instanceOf(owner);
    if (mode !== 'exclusive') return { instanceId, count: holders.length };
    // Tokens are wall time in µs.
    return { instanceId, since: this.clock.now() - Math.max(0, this.clock.wallTime() - token / 1000) };
  }

  private deliver({ key, owner, granted, ...grant }: TableHandoff): void {
    const grantedAt = granted ? this.clock.now() : undefined;
    // As with Redis, a handoff arrives after the reply to the request that caused it.
    queueMicrotask(() => this.listeners.get(instanceOf(owner))?.onHandoff({ keys: [key], owner, ...grant, grantedAt }));
  }
}
