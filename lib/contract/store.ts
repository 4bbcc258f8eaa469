/**
 * The contract between the engine and a store, which keeps locks somewhere. All times are in milliseconds. A request
 * fails with `LockUnavailableError` if there is no usable reply, and with {@link UnansweredError} if there is none at
 * all. Requests that every lock sends take a listener, because a promise costs a good part of such a request.
 */

import type { ListedLock, ListRequest } from './lock-listing.js';
import type { LockMode, LockModeKind } from './lock-mode.js';
import type { HolderWork, LockState } from './lock-state.js';
import type { ReplyListener } from './reply-listener.js';
import type { KeyFilter } from './server-connection.js';
import type { StorePing } from './store-ping.js';

export type { KeyFilter, ListedLock, ListRequest, LockMode, LockState, StorePing };

/** How the engine retries while other callers hold a lock. */
export interface RetryPolicy {
  /** The pause between two requests, in milliseconds. The engine waits between half of it and all of it, at random. */
  readonly pauseMs: number;
  /** How many requests one caller waits for. The reply to the last one rejects the caller if the lock is still held. */
  readonly limit: number;
}

/** The shortest lease of a store. */
export interface ShortestLease {
  /** The lease in milliseconds. */
  readonly ms: number;
  /** Why a shorter lease is refused, for the error: "two requests take longer". */
  readonly reason: string;
}

/** What a store can do. The engine throws `LockConfigError` for everything else, at startup or at the call. */
export interface StoreCapabilities {
  /** The store's name in errors, such as `token()`. */
  readonly name: string;
  /** Whether the store queues waiters and hands a released lock to the first. Otherwise the engine retries. */
  readonly queue: boolean;
  /**
   * How the engine retries a store without a queue. Default: 40 times after up to 50 ms, then after up to 200 ms, until
   * `waitMs` has elapsed.
   */
  readonly retry?: RetryPolicy;
  /** Whether every grant has a fencing token. */
  readonly fencing: boolean;
  /** Whether a repeated acquire request with the same owner gets the first reply again, instead of `held`. */
  readonly idempotentAcquire: boolean;
  /** Whether the store keeps a closed lock apart whose work is done, for the option `onceMs`. Default: false. */
  readonly once?: boolean;
  /** Whether the store knows the module's option `replicas`. Default: false. */
  readonly replicas?: boolean;
  /** The supported modes. `exclusive` is one of them. */
  readonly modes: readonly LockModeKind[];
  /** Lease resolution in milliseconds. Leases are rounded up to a multiple and may last up to two units longer. */
  readonly resolutionMs: number;
  /** The shortest lease that may be requested. Default: any. */
  readonly shortestLease?: ShortestLease | undefined;
}

/**
 * There was no reply: the connection ended, or the server is silent. The message says which. The request may have run,
 * or may still run.
 */
export class UnansweredError extends Error {}

/** One owner of one key. */
interface Owned {
  /** The Redis key of the lock. */
  readonly key: string;
  /** `<instance id>:<attempt>`. Repeated requests keep it. It is never used again after a release. */
  readonly owner: string;
  /** The same in all requests of one owner. */
  readonly mode: LockMode;
}

/** A request to acquire a lock. Others see the work of an exclusive holder. */
export interface AcquireRequest extends Owned, HolderWork {
  readonly leaseMs: number;
  /** Whether the owner joins the queue if the lock is held. */
  readonly wait: boolean;
  /** The lease of the owner that gets the lock if the request finds it free and others waiting. */
  readonly handoffMs: number;
}

/** The owner holds the lock with the full lease. */
export interface Granted {
  readonly status: 'granted';
  /** The first fencing token. Undefined without fencing. */
  readonly token: number | undefined;
  /** How many consecutive tokens the grant has: one for the holder, and one for each pass. */
  readonly tokens: number;
}

/** A holder that a reply names. It does not contain the owner, because an owner is enough to release the lock. */
export interface HolderHint extends HolderWork {
  /** The holder's instance id. */
  readonly instanceId: string;
  /** When the holder got the lock from the store, on the engine's clock. Undefined if it is not known. */
  readonly since?: number | undefined;
  /** How many holders share the lock. */
  readonly count?: number | undefined;
  /** Both wire versions, if the instance that holds the lock or waits first has a different one from the store. */
  readonly wireVersions?: { readonly holder: number; readonly own: number } | undefined;
}

/** Another owner holds the lock, or precedes this one in the queue. */
export interface Held {
  readonly status: 'held';
  /** Whether the owner is in the queue, and is woken when it gets the lock. */
  readonly queued: boolean;
  /** The rest of the lease that blocks the owner. Infinity without an end. Undefined if it is not known. */
  readonly remainingMs: number | undefined;
  /** A holder. Undefined if another system's client holds the lock, or if the reply names none. */
  readonly holder?: HolderHint | undefined;
  /** How many entries are before the owner in the queue. Undefined if it is not known. */
  readonly ahead?: number | undefined;
  /** Whether nobody holds the lock: waiters that are gone are being removed from its queue. */
  readonly isFree?: boolean | undefined;
  /** Whether another system's client holds the lock, which wakes nobody. */
  readonly isForeign?: boolean | undefined;
  /** Whether nobody holds the lock, which stays closed because its work is done. */
  readonly isDone?: boolean | undefined;
}

/** The lock is held with another number of permits. A repetition cannot succeed before it is released. */
export interface PermitsMismatch {
  readonly status: 'permits-mismatch';
  /** The number of permits that the lock is held with. */
  readonly permits: number;
}

