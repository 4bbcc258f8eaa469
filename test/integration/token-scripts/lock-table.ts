import { instanceOf } from '../../../lib/contract/instance-id.js';
import type { HolderInfo, HolderWork } from '../../../lib/contract/lock-state.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  Granted,
  Held,
  HolderHint,
  LockMode,
  LockState,
  PermitsMismatch,
  ReleaseRequest,
  TransferReply,
  TransferRequest,
} from '../../../lib/contract/store.js';

/** How many tokens a grant has: one for the holder, and one for each caller to which it passes the lock. */
const TOKENS = 17;

/** How many entries one request serves or removes, because Redis runs one script at a time. */
const STEPS = 128;

/** How long a queue lasts after the last request of a waiter. */
const QUEUE_MS = 60_000;

/** An owner of a key, and its mode. */
export interface TableEntry {
  readonly owner: string;
  readonly mode: LockMode;
}

/** An owner that holds a key. */
export interface TableHolder extends TableEntry {
  readonly token: number;
  /** When the lease ends. An exclusive holder still has the key at that moment, as in Redis. */
  endsAt: number;
}

/** The owner that has a key alone. */
export interface ExclusiveHolder extends TableHolder, HolderWork {
  /** Whether its owner has closed the key: nobody owns it for the rest of its life. */
  readonly isClosed: boolean;
  /** Whether it has closed the key because its work is done. */
  readonly isDone?: boolean | undefined;
  /** The value of another client, which has no owner. */
  readonly foreign?: string | undefined;
  /** Until when the lock may be held, however often it is renewed. Undefined without a limit. */
  readonly limit?: number | undefined;
}

/** An owner that shares a key. */
export interface Sharer extends TableHolder {
  /** Whether its owner has closed its share: nobody owns it for the rest of its life. */
  readonly isClosed: boolean;
}

/** The state of one key: what the three keys of a lock contain in Redis. */
export interface LockRow {
  exclusive: ExclusiveHolder | undefined;
  /** How long the lock key says that others share it. Undefined without a marker. */
  markedUntil: number | undefined;
  sharers: Sharer[];
  queue: TableEntry[];
  queueEndsAt: number;
}

/** What a table needs from its store. */
export interface LockTableDeps {
  /** In milliseconds since any start. */
  now(): number;
  /** In microseconds since 1970. Tokens begin there. */
  tokenTime(): number;
  /** Returns whether that instance is woken by messages. */
  isListening(instanceId: string): boolean;
  /** Sends an owner a message, which grants nothing. */
  wake(entry: TableEntry, key: string): void;
}

/**
 * Keeps locks in memory with the same steps, in the same order, as the scripts of the token store: their specification.
 * A spec runs both on the same requests and compares the replies.
 */
export class LockTable {
  /** Specs read and restore it. @internal */
  readonly rows = new Map<string, LockRow>();
  /** How many entries the present request may still serve or remove. */
  private steps = STEPS;

  constructor(
    private readonly deps: LockTableDeps,
    public lastToken = 0,
  ) {}

  /** Does what `acquire.lua` does. */
  acquire(request: AcquireRequest): AcquireReply {
    return this.run(request.key, (row) => this.acquireOne(row, request));
  }

  /** Does what `release.lua` does. */
  release(request: ReleaseRequest): boolean {
    return this.run(request.key, (row) => this.releaseOne(row, request));
  }

  /** Does what `extend.lua` does. */
  extend({ key, owner, mode, leaseMs }: ExtendRequest): ExtendReply {
    return this.run(key, (row) => {
      const own = mode === 'exclusive' ? ownIn(row, owner) : this.shareOf(row, owner);
      // Another client has the lock beside a reader, which has lost it.
      if (mode !== 'exclusive' && row.exclusive !== undefined) removeShare(row, owner);
      else if (own !== undefined) {
        this.raise(own, leaseMs);
        if (mode !== 'exclusive') this.mark(row);
        return 'renewed';
      }
      return 'lost';
    });
  }

