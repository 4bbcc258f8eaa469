import type { Clock } from '../../core/clock.js';
import {
  instanceOf,
  type AskReply,
  type AskRequest,
  type ExtendReply,
  type ExtendRequest,
  type HolderInfo,
  type LockStore,
  type ReleaseRequest,
  type StoreCapabilities,
  type StoreListener,
} from '../../core/lock-store.js';
import type { StoreFactory } from '../store-context.js';
import { type HandedOver, LockTable } from './lock-table.js';

/**
 * Keeps locks in this process, by the same contract as the token store: for tests and for development without Redis. It
 * excludes nobody in another process. To let several applications of one process contend, give them one `MemoryStore`.
 *
 * @publicApi
 */
export function memory(): StoreFactory {
  return ({ clock }) => new MemoryStore(clock);
}

/**
 * The store behind {@link memory}.
 *
 * @publicApi
 */
export class MemoryStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    queue: true,
    fencing: true,
    idempotentAsk: true,
    modes: ['exclusive'],
    maxKeys: 1,
    resolutionMs: 1,
  };

  private readonly listeners = new Map<string, StoreListener>();
  private readonly table: LockTable;

  constructor(private readonly clock: Clock) {
    this.table = new LockTable({
      now: () => clock.now(),
      wallTime: () => clock.wallTime(),
      listens: (instanceId) => this.listeners.has(instanceId),
      tell: (handedOver) => this.tell(handedOver),
    });
  }

  listen(listener: StoreListener): () => void {
    this.listeners.set(listener.instanceId, listener);
    return () => this.listeners.delete(listener.instanceId);
  }

  ask(request: AskRequest): Promise<AskReply> {
    return Promise.resolve(this.table.ask(request));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    return Promise.resolve(this.table.release(request));
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return Promise.resolve(requests.map((request) => this.table.extend(request)));
  }

  inspect(key: string): Promise<HolderInfo | null> {
    const holder = this.table.living(key);
    if (holder === undefined) return Promise.resolve(null);
    const { owner, token, expiresAt } = holder;
    return Promise.resolve({ holder: instanceOf(owner), remainingMs: expiresAt - this.clock.now(), token });
  }

  close(): Promise<void> {
    this.table.clear();
    return Promise.resolve();
  }

  /** As from Redis, news comes after the request that made it is done. */
  private tell({ key, owner, ...grant }: HandedOver): void {
    const grantedAt = this.clock.now();
    queueMicrotask(() =>
      this.listeners.get(instanceOf(owner))?.handedOver({ keys: [key], owner, ...grant, grantedAt }),
    );
  }
}
