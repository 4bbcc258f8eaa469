import { instanceOf } from '../../core/store/instance-id.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  HandoffOptions,
  Held,
  LockMode,
  PermitsMismatch,
  ReleaseRequest,
} from '../../core/store/lock-store.js';

/** An owner in the queue of a key, and the mode that it requests. */
export interface QueueEntry {
  readonly owner: string;
  readonly mode: LockMode;
}

/** An owner that holds a key, and until when. */
export interface Holder extends QueueEntry {
  readonly token: number;
  expiresAt: number;
}

/** The state of one key, as the token store keeps it in Redis. */
export interface LockRow {
  /** One exclusive holder, or all that share the key. */
  holders: Holder[];
  /** In order of arrival. */
  queue: PlacedEntry[];
}

/** An entry in a queue, and what the store knows of it. */
export interface PlacedEntry extends QueueEntry {
  /** When its instance was prompted to repeat its request, if it has not done so since. */
  promptedAt?: number | undefined;
}

/** A lock that was handed off to the first in the queue. */
export interface TableHandoff extends QueueEntry {
  readonly key: string;
  readonly token: number;
  readonly tokens: number;
  readonly leaseMs: number;
  /** False if the owner got no lock, and has to repeat its request to learn why. */
  readonly granted: boolean;
}

/** What a table needs from its store. */
export interface LockTableDeps {
  now(): number;
  /** Milliseconds since 1970. Tokens begin at this time in µs. */
  wallTime(): number;
  /** Returns whether that instance receives handoffs. */
  isSubscribed(instanceId: string): boolean;
  onHandoff(handoff: TableHandoff): void;
  /** The owner's hold was ended by force. */
  onForced?(key: string, owner: string): void;
}

/** The tokens of a handoff that grants nothing. */
const NO_GRANT = { token: 0, tokens: 1 };

/** After this time without a request, an entry that was prompted counts as gone. */
export const SILENT_MS = 250;

/**
 * Keeps locks in memory with the same steps, in the same order, as the scripts of the token store. The model checker
 * runs both on the same requests and compares the replies.
 */
export class LockTable {
  /** The model checker reads and restores it. @internal */
  readonly rows = new Map<string, LockRow>();

  constructor(
    private readonly deps: LockTableDeps,
    public lastToken = 0,
  ) {}

  /** Does what `acquire.lua` of the token store does. */
  acquire(request: AcquireRequest): AcquireReply {
    const { keys, owner, mode, leaseMs, queue, tokens } = request;
    const [key] = keys;
    const now = this.deps.now();
    if (now > request.expiresAt) return { status: 'expired' };
    const row = this.rowOf(key);
    const own = holderIn(row, owner);
    if (own !== undefined) {
      leave(row, owner);
      own.expiresAt = Math.max(own.expiresAt, now + leaseMs);
      return { status: 'granted', token: mode === 'exclusive' ? own.token : this.nextToken(1).token, tokens: 1 };
    }
    const other = otherPermits(row, mode);
    if (other !== undefined) return { status: 'permits-mismatch', permits: other };
    if (queue) join(row, { owner, mode });
    const { length } = row.holders;
    if (this.handoff(key, row, request, owner) && admits(row, mode)) {
      leave(row, owner);
      const granted = this.grant(row, request, leaseMs, tokens);
      this.handoff(key, row, request);
      this.prompt(key, row, request);
      return granted;
    }
    if (row.holders.length > length) this.prompt(key, row, request);
    const held = { status: 'held', queued: queue, remainingMs: freeAt(row, mode) - now } as const;
    const ahead = queue ? row.queue.findIndex((entry) => entry.owner === owner) : -1;
    return ahead === -1 ? held : { ...held, ahead };
  }

  /** Does what `acquire-many.lua` of the token store does. */
  acquireAll(request: AcquireRequest): AcquireReply {
    const { keys, owner, mode, leaseMs } = request;
    if (this.deps.now() > request.expiresAt) return { status: 'expired' };
    for (const key of keys) {
      const obstacle = this.obstacle(key, request);
      if (obstacle !== undefined) return { ...obstacle, key };
    }
    const { token } = this.nextToken(1);
    for (const key of keys) {
      const row = this.rowOf(key);
      const expiresAt = Math.max(holderIn(row, owner)?.expiresAt ?? 0, this.deps.now() + leaseMs);
      row.holders = [...row.holders.filter((holder) => holder.owner !== owner), { owner, mode, token, expiresAt }];
    }
    return { status: 'granted', token, tokens: 1 };
  }

