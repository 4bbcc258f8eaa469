/**
 * The contract between the engine and an algorithm that keeps locks somewhere. Answers are values; a store throws
 * `LockUnavailableError` where it could not ask, and nothing else.
 */

import type { LockMode, LockModeKind } from './lock-mode.js';

export type { LockMode, LockModeKind };

/** How often a lock that others hold is asked for again. */
export interface RetryPolicy {
  /** The pause between two asks, in milliseconds, jittered down to half of it. */
  readonly pauseMs: number;
  /** Whoever has waited for so many asks is refused, as soon as one is answered that others hold the lock. */
  readonly limit: number;
}

/** What a store can do. Asking for more is a `LockConfigError` at start, never ignored. */
export interface StoreCapabilities {
  /** What errors call it, `token()`; "this store" by default. */
  readonly name?: string;
  /** Keeps waiters in order and hands a released lock to the next one; without it the engine asks again by itself. */
  readonly queue: boolean;
  /** How the engine asks again by itself, where that is given: 10 to 200 ms apart, as long as anybody waits, by default. */
  readonly retry?: RetryPolicy;
  /** Gives a fencing token with every grant. */
  readonly fencing: boolean;
  /** An ask that is repeated with its owner is answered as before, instead of being refused by its own first run. */
  readonly idempotentAcquire: boolean;
  /** Waits for replicas where the module's `replicas` option asks for it; false by default. */
  readonly replicas?: boolean;
  /** The modes it can lock in; `exclusive` alone by default. */
  readonly modes?: readonly LockModeKind[];
  /** The most keys it locks in one ask, all or none; one by default. What is wanted together may take several asks. */
  readonly maxKeys?: number;
  /** The coarseness of its leases in milliseconds: one is kept to a multiple of it, and up to two of it longer than asked for. */
  readonly resolutionMs: number;
}

/** Whose lock a request is about. */
export interface LockOwnership {
  /** One key; in asks up to `maxKeys` of the store, all under one hash tag, and so in one slot of a cluster. */
  readonly keys: readonly string[];
  /** `<instanceId>:<askId>`. The same ask keeps its owner, however often it is repeated; no owner ever occurs twice. */
  readonly owner: string;
  /** The same in all requests of one owner. */
  readonly mode: LockMode;
}

/** What whoever is next in the queue gets, where a request hands the lock on to it. */
export interface HandoffOptions {
  /** The lease that the next one starts with, in milliseconds. */
  readonly handoffMs: number;
  /** How many fencing tokens are set aside with a grant, for the holder and those it passes the lock on to locally. */
  readonly tokens: number;
}

/** A request for a lock; for several it is granted all of them, or none. */
export interface AcquireRequest extends LockOwnership, HandoffOptions {
  /** How long the store keeps the lock without renewal. */
  readonly leaseMs: number;
  /**
   * Whether to wait in the store's queue if the lock is not free; only for stores with `queue`, and for one key. Asking again
   * with the same owner keeps the place.
   */
  readonly queue: boolean;
  /** The moment, on the engine's clock, after which this ask must have no effect any more, wherever it may be delayed. */
  readonly expiresAt: number;
}

/** The fencing tokens of a grant: the first, and how many follow it; undefined without fencing. Several keys of one ask share one. */
export interface GrantedTokens {
  readonly token: number | undefined;
  readonly tokens: number;
}

/** The asker holds the lock. */
export interface Granted extends GrantedTokens {
  readonly status: 'granted';
}

/** Somebody else holds the lock, or stands before the asker. */
export interface Held {
  readonly status: 'held';
  /** Whether the asker will be told when its turn comes; if not, it has to ask again by itself. */
  readonly queued: boolean;
  /** Remaining life of what stands in the way; undefined if unknown, Infinity if it never expires by itself. */
  readonly remainingMs: number | undefined;
  /** Of several keys, the first that could not be had. */
  readonly key?: string;
}

/** The ask could not be delivered before its `expiresAt`, and did nothing. */
export interface Expired {
  readonly status: 'expired';
}

/** One of another number of permits was asked for than the lock is held with: asking again does not help. */
export interface PermitsMismatch {
  readonly status: 'permits-mismatch';
  /** Of how many permits others hold one. */
  readonly permits: number;
  /** Of several keys, the one that it is about. */
  readonly key?: string;
}

export type AcquireReply = Granted | Held | Expired | PermitsMismatch;