  /** Does what `transfer.lua` does. */
  transfer({ key, from, to, leaseMs, token, restMs }: TransferRequest): TransferReply {
    return this.run(key, (row) => {
      const isGiven = ownIn(row, to) !== undefined;
      const own = ownIn(row, to) ?? ownIn(row, from);
      if (own === undefined) {
        const isFree = row.exclusive === undefined && row.markedUntil === undefined;
        return { status: isFree ? 'free' : 'others' };
      }
      const now = this.deps.now();
      const limit = own.limit ?? (isGiven || restMs === undefined ? undefined : now + restMs);
      if (limit !== undefined && limit <= now) return { status: 'free' };
      const wanted = isGiven ? Math.max(own.endsAt, now + leaseMs) : now + leaseMs;
      const endsAt = limit === undefined ? wanted : Math.min(wanted, limit);
      const kept = isGiven ? own.token : (token ?? own.token);
      const holder = { ...own, owner: to, token: kept, endsAt, limit };
      // A lock that is given away says nothing about its former holder.
      row.exclusive = isGiven ? holder : { ...holder, method: undefined, label: undefined };
      return { status: 'transferred', token: kept, restMs: limit === undefined ? undefined : limit - now };
    });
  }

  /** Does what `forceRelease` of the token store does, by `force-release.lua`. */
  forceRelease({ key, handoffMs, ifToken }: ForceReleaseRequest): boolean {
    return this.run(key, (row) => {
      const { exclusive } = row;
      if (ifToken !== undefined && (exclusive === undefined || tokenOf(exclusive) !== ifToken)) return false;
      const shares = row.sharers.filter(({ endsAt }) => endsAt > this.deps.now());
      const ended = exclusive === undefined ? shares : [exclusive, ...shares];
      if (ended.length === 0) return false;
      row.exclusive = undefined;
      row.sharers = row.sharers.filter((sharer) => !shares.includes(sharer));
      this.mark(row);
      this.prune(row);
      this.handOff(row, key, handoffMs);
      // The former holder renews at once, and learns that it has lost the lock.
      for (const holder of ended) if (isOwned(holder)) this.deps.wake(holder, key);
      return true;
    });
  }

  /** Returns the state of a key. Null if nobody holds it and nobody waits for it. */
  inspect(key: string): LockState | null {
    return this.run(key, ({ exclusive, sharers, queue }) => {
      const waiting = queue.map(({ owner, mode }) => ({ waiter: instanceOf(owner), mode }));
      if (exclusive !== undefined) {
        const { foreign, token, method, label } = exclusive;
        const own = foreign === undefined ? { token, method, label } : { holder: foreign, token: undefined };
        return { ...this.infoOf(exclusive), ...own, others: [], waiting };
      }
      const shares = sharers.filter(({ endsAt }) => endsAt > this.deps.now());
      const [first, ...others] = shares.map((sharer) => ({ ...this.infoOf(sharer), mode: sharer.mode }));
      if (first !== undefined) return { ...first, others, waiting };
      return waiting.length === 0 ? null : { waiting };
    });
  }

  /** Returns the row of a key, without what has expired. Redis removes that when the key is read. */
  rowOf(key: string): LockRow {
    let row = this.rows.get(key);
    if (row === undefined) {
      row = { exclusive: undefined, markedUntil: undefined, sharers: [], queue: [], queueEndsAt: 0 };
      this.rows.set(key, row);
    }
    const now = this.deps.now();
    if (row.exclusive !== undefined && row.exclusive.endsAt < now) row.exclusive = undefined;
    if (row.markedUntil !== undefined && row.markedUntil < now) row.markedUntil = undefined;
    // The key of the sharers lasts as long as the longest share. A share that is over stays until a request reads it.
    if (row.sharers.every(({ endsAt }) => endsAt < now)) row.sharers = [];
    if (row.queueEndsAt < now) row.queue = [];
    return row;
  }

  /** Reserves the tokens of the next grant. Returns the first. */
  nextToken(): number {
    this.lastToken = Math.max(this.deps.tokenTime(), this.lastToken === 0 ? 0 : this.lastToken + TOKENS);
    return this.lastToken;
  }

