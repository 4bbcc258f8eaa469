import { instanceOf } from '../../contract/instance-id.js';
import type { HolderWork } from '../../contract/lock-state.js';
import type { LockMode, TransferReply, TransferRequest } from '../../contract/store.js';

/** The least distance between the tokens of two grants: 16 passes without a request, and one. */
export const TOKENS = 17;

/** How many entries of a queue one request serves or removes. */
const MOST_STEPS = 128;

/** How long a queue lasts after the last request of a waiter, in milliseconds. */
const QUEUE_MS = 60_000;

/** From how many rows on the table looks for rows that have expired, each time that their number has doubled. */
const SWEEP_FROM = 1_000;

/** An owner that waits. */
export interface Entry {
  readonly owner: string;
  readonly mode: LockMode;
}

/** An owner that holds the lock. One of a closed lock is nobody: its owner is empty. */
export interface Holder extends Entry, HolderWork {
  readonly token: number;
  /** Whether the lock is closed because its work is done. */
  readonly isDone?: boolean;
  /** The last millisecond of the lease. */
  endsAt: number;
  /** Until when the lock may be held, however often it is renewed. Undefined without a limit. */
  readonly limit?: number | undefined;
}

/** One lock: what its three keys contain in Redis. */
interface Row {
  /** The exclusive holder, or nobody while the lock is closed. */
  lock: Holder | undefined;
  sharers: Holder[];
  queue: Entry[];
  queueEndsAt: number;
}

/** The reply to an acquire request. */
export type TableReply =
  | { readonly status: 'granted'; readonly token: number; readonly tokens: number }
  | {
      readonly status: 'held';
      readonly queued: boolean;
      readonly remainingMs: number;
      readonly ahead: number | undefined;
      readonly isFree: boolean;
      readonly isDone: boolean;
    }
  | { readonly status: 'permits-mismatch'; readonly permits: number };

/** What a table needs of its store. */
export interface TableDeps {
  /** Returns milliseconds, for leases. */
  now(): number;
  /** Returns microseconds since 1970, for tokens. */
  wallMicros(): number;
  /** Returns whether the instance receives messages. */
  isListening(instanceId: string): boolean;
  /** Sends a message to the instance of an owner. */
  wake(key: string, entry: Entry): void;
}

/** Locks in memory, by the same steps as the scripts of `token()`. */
export class LockTable {
  readonly rows = new Map<string, Row>();
  private lastToken = 0;
  private steps = MOST_STEPS;
  private mostRows = SWEEP_FROM;

  constructor(private readonly deps: TableDeps) {}

  acquire(key: string, entry: Entry & HolderWork, leaseMs: number, wait: boolean, handoffMs: number): TableReply {
    this.steps = MOST_STEPS;
    const row = this.rowOf(key);
    const { owner, mode, method, label } = entry;
    const own = row.lock?.owner === owner ? row.lock : shareOf(row, entry);
    if (own !== undefined) {
      leave(row, owner);
      own.endsAt = Math.max(own.endsAt, this.deps.now() + leaseMs);
      if (own === row.lock) {
        if (own.limit === undefined) row.lock = { ...own, method, label };
        return granted(own.token);
      }
      this.handOff(key, row, handoffMs);
      return granted(this.nextToken());
    }
    const permits = otherPermits(row, mode);
    if (permits !== undefined) return { status: 'permits-mismatch', permits };
    if (fits(row, mode) && row.queue.length === 0) return this.grant(row, entry, leaseMs);
    const queued = wait && this.isListening(owner);
    if (queued) {
      if (!row.queue.some((each) => each.owner === owner)) row.queue.push({ owner, mode });
      row.queueEndsAt = this.deps.now() + QUEUE_MS;
    }
    const isFirst = this.handOff(key, row, handoffMs, owner);
    const others = otherPermits(row, mode);
    if (others !== undefined) {
      leave(row, owner);
      return { status: 'permits-mismatch', permits: others };
    }
    if (isFirst && fits(row, mode)) {
      leave(row, owner);
      const reply = this.grant(row, entry, leaseMs);
      this.handOff(key, row, handoffMs);
      return reply;
    }
    const place = row.queue.findIndex((each) => each.owner === owner);
    const isFree = row.lock === undefined && row.sharers.length === 0;
    const ahead = queued && place !== -1 ? place : undefined;
    const isDone = row.lock?.isDone === true;
    return { status: 'held', queued, remainingMs: this.remainingMs(row, mode), ahead, isFree, isDone };
  }

