import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type HandoffOptions,
  type Held,
  instanceOf,
  type PermitsMismatch,
  type ReleaseRequest,
} from '../../core/store/lock-store.js';
import {
  admits,
  type QueueEntry,
  freeAt,
  holderIn,
  type Holder,
  leave,
  type LockRow,
  otherPermits,
} from './lock-row.js';

/** A lock that was handed to the first in the queue. */
export interface TableHandoff extends QueueEntry {
  readonly key: string;
  readonly token: number;
  readonly tokens: number;
  readonly leaseMs: number;
  /** False if it was not handed over after all, and its owner has to ask why. */
  readonly granted: boolean;
}

/** What the table needs to know of the world, at the moment of a request. */
export interface TableWorld {
  now(): number;
  /** Milliseconds since 1970: tokens begin with them. */
  wallTime(): number;
  /** Whether anybody listens for hand-offs to that instance. */
  listens(instanceId: string): boolean;
  /** Tells the owner's instance, if that is possible. */
  tell(handedOver: TableHandoff): void;
}

const NO_GRANT = { token: 0, tokens: 1 };

/**
 * What the token store's scripts do, step by step and in the same order, on a table in memory. `test/model-checker` replays
 * what it answers against the scripts on a real Redis.
 */
export class LockTable {
  /** The model checker reads and restores it. @internal */
  readonly rows = new Map<string, LockRow>();

  constructor(
    private readonly world: TableWorld,
    public lastToken = 0,
  ) {}

  /** The token store's `token-ask.lua`. */
  acquire(request: AcquireRequest): AcquireReply {
    const { keys, owner, mode, leaseMs, queue, tokens } = request;
    const [key] = keys;
    const now = this.world.now();
    if (now > request.expiresAt) return { status: 'expired' };
    const row = this.rowOf(key);
    const own = holderIn(row, owner);
    if (own !== undefined) {
      leave(row, owner);
      own.expiresAt = Math.max(own.expiresAt, now + leaseMs);
      return { status: 'granted', token: mode === 'exclusive' ? own.token : this.nextToken(1), tokens: 1 };
    }
    const other = otherPermits(row, mode);
    if (other !== undefined) return { status: 'permits-mismatch', permits: other };
    if (queue && !row.queue.some((claim) => claim.owner === owner)) row.queue.push({ owner, mode });
    if (this.handoff(key, row, request, owner) && admits(row, mode)) {
      leave(row, owner);
      const granted = this.grant(row, request, leaseMs, tokens);
      this.handoff(key, row, request);
      return granted;
    }
    return { status: 'held', queued: queue, remainingMs: freeAt(row, mode) - now };
  }

  /** The token store's `token-ask-all.lua`. */
  acquireAll(request: AcquireRequest): AcquireReply {
    const { keys, owner, mode, leaseMs } = request;
    if (this.world.now() > request.expiresAt) return { status: 'expired' };
    for (const key of keys) {
      const obstacle = this.obstacle(key, request);
      if (obstacle !== undefined) return { ...obstacle, key };
    }
    const token = this.nextToken(1);
    for (const key of keys) {
      const row = this.rowOf(key);
      const expiresAt = Math.max(holderIn(row, owner)?.expiresAt ?? 0, this.world.now() + leaseMs);
      row.holders = [...row.holders.filter((holder) => holder.owner !== owner), { owner, mode, token, expiresAt }];
    }
    return { status: 'granted', token, tokens: 1 };
  }

  /** The token store's `token-release.lua`. */
  release(request: ReleaseRequest): boolean {
    const { keys, owner, keepMs } = request;
    const [key] = keys;
    const row = this.rowOf(key);
    const own = holderIn(row, owner);
    if (own?.mode !== 'exclusive') leave(row, owner);
    if (own === undefined) this.handoff(key, row, request);
    else if (keepMs > 0) own.expiresAt = this.world.now() + keepMs;
    else {
      row.holders = row.holders.filter((holder) => holder !== own);
      this.handoff(key, row, request);
    }
    this.tidy(key, row);
    return own !== undefined;
  }