  /** Does what `release.lua` of the token store does. */
  release(request: ReleaseRequest): boolean {
    const { keys, owner, closedForMs } = request;
    const [key] = keys;
    const row = this.rowOf(key);
    const own = holderIn(row, owner);
    if (own?.mode !== 'exclusive') leave(row, owner);
    if (own === undefined) this.handoff(key, row, request);
    else if (closedForMs > 0) own.expiresAt = this.deps.now() + closedForMs;
    else {
      row.holders = row.holders.filter((holder) => holder !== own);
      this.handoff(key, row, request);
    }
    this.tidy(key, row);
    return own !== undefined;
  }

  /** Does what `forceRelease` of the token store does, by `force-release.lua`. */
  forceRelease(request: ForceReleaseRequest): boolean {
    const { key, ifToken } = request;
    const holders = this.living(key);
    const row = this.rows.get(key);
    if (row === undefined || holders.length === 0) return false;
    const [{ mode, token }] = holders;
    // Tokens of sharers are not kept in Redis.
    if (ifToken !== undefined && (mode !== 'exclusive' || token !== ifToken)) return false;
    row.holders = [];
    this.handoff(key, row, request);
    this.tidy(key, row);
    for (const { owner } of holders) this.deps.onForced?.(key, owner);
    return true;
  }

  /** Does what `extend.lua` of the token store does. */
  extend({ keys: [key], owner, leaseMs }: ExtendRequest): ExtendReply {
    const holder = this.living(key).find((candidate) => candidate.owner === owner);
    if (holder === undefined) return 'lost';
    holder.expiresAt = Math.max(holder.expiresAt, this.deps.now() + leaseMs);
    return 'renewed';
  }

  /** Returns the holders of the key whose leases are not over. */
  living(key: string): readonly Holder[] {
    const row = this.rows.get(key);
    if (row === undefined) return [];
    const now = this.deps.now();
    if (row.holders.some(({ expiresAt }) => expiresAt <= now)) {
      row.holders = row.holders.filter(({ expiresAt }) => expiresAt > now);
      this.tidy(key, row);
    }
    return row.holders;
  }

  /** Returns the queue of the key, in order of arrival. */
  waiting(key: string): readonly QueueEntry[] {
    return this.rows.get(key)?.queue ?? [];
  }

  /** Removes a key and its queue, as FLUSHALL and DEL would. */
  delete(key: string): void {
    this.rows.delete(key);
  }

  clear(): void {
    this.rows.clear();
  }

  /** Returns why the key cannot be granted. Undefined if it can. */
  private obstacle(key: string, { owner, mode }: AcquireRequest): Held | PermitsMismatch | undefined {
    const holders = this.living(key);
    const row = this.rows.get(key);
    if (row === undefined || holders.some((holder) => holder.owner === owner)) return undefined;
    const other = otherPermits(row, mode);
    if (other !== undefined) return { status: 'permits-mismatch', permits: other };
    const free = admits(row, mode);
    if (free && row.queue.length === 0) return undefined;
    return { status: 'held', queued: false, remainingMs: free ? undefined : freeAt(row, mode) - this.deps.now() };
  }

  /** Returns the row of the key. Creates it if it does not exist. */
  private rowOf(key: string): LockRow {
    this.living(key);
    let row = this.rows.get(key);
    if (row === undefined) this.rows.set(key, (row = { holders: [], queue: [] }));
    return row;
  }