  release(key: string, entry: Entry, closedForMs: number, handoffMs: number, isDone = false): boolean {
    this.steps = MOST_STEPS;
    const row = this.rowOf(key);
    const { owner } = entry;
    const hasLeft = leave(row, owner);
    const own = row.lock?.owner === owner ? row.lock : shareOf(row, entry);
    if (own !== undefined && closedForMs > 0) {
      this.closeFor(key, row, own, closedForMs, isDone);
      return true;
    }
    if (own !== undefined && own === row.lock) row.lock = undefined;
    else row.sharers = row.sharers.filter((each) => each !== own);
    this.handOff(key, row, handoffMs);
    // The first may have been woken to learn how long the lock stays closed.
    if (hasLeft && row.lock?.owner === '') this.wakeFirst(key, row);
    return own !== undefined;
  }

  extend(key: string, entry: Entry, leaseMs: number): boolean {
    const row = this.rowOf(key);
    const own = row.lock?.owner === entry.owner ? row.lock : shareOf(row, entry);
    if (own === undefined) return false;
    own.endsAt = Math.max(own.endsAt, this.deps.now() + leaseMs);
    return true;
  }

  /** Gives an exclusive lock to another owner, or renews the lease of its own. */
  transfer(key: string, { from, to, leaseMs, token, restMs }: Omit<TransferRequest, 'key'>): TransferReply {
    const row = this.rowOf(key);
    const { lock } = row;
    const isGiven = lock?.owner === to;
    if (lock === undefined || (!isGiven && lock.owner !== from))
      return { status: lock === undefined && row.sharers.length === 0 ? 'free' : 'others' };
    const now = this.deps.now();
    const limit = lock.limit ?? (isGiven || restMs === undefined ? undefined : now + restMs);
    if (limit !== undefined && limit <= now) return { status: 'free' };
    const endsAt = Math.min(limit ?? Infinity, isGiven ? Math.max(lock.endsAt, now + leaseMs) : now + leaseMs);
    if (isGiven) row.lock = { ...lock, endsAt };
    else row.lock = { owner: to, mode: 'exclusive', token: token ?? lock.token, endsAt, limit };
    return { status: 'transferred', token: row.lock.token, restMs: limit === undefined ? undefined : limit - now };
  }

  /** Ends all holds, or the exclusive one with a token. Returns whether it has ended one. */
  forceRelease(key: string, handoffMs: number, ifToken?: number): boolean {
    this.steps = MOST_STEPS;
    const row = this.rowOf(key);
    const ended = row.lock === undefined ? row.sharers : [row.lock];
    if (ended.length === 0 || (ifToken !== undefined && row.lock?.token !== ifToken)) return false;
    row.lock = undefined;
    row.sharers = [];
    this.handOff(key, row, handoffMs);
    // The former holders renew, and learn that they have lost the lock.
    for (const each of ended) if (each.owner !== '') this.deps.wake(key, each);
    return true;
  }

  /** Returns the holders of a key whose leases have not ended. */
  holders(key: string): readonly Holder[] {
    const { lock, sharers } = this.rowOf(key);
    return lock === undefined ? sharers : [lock];
  }

  /** Returns who waits for a key, in order. */
  waiting(key: string): readonly Entry[] {
    return this.rowOf(key).queue;
  }

  /** Forgets everything but the last token. */
  clear(): void {
    this.rows.clear();
  }

  /** Returns the row of a key, without what has expired. */
  private rowOf(key: string): Row {
    const now = this.deps.now();
    let row = this.rows.get(key);
    if (row === undefined) {
      if (this.rows.size >= this.mostRows) this.sweep(now);
      this.rows.set(key, (row = { lock: undefined, sharers: [], queue: [], queueEndsAt: 0 }));
    }
    expire(row, now);
    return row;
  }

  /** Removes the rows that have expired and were not read since. */
  private sweep(now: number): void {
    for (const [key, row] of this.rows) {
      expire(row, now);
      this.forgetIfEmpty(key, row);
    }
    this.mostRows = Math.max(SWEEP_FROM, 2 * this.rows.size);
  }