  /** The token store's `token-extend.lua`. */
  extend({ keys: [key], owner, leaseMs }: ExtendRequest): ExtendReply {
    const holder = this.living(key).find((one) => one.owner === owner);
    if (holder === undefined) return 'lost';
    holder.expiresAt = Math.max(holder.expiresAt, this.world.now() + leaseMs);
    return 'renewed';
  }

  /** Who holds the key now. */
  living(key: string): readonly Holder[] {
    const row = this.rows.get(key);
    if (row === undefined) return [];
    const now = this.world.now();
    if (row.holders.some(({ expiresAt }) => expiresAt <= now)) {
      row.holders = row.holders.filter(({ expiresAt }) => expiresAt > now);
      this.tidy(key, row);
    }
    return row.holders;
  }

  /** Who waits for the key, first come first. */
  waiting(key: string): readonly QueueEntry[] {
    return this.rows.get(key)?.queue ?? [];
  }

  /** Forgets a key, its queue included, as FLUSHALL and DEL would. */
  delete(key: string): void {
    this.rows.delete(key);
  }

  clear(): void {
    this.rows.clear();
  }

  /** What keeps the asker from the key. */
  private obstacle(key: string, { owner, mode }: AcquireRequest): Held | PermitsMismatch | undefined {
    const holders = this.living(key);
    const row = this.rows.get(key);
    if (row === undefined || holders.some((holder) => holder.owner === owner)) return undefined;
    const other = otherPermits(row, mode);
    if (other !== undefined) return { status: 'permits-mismatch', permits: other };
    const free = admits(row, mode);
    if (free && row.queue.length === 0) return undefined;
    return { status: 'held', queued: false, remainingMs: free ? undefined : freeAt(row, mode) - this.world.now() };
  }

  /** The key's row, made if need be. */
  private rowOf(key: string): LockRow {
    this.living(key);
    let row = this.rows.get(key);
    if (row === undefined) this.rows.set(key, (row = { holders: [], queue: [] }));
    return row;
  }

  /**
   * Gives the key to the first in the queue whose instance listens, and to those behind it who may share it. Whoever wants one of
   * another number of permits loses its place, and is told to ask. Answers whether nobody waits (before the asker) any more.
   */
  private handoff(key: string, row: LockRow, { handoffMs, tokens }: HandoffOptions, asker?: string): boolean {
    for (let first = row.queue.at(0); first !== undefined; first = row.queue.at(0)) {
      const fits = admits(row, first.mode);
      if (!fits && otherPermits(row, first.mode) === undefined) return false;
      row.queue.shift();
      if (fits && first.owner === asker) return true;
      if (!this.world.listens(instanceOf(first.owner))) continue;
      const { token, tokens: set } = fits ? this.grant(row, first, handoffMs, tokens) : NO_GRANT;
      this.world.tell({ key, ...first, token, tokens: set, leaseMs: handoffMs, granted: fits });
    }
    return true;
  }

  /** Whoever shares the lock gets one token, and passes it on to nobody. */
  private grant(row: LockRow, { owner, mode }: QueueEntry, leaseMs: number, wanted: number) {
    const tokens = mode === 'exclusive' ? wanted : 1;
    const token = this.nextToken(tokens);
    row.holders.push({ owner, mode, token, expiresAt: this.world.now() + leaseMs });
    return { status: 'granted', token, tokens } as const;
  }

  private nextToken(tokens: number): number {
    const token = Math.max(this.lastToken + 1, this.world.wallTime() * 1000);
    this.lastToken = token + tokens - 1;
    return token;
  }

  private tidy(key: string, row: LockRow): void {
    if (row.holders.length === 0 && row.queue.length === 0) this.rows.delete(key);
  }
}
