import {
  instanceOf,
  type AskReply,
  type AskRequest,
  type ExtendReply,
  type ExtendRequest,
  type HandOffTerms,
  type ReleaseRequest,
} from '../../core/lock-store.js';

/** Who holds a key, and until when. */
export interface Holder {
  readonly owner: string;
  readonly token: number;
  expiresAt: number;
}

/** One key, as the token store keeps it in Redis. */
export interface LockRow {
  holder: Holder | undefined;
  /** Owners, first come first. */
  queue: string[];
}

/** A lock that was handed to the first in the queue. */
export interface HandedOver {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly tokens: number;
  readonly leaseMs: number;
}

/** What the table needs to know of the world, at the moment of a request. */
export interface TableWorld {
  now(): number;
  /** Milliseconds since 1970: tokens begin with them. */
  wallTime(): number;
  /** Whether anybody listens for hand-offs to that instance. */
  listens(instanceId: string): boolean;
  /** Tells the owner's instance, if that is possible. */
  tell(handedOver: HandedOver): void;
}

/**
 * What the token store's scripts do, step by step and in the same order, on a table in memory. `test/explorer` replays
 * what it answers against the scripts on a real Redis.
 */
export class LockTable {
  private readonly rows = new Map<string, LockRow>();

  constructor(
    private readonly world: TableWorld,
    public lastToken = 0,
  ) {}

  /** The token store's `token-ask.lua`. */
  ask(request: AskRequest): AskReply {
    const { keys, owner, leaseMs, queue, tokens } = request;
    const [key] = keys;
    const now = this.world.now();
    if (now > request.expiresAt) return { status: 'expired' };
    const row = this.rowOf(key);
    const { holder } = row;
    if (holder === undefined && row.queue.length === 0) return this.grant(row, owner, leaseMs, tokens);
    if (holder?.owner === owner) {
      leave(row, owner);
      holder.expiresAt = Math.max(holder.expiresAt, now + leaseMs);
      return { status: 'granted', token: holder.token, tokens: 1 };
    }
    if (queue && !row.queue.includes(owner)) row.queue.push(owner);
    if (holder === undefined) {
      const next = this.handOver(key, row, request, owner);
      if (next === undefined || next === owner) return this.grant(row, owner, leaseMs, tokens);
    }
    return { status: 'held', queued: queue, remainingMs: (row.holder?.expiresAt ?? now) - now };
  }

  /** The token store's `token-release.lua`. */
  release(request: ReleaseRequest): boolean {
    const [key] = request.keys;
    const row = this.rowOf(key);
    const { holder } = row;
    const ours = holder?.owner === request.owner;
    if (!ours) {
      leave(row, request.owner);
      if (holder === undefined) this.handOver(key, row, request);
    } else if (request.keepMs > 0) holder.expiresAt = this.world.now() + request.keepMs;
    else if (this.handOver(key, row, request) === undefined) row.holder = undefined;
    this.tidy(key, row);
    return ours;
  }

  /** The token store's `token-extend.lua`. */
  extend({ keys: [key], owner, leaseMs }: ExtendRequest): ExtendReply {
    const holder = this.living(key);
    if (holder?.owner !== owner) return 'lost';
    holder.expiresAt = Math.max(holder.expiresAt, this.world.now() + leaseMs);
    return 'renewed';
  }

  /** Who holds the key now. */
  living(key: string): Holder | undefined {
    const row = this.rows.get(key);
    if (row?.holder !== undefined && row.holder.expiresAt <= this.world.now()) {
      row.holder = undefined;
      this.tidy(key, row);
    }
    return row?.holder;
  }

  /** Forgets a key, its queue included, as FLUSHALL and DEL would. */
  delete(key: string): void {
    this.rows.delete(key);
  }

  clear(): void {
    this.rows.clear();
  }

  /** The key's row, made if need be. */
  private rowOf(key: string): LockRow {
    this.living(key);
    let row = this.rows.get(key);
    if (row === undefined) this.rows.set(key, (row = { holder: undefined, queue: [] }));
    return row;
  }

  /** Gives the key to the first in the queue whose instance listens. */
  private handOver(key: string, row: LockRow, { handOffMs, tokens }: HandOffTerms, asker?: string): string | undefined {
    for (let owner = row.queue.shift(); owner !== undefined; owner = row.queue.shift()) {
      if (owner === asker) return owner;
      if (!this.world.listens(instanceOf(owner))) continue;
      const { token } = this.grant(row, owner, handOffMs, tokens);
      this.world.tell({ key, owner, token, tokens, leaseMs: handOffMs });
      return owner;
    }
    return undefined;
  }

  private grant(row: LockRow, owner: string, leaseMs: number, tokens: number) {
    const token = Math.max(this.lastToken + 1, this.world.wallTime() * 1000);
    this.lastToken = token + tokens - 1;
    row.holder = { owner, token, expiresAt: this.world.now() + leaseMs };
    return { status: 'granted', token, tokens } as const;
  }

  private tidy(key: string, row: LockRow): void {
    if (row.holder === undefined && row.queue.length === 0) this.rows.delete(key);
  }
}

function leave(row: LockRow, owner: string): void {
  const place = row.queue.indexOf(owner);
  if (place !== -1) row.queue.splice(place, 1);
}
