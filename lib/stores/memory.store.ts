import type { Clock } from '../core/clock.js';
import type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  HolderInfo,
  LockOwnership,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
} from '../core/lock-store.js';
import type { StoreFactory } from './store-context.js';

interface Entry {
  readonly owner: string;
  readonly token: number;
  expiresAt: number;
}

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
    queue: false,
    fencing: true,
    idempotentAsk: true,
    modes: ['exclusive'],
    maxKeys: 1,
    resolutionMs: 1,
  };

  private readonly entries = new Map<string, Entry>();
  private lastToken = 0;

  constructor(private readonly clock: Clock) {}

  listen(): () => void {
    return () => undefined;
  }

  ask(request: AskRequest): Promise<AskReply> {
    return Promise.resolve(this.take(request));
  }

  release(request: ReleaseRequest): Promise<boolean> {
    const entry = this.entryOf(request);
    if (entry === undefined) return Promise.resolve(false);
    if (request.keepMs === 0) this.entries.delete(keyOf(request));
    else entry.expiresAt = this.clock.now() + request.keepMs;
    return Promise.resolve(true);
  }

  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return Promise.resolve(requests.map((request) => this.renew(request)));
  }

  inspect(key: string): Promise<HolderInfo | null> {
    const entry = this.living(key);
    if (entry === undefined) return Promise.resolve(null);
    const holder = entry.owner.slice(0, entry.owner.lastIndexOf(':'));
    return Promise.resolve({ holder, remainingMs: entry.expiresAt - this.clock.now(), token: entry.token });
  }

  close(): Promise<void> {
    this.entries.clear();
    return Promise.resolve();
  }

  private take(request: AskRequest): AskReply {
    const now = this.clock.now();
    if (now > request.expiresAt) return { status: 'expired' };
    const key = keyOf(request);
    const standing = this.living(key);
    if (standing === undefined) {
      this.lastToken = Math.max(this.lastToken + 1, this.clock.wallTime() * 1000);
      this.entries.set(key, { owner: request.owner, token: this.lastToken, expiresAt: now + request.leaseMs });
      return { status: 'granted', token: this.lastToken };
    }
    if (standing.owner !== request.owner) return { status: 'held', remainingMs: standing.expiresAt - now };
    standing.expiresAt = Math.max(standing.expiresAt, now + request.leaseMs);
    return { status: 'granted', token: standing.token };
  }

  private renew(request: ExtendRequest): ExtendReply {
    const entry = this.entryOf(request);
    if (entry === undefined) return 'lost';
    entry.expiresAt = Math.max(entry.expiresAt, this.clock.now() + request.leaseMs);
    return 'renewed';
  }

  private entryOf(ownership: LockOwnership): Entry | undefined {
    const entry = this.living(keyOf(ownership));
    return entry?.owner === ownership.owner ? entry : undefined;
  }

  private living(key: string): Entry | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined || entry.expiresAt > this.clock.now()) return entry;
    this.entries.delete(key);
    return undefined;
  }
}

function keyOf({ keys }: LockOwnership): string {
  return keys[0];
}