  /** Hands the lock to the first live entries, as far as they fit. Returns whether none is left before the caller. */
  private handOff(key: string, row: Row, handoffMs: number, caller?: string): boolean {
    for (let first = row.queue.at(0); row.lock === undefined && first !== undefined; first = row.queue.at(0)) {
      const isNext = fits(row, first.mode);
      if (isNext && first.owner === caller) return true;
      if (!isNext && otherPermits(row, first.mode) === undefined) return false;
      if (this.steps === 0) return false;
      this.steps -= 1;
      row.queue.shift();
      if (!this.isListening(first.owner)) continue;
      if (isNext) this.grant(row, first, handoffMs);
      this.deps.wake(key, first);
    }
    // The row of a caller is about to be granted.
    if (caller === undefined) this.forgetIfEmpty(key, row);
    return row.lock === undefined;
  }

  private forgetIfEmpty(key: string, row: Row): void {
    if (row.lock === undefined && row.sharers.length === 0 && row.queue.length === 0) this.rows.delete(key);
  }

  private grant(row: Row, { owner, mode, method, label }: Entry & HolderWork, leaseMs: number): TableReply {
    const holder = { owner, mode, token: this.nextToken(), endsAt: this.deps.now() + leaseMs };
    if (mode === 'exclusive') row.lock = { ...holder, method, label };
    else row.sharers.push(holder);
    return granted(holder.token);
  }

  /** Keeps the lock closed, as nobody's. The first waiter learns how long. */
  private closeFor(key: string, row: Row, own: Holder, closedForMs: number, isDone: boolean): void {
    const closed = { ...own, owner: '', isDone, endsAt: this.deps.now() + closedForMs };
    if (own === row.lock) row.lock = closed;
    else row.sharers = row.sharers.map((each) => (each === own ? closed : each));
    this.wakeFirst(key, row);
  }

  private wakeFirst(key: string, row: Row): void {
    const first = row.queue.at(0);
    if (first !== undefined) this.deps.wake(key, first);
  }

  private nextToken(): number {
    this.lastToken = Math.max(this.deps.wallMicros(), this.lastToken + TOKENS);
    return this.lastToken;
  }

  private remainingMs({ lock, sharers }: Row, mode: LockMode): number {
    if (lock !== undefined) return lock.endsAt - this.deps.now();
    if (sharers.length === 0) return 0;
    const ends = sharers.map(({ endsAt }) => endsAt);
    return (mode === 'exclusive' ? Math.max(...ends) : Math.min(...ends)) - this.deps.now();
  }

  private isListening(owner: string): boolean {
    return this.deps.isListening(instanceOf(owner));
  }
}

/** Removes what has expired from a row, as Redis does when a key is read. */
function expire(row: Row, now: number): void {
  if (row.lock !== undefined && row.lock.endsAt < now) row.lock = undefined;
  if (row.sharers.length > 0) row.sharers = row.sharers.filter(({ endsAt }) => endsAt >= now);
  if (row.queueEndsAt < now) row.queue = [];
}

function granted(token: number): TableReply {
  return { status: 'granted', token, tokens: TOKENS };
}

function shareOf({ sharers }: Row, { owner, mode }: Entry): Holder | undefined {
  return sharers.find((each) => each.owner === owner && each.mode === mode);
}

/** Returns whether the lock may be granted in a mode, besides its holders. */
function fits({ lock, sharers }: Row, mode: LockMode): boolean {
  if (lock !== undefined) return false;
  if (sharers.length === 0) return true;
  return mode === sharers[0].mode && (mode === 'shared' || sharers.length < Number(mode));
}

/** Returns the number of permits that the lock is held with, if it differs from that of the mode. */
function otherPermits({ lock, sharers }: Row, mode: LockMode): number | undefined {
  const other = lock === undefined ? sharers.at(0)?.mode : undefined;
  return typeof other === 'number' && typeof mode === 'number' && other !== mode ? other : undefined;
}

/** Removes an owner from the queue. Returns whether it was there. */
function leave(row: Row, owner: string): boolean {
  const { length } = row.queue;
  row.queue = row.queue.filter((entry) => entry.owner !== owner);
  return row.queue.length < length;
}