  private acquireOne(row: LockRow, request: AcquireRequest): AcquireReply {
    const { key, owner, mode, leaseMs, wait, handoffMs } = request;
    const own = ownIn(row, owner);
    if (own !== undefined) {
      leave(row, owner);
      row.exclusive = { ...own, method: request.method, label: request.label };
      this.raise(row.exclusive, leaseMs);
      return granted(own.token);
    }
    this.prune(row);
    // Another client has the lock beside this reader, which has lost it.
    if (row.exclusive !== undefined) removeShare(row, owner);
    const share = this.shareOf(row, owner);
    if (share !== undefined) {
      leave(row, owner);
      this.raise(share, leaseMs);
      this.mark(row);
      // More sharers may fit than the request that handed the lock off could serve.
      this.handOff(row, key, handoffMs);
      return granted(this.nextToken());
    }
    const mismatch = permitsMismatch(row, mode);
    if (mismatch !== undefined) return mismatch;
    if (row.queue.length === 0 && fits(row, mode)) return this.grant(row, request, leaseMs);

    const queued = wait && this.deps.isListening(instanceOf(owner));
    if (queued) {
      if (!row.queue.some((entry) => entry.owner === owner)) row.queue.push({ owner, mode });
      row.queueEndsAt = this.deps.now() + QUEUE_MS;
    }
    const isFirst = this.handOff(row, key, handoffMs, owner);
    const late = permitsMismatch(row, mode);
    if (late !== undefined) {
      leave(row, owner);
      return late;
    }
    if (isFirst && fits(row, mode)) {
      leave(row, owner);
      const grant = this.grant(row, request, leaseMs);
      this.handOff(row, key, handoffMs);
      return grant;
    }
    return this.heldBy(row, request, queued);
  }

  private releaseOne(row: LockRow, { key, owner, closedForMs, isDone, handoffMs }: ReleaseRequest): boolean {
    const own = ownIn(row, owner);
    this.prune(row);
    const hasLeft = leave(row, owner);
    if (own !== undefined) {
      if (closedForMs === 0) {
        row.exclusive = undefined;
        this.handOff(row, key, handoffMs);
      } else {
        row.exclusive = { ...own, isClosed: true, isDone, endsAt: this.deps.now() + closedForMs };
        this.wakeFirst(row, key);
      }
      return true;
    }
    const share = this.shareOf(row, owner);
    removeShare(row, owner);
    if (share === undefined || row.exclusive !== undefined) {
      this.handOff(row, key, handoffMs);
      if (hasLeft && row.exclusive?.isClosed === true) this.wakeFirst(row, key);
      return false;
    }
    if (closedForMs === 0) {
      this.mark(row);
      this.handOff(row, key, handoffMs);
    } else {
      row.sharers.push({ ...share, isClosed: true, endsAt: this.deps.now() + closedForMs });
      this.mark(row);
      this.wakeFirst(row, key);
    }
    return true;
  }

  /**
   * Hands the key to the first live entries of the queue, as far as they fit, and removes the dead ones. Returns true
   * if no entry is left before the caller.
   */
  private handOff(row: LockRow, key: string, handoffMs: number, caller?: string): boolean {
    while (row.exclusive === undefined) {
      const first = row.queue.at(0);
      if (first === undefined) return true;
      const isNext = fits(row, first.mode);
      if (isNext && first.owner === caller) return true;
      if (!isNext && permitsMismatch(row, first.mode) === undefined) return false;
      const isListening = this.deps.isListening(instanceOf(first.owner));
      if (this.steps === 0) return false;
      this.steps -= 1;
      row.queue.shift();
      if (!isListening) continue;
      if (isNext) this.grant(row, first, handoffMs);
      this.deps.wake(first, key);
    }
    return false;
  }

  private grant(row: LockRow, { owner, mode, method, label }: TableEntry & HolderWork, leaseMs: number): Granted {
    const token = this.nextToken();
    const holder = { owner, mode, token, endsAt: this.deps.now() + leaseMs, isClosed: false };
    if (mode === 'exclusive') row.exclusive = { ...holder, method, label };
    else {
      row.sharers.push(holder);
      this.mark(row);
    }
    return granted(token);
  }

  /** Lets the first in the queue learn how long the key stays closed. */
  private wakeFirst(row: LockRow, key: string): void {
    const [first] = row.queue;
    if (first !== undefined) this.deps.wake(first, key);
  }