/** The reply to an acquire request. */
export type AcquireReply = Granted | Held | PermitsMismatch;

/** A request to release a lock, or to leave its queue. */
export interface ReleaseRequest extends Owned {
  /** Keeps the lock closed for this long. 0 hands it off, or frees it. */
  readonly closedForMs: number;
  /** Whether the lock is closed because its work is done. Only for exclusive locks. Default: false. */
  readonly isDone?: boolean | undefined;
  /** The lease of the next owner. */
  readonly handoffMs: number;
}

/** A request for a new lease of a held lock. */
export interface ExtendRequest extends Owned {
  /** Never shortens the current lease. */
  readonly leaseMs: number;
}

/**
 * The reply to an extend request.
 * - `renewed`: the owner holds the lock with the new lease.
 * - `lost`: the owner does not hold the lock.
 * - `unknown`: there was no reply. The owner may still hold the lock until its local deadline.
 */
export type ExtendReply = 'renewed' | 'lost' | 'unknown';

/** A request to give an exclusive lock to another owner, or to renew the lease of its owner. */
export interface TransferRequest {
  readonly key: string;
  /** The owner that has the lock. */
  readonly from: string;
  /** The owner that gets it. The same as `from`: its lease is renewed, and never shortened. */
  readonly to: string;
  readonly leaseMs: number;
  /** The fencing token of the lock from now on. Undefined: it keeps its token. */
  readonly token?: number | undefined;
  /**
   * How long the lock may be held from now on, however often it is renewed or transferred. Has no effect on a lock that
   * has such a limit. Undefined: sets no limit.
   */
  readonly restMs?: number | undefined;
}

/** `to` has the lock. A repeated request gets this reply again. */
export interface Transferred {
  readonly status: 'transferred';
  readonly token: number;
  /** How long the lock may still be held. Undefined without a limit. */
  readonly restMs: number | undefined;
}

/** The reply to a transfer request. `others`: neither owner has the lock. `free`: nobody has it. */
export type TransferReply = Transferred | { readonly status: 'free' | 'others' };

/** A request to end the holds of a key, of any owner. */
export interface ForceReleaseRequest {
  readonly key: string;
  /** The lease of the next owner. */
  readonly handoffMs: number;
  /** Ends the hold only if it is exclusive and its grant began with this fencing token. Undefined: ends all holds. */
  readonly ifToken?: number | undefined;
}

/** The events that a store reports to the engine. */
export interface StoreListener {
  /** The first part of all owners of this engine. */
  readonly instanceId: string;
  /**
   * An owner that waits has to ask again, one that holds the lock has to renew it, and one that is over is released.
   * The message grants nothing, and may come late, twice, falsely or never. `mode` is that of the owner.
   */
  onWake(owner: string, key: string, mode: LockMode): void;
  /** Others may have released the key. May be reported late, twice, falsely or never. */
  onReleased(key: string): void;
  /** Messages arrive (again). Owners that wait ask again, to get their places in the queue. */
  onSubscribed(concerns?: KeyFilter): void;
  /** A server, or the whole store, cannot be reached. May be reported repeatedly. `UnansweredError`: it is silent. */
  onDown(error: Error, server?: string): void;
  /** A server, or the whole store, replies again. May be reported repeatedly. */
  onUp(server?: string): void;
  /** Connections are back. What was sent over the former ones has its outcome. The store may have lost locks. */
  onReconnected(concerns?: KeyFilter): void;
  /** The lease of a key could not be extended, for a reason that `extend` cannot return. */
  onExtendFailed(key: string, error: Error): void;
  /** The store works, but with the limitation that `message` describes. */
  onDegraded(message: string): void;
  /** A limitation has ended. */
  onRecovered(message: string): void;
}

/** Keeps locks. Every method is atomic. */
export interface LockStore {
  /** What the store can do. Constant. */
  readonly capabilities: StoreCapabilities;
  /** Called once, before any request. */
  listen(listener: StoreListener): void;
  /** An owner has one acquire request on its way at most. A repeated one gets the full lease back. */
  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void;
  /**
   * Releases the owner's lock, and removes the owner from the queue. Called when the owner's acquire request was
   * answered or has failed. Releasing twice has no further effect. The reply is false if the owner did not hold the
   * lock.
   */
  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void;
  /** Extends leases. Returns one reply for each request, in the same order. Does not throw. */
  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]>;
  /** Returns the state of a key, or null if nobody holds it and nobody waits for it. */
  inspect(key: string): Promise<LockState | null>;
  /** Yields the locks that are held or waited for and that the request selects, each once. */
  readonly list?: ((request: ListRequest) => AsyncIterable<ListedLock>) | undefined;
  /**
   * Gives an exclusive lock to another owner. `from` is not used again after that. Without this method, no lock can be
   * detached.
   */
  readonly transfer?: ((request: TransferRequest, listener: ReplyListener<TransferReply>) => void) | undefined;
  /** Ends all holds of a key. Returns false if nobody holds it, or if `ifToken` is not its token. */
  readonly forceRelease?: ((request: ForceReleaseRequest) => Promise<boolean>) | undefined;
  /**
   * Returns false if owners of this engine cannot join the queue of a key, because messages cannot be received. If that
   * is not known yet, the store finds out. Without this method, they can if the store has a queue.
   */
  readonly canQueue?: ((key: string) => boolean) | undefined;
  /** Returns the name of the server that keeps a key. Undefined if it is not known, or if there is only one. */
  serverOf(key: string): string | undefined;
  /** Sends a cheap request to each server. Does not reject. */
  ping(): Promise<StorePing>;
  close(): Promise<void>;
}