  /**
   * Hands the key off to the first in the queue whose instance is subscribed, and to the entries behind it that may
   * share it. Returns whether nobody is left in the queue, or before `requester`.
   */
  private handoff(key: string, row: LockRow, { handoffMs, tokens }: HandoffOptions, requester?: string): boolean {
    for (let first = row.queue.at(0); first !== undefined; first = row.queue.at(0)) {
      const fits = admits(row, first.mode);
      if (!fits && otherPermits(row, first.mode) === undefined) return false;
      // An entry with another number of permits would block the queue. Its instance retries and gets the error.
      row.queue.shift();
      if (fits && first.owner === requester) return true;
      const { owner, mode } = first;
      if (!this.deps.isSubscribed(instanceOf(owner)) || this.isSilent(first)) continue;
      const { token, tokens: reserved } = fits ? this.grant(row, first, handoffMs, tokens) : NO_GRANT;
      this.deps.onHandoff({ key, owner, mode, token, tokens: reserved, leaseMs: handoffMs, granted: fits });
    }
    return true;
  }

  /** Prompts all other waiters to repeat their requests, because a holder let its lease run out. */
  private prompt(key: string, row: LockRow, { owner: requester, handoffMs }: AcquireRequest): void {
    for (const entry of row.queue) {
      const { owner, mode, promptedAt } = entry;
      if (owner === requester || promptedAt !== undefined) continue;
      entry.promptedAt = this.deps.now();
      if (!this.deps.isSubscribed(instanceOf(owner))) continue;
      this.deps.onHandoff({ key, owner, mode, ...NO_GRANT, leaseMs: handoffMs, granted: false });
    }
  }

  /** Returns whether the entry was prompted, and has had time to repeat its request. */
  protected isSilent({ promptedAt = Infinity }: PlacedEntry): boolean {
    return this.deps.now() - promptedAt >= SILENT_MS;
  }

  /** Adds a holder. A shared lock gets one token, because it is not passed on locally. */
  private grant(row: LockRow, { owner, mode }: QueueEntry, leaseMs: number, requested: number) {
    const { token, tokens } = this.nextToken(mode === 'exclusive' ? requested : 1);
    row.holders.push({ owner, mode, token, expiresAt: this.deps.now() + leaseMs });
    return { status: 'granted', token, tokens } as const;
  }

  /** Does what `next-token.lua` of the token store does. */
  private nextToken(requested: number): { readonly token: number; readonly tokens: number } {
    const { lastToken } = this;
    const now = Math.round(this.deps.wallTime() * 1000);
    this.lastToken = Math.max(lastToken + 1, now);
    if (lastToken === 0 || lastToken >= now) return { token: this.lastToken, tokens: 1 };
    const token = Math.max(lastToken + 1, now - requested + 1);
    return { token, tokens: now - token + 1 };
  }

  private tidy(key: string, row: LockRow): void {
    if (row.holders.length === 0 && row.queue.length === 0) this.rows.delete(key);
  }
}

/** Returns the owner's hold. */
function holderIn({ holders }: LockRow, owner: string): Holder | undefined {
  return holders.find((holder) => holder.owner === owner);
}

/** Returns whether one more holder in that mode may join the current holders. */
function admits({ holders }: LockRow, mode: LockMode): boolean {
  const other = holders.at(0)?.mode;
  if (other === undefined) return true;
  return mode === other && mode !== 'exclusive' && (mode === 'shared' || holders.length < mode);
}

/** Returns the number of permits that the current holders use, if it differs from the requested one. */
function otherPermits({ holders }: LockRow, mode: LockMode): number | undefined {
  const other = holders.at(0)?.mode;
  return typeof other === 'number' && typeof mode === 'number' && other !== mode ? other : undefined;
}

/** Returns when a request in that mode can succeed: an exclusive one after the last holder, others after the first. */
function freeAt({ holders }: LockRow, mode: LockMode): number {
  const ends = holders.map(({ expiresAt }) => expiresAt);
  return mode === 'exclusive' ? Math.max(...ends) : Math.min(...ends);
}

/** Adds an entry to the queue. One that is in it keeps its place, and has done what it was prompted to. */
function join(row: LockRow, { owner, mode }: QueueEntry): void {
  const known = row.queue.find((entry) => entry.owner === owner);
  if (known === undefined) row.queue.push({ owner, mode });
  else known.promptedAt = undefined;
}

/** Removes the owner from the queue. */
function leave(row: LockRow, owner: string): void {
  const place = row.queue.findIndex((entry) => entry.owner === owner);
  if (place !== -1) row.queue.splice(place, 1);
}