  private heldBy(row: LockRow, { owner, mode }: TableEntry, queued: boolean): Held {
    const { exclusive, sharers } = row;
    const place = queued ? row.queue.findIndex((entry) => entry.owner === owner) : -1;
    const held = { status: 'held', queued, ahead: place === -1 ? undefined : place } as const;
    const none = { isFree: undefined, isForeign: undefined, isDone: undefined, holder: undefined };
    if (exclusive !== undefined) {
      const remainingMs = exclusive.endsAt - this.deps.now();
      if (exclusive.foreign !== undefined) return { ...held, ...none, remainingMs, isForeign: true };
      const isDone = exclusive.isDone === true ? true : undefined;
      return {
        ...held,
        ...none,
        remainingMs,
        isDone,
        holder: { ...hintOf(exclusive), method: exclusive.method, label: exclusive.label },
      };
    }
    if (sharers.length === 0) return { ...held, ...none, remainingMs: 0, isFree: true };
    // An exclusive caller waits for the last.
    const sorted = sharers.toSorted((one, other) => one.endsAt - other.endsAt);
    const blocker = mode === 'exclusive' ? sorted[sorted.length - 1] : sorted[0];
    const holder = { ...hintOf(blocker), count: sharers.length };
    return { ...held, ...none, remainingMs: blocker.endsAt - this.deps.now(), holder };
  }

  private infoOf(holder: TableHolder): HolderInfo {
    return { holder: instanceOf(holder.owner), remainingMs: holder.endsAt - this.deps.now(), token: undefined };
  }

  private raise(holder: TableHolder, leaseMs: number): void {
    holder.endsAt = Math.max(holder.endsAt, this.deps.now() + leaseMs);
  }

  /** Returns the share of an owner that is not over. */
  private shareOf({ sharers }: LockRow, owner: string): Sharer | undefined {
    const isOwn = (one: Sharer): boolean => one.owner === owner && !one.isClosed && one.endsAt > this.deps.now();
    return sharers.find(isOwn);
  }

  /** Removes shares that are over, and a marker without shares. Beside an exclusive value they stay. */
  private prune(row: LockRow): void {
    if (row.exclusive !== undefined) return;
    row.sharers = row.sharers.filter(({ endsAt }) => endsAt > this.deps.now());
    if (row.sharers.length === 0) row.markedUntil = undefined;
  }

  /** Lets the marker last as long as the longest share, and removes it without one. */
  private mark(row: LockRow): void {
    const longest = Math.max(...row.sharers.map(({ endsAt }) => endsAt));
    row.markedUntil = longest > this.deps.now() ? longest : undefined;
  }

  private run<T>(key: string, step: (row: LockRow) => T): T {
    this.steps = STEPS;
    const row = this.rowOf(key);
    const result = step(row);
    const isEmpty = row.exclusive === undefined && row.sharers.length === 0 && row.queue.length === 0;
    if (isEmpty && row.markedUntil === undefined) this.rows.delete(key);
    return result;
  }
}

function granted(token: number): Granted {
  return { status: 'granted', token, tokens: TOKENS };
}

/** Returns the exclusive hold of an owner. */
function ownIn({ exclusive }: LockRow, owner: string): ExclusiveHolder | undefined {
  return exclusive?.owner === owner && isOwned(exclusive) ? exclusive : undefined;
}

function isOwned({ foreign, isClosed }: TableHolder & Partial<ExclusiveHolder>): boolean {
  return foreign === undefined && isClosed !== true;
}

function tokenOf({ foreign, token }: ExclusiveHolder): number | undefined {
  return foreign === undefined ? token : undefined;
}

function hintOf({ owner }: TableHolder): HolderHint {
  return { instanceId: instanceOf(owner) };
}

/** Whether an owner in that mode may have the key besides its holders. */
function fits({ exclusive, sharers }: LockRow, mode: LockMode): boolean {
  if (exclusive !== undefined) return false;
  if (sharers.length === 0) return true;
  return mode === sharers[0].mode && (mode === 'shared' || sharers.length < Number(mode));
}

/** Returns the refusal of a mode with another number of permits than the holders have. */
function permitsMismatch({ exclusive, sharers }: LockRow, mode: LockMode): PermitsMismatch | undefined {
  const permits = exclusive === undefined ? sharers.at(0)?.mode : undefined;
  const differs = typeof permits === 'number' && typeof mode === 'number' && permits !== mode;
  return differs ? { status: 'permits-mismatch', permits } : undefined;
}

/** Removes an owner from the queue. Returns whether it was there. */
function leave(row: LockRow, owner: string): boolean {
  const { length } = row.queue;
  row.queue = row.queue.filter((entry) => entry.owner !== owner);
  return row.queue.length < length;
}

function removeShare(row: LockRow, owner: string): void {
  row.sharers = row.sharers.filter((sharer) => sharer.owner !== owner || sharer.isClosed);
}