/** The end of a lock, or of waiting for it in the queue. */
export interface ReleaseRequest extends LockOwnership, HandoffOptions {
  /** Keeps the lock closed for this much longer, to expire by itself; 0 hands it on, or frees it if nobody waits. */
  readonly keepMs: number;
}

/** A new lease for a lock that is held. */
export interface ExtendRequest extends LockOwnership {
  /** Counted from when the store runs it; never makes a lease shorter. */
  readonly leaseMs: number;
}

/**
 * `unknown`: no answer; the lock may or may not be ours still, and only its local deadline decides. `unreplicated`: the same,
 * because too few replicas know of the new lease.
 */
export type ExtendReply = 'renewed' | 'lost' | 'unknown' | 'unreplicated';

/** What a store knows of one who holds a key. */
export interface HolderInfo {
  /** The holder's instance id, or all that the key holds, where another system wrote it. */
  readonly holder: string;
  /** Remaining life of the lease in milliseconds; Infinity if it never expires by itself. */
  readonly remainingMs: number;
  readonly token: number | undefined;
}

/** One who stands in a store's queue. */
export interface WaiterInfo {
  /** Its instance id. */
  readonly waiter: string;
  readonly mode: LockMode;
}

/** What a store knows of a locked key: who holds it, or the first of those who do. */
export interface LockState extends HolderInfo {
  /** How it is held; exclusive if that is not said. */
  readonly mode?: LockMode;
  /** All others who share it; nobody if that is not said. */
  readonly others?: readonly HolderInfo[];
  /** Who waits in the store's queue, first come first; nobody if that is not said. */
  readonly waiting?: readonly WaiterInfo[];
}

/** The lock was handed to one who waits in the queue. */
export interface Handoff extends LockOwnership, GrantedTokens {
  /** The lease that it starts with, in milliseconds. */
  readonly leaseMs: number;
  /**
   * A moment on the engine's clock that is not later than the grant; undefined if that is not known: then the owner has to
   * ask whether the lock is its own (still).
   */
  readonly grantedAt: number | undefined;
}

/** Which keys something is about. */
export type KeyFilter = (key: string) => boolean;

/** What a store tells the engine by itself. */
export interface StoreListener {
  /** The first part of all owners of this listener; hand-offs to them are told to it. */
  readonly instanceId: string;
  /** A lock was handed over. May be told late, twice, or never. */
  onHandoff(handoff: Handoff): void;
  /** A key may be free: it is worth asking for at once. May be told late, twice, or never. */
  onReleased(key: string): void;
  /**
   * Hand-offs can be told (again), of all keys or of these: who waits has to ask again, for its place, and for what was missed
   * until now.
   */
  onSubscribed(concerns?: KeyFilter): void;
  /** Everything works, but not as it should, and why. */
  onDegraded(message: string): void;
  /** A connection ended: nothing that was asked over it, of all keys or of these, may ever be answered. */
  onDisconnected(concerns?: KeyFilter): void;
  /** The store, or that server of it, cannot be reached, and why; may be told again and again. */
  onUnreachable(error: Error, server?: string): void;
  /** The store, or that server of it, answers (again). */
  onReachable(server?: string): void;
}

/**
 * An algorithm that keeps locks. Each verb is atomic. `release` of what is not (any more) the owner's harms nothing, may
 * run twice, and ends its waiting. The contract is spelled out as tests in `nestjs-redis-lock/testing`.
 *
 * @publicApi
 */
export interface LockStore {
  readonly capabilities: StoreCapabilities;
  /** Begins to tell the listener; answers how to stop that. */
  listen(listener: StoreListener): () => void;
  /** Takes the lock if it is free, or the owner's already. Throws `LockUnavailableError`. */
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /** Ends the owner's lock, or its place in the queue; false if the lock was not the owner's (any more). Throws `LockUnavailableError`. */
  release(request: ReleaseRequest): Promise<boolean>;
  /** Renews a batch, an answer for each in the same order. Does not throw. */
  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]>;
  /** Who holds the key, null if nobody does. Throws `LockUnavailableError`. */
  inspect(key: string): Promise<LockState | null>;
  /**
   * The server that keeps the key, where keys are on several: what one of them leaves unanswered says nothing of the others, and
   * nothing of theirs waits for it. Undefined where it is not known.
   */
  serverOf?(key: string): string | undefined;
  /** Ends what the store opened. */
  close(): Promise<void>;
}

/** The instance that an owner belongs to. */
export function instanceOf(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':'));
}
