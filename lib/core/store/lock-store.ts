/**
 * The former contract of a store. `redisson()` and `timestamp()` implement it behind `FormerStore`. All times are in
 * milliseconds.
 */

import type { LockUnavailableError } from '../errors.js';
import type { ListedLock, ListRequest } from './lock-listing.js';
import type { LockMode, LockModeKind } from './lock-mode.js';
import type { LockState } from './lock-state.js';
import type { StorePing } from './store-ping.js';

export type { ListedLock, ListRequest } from './lock-listing.js';
export type { LockMode, LockModeKind };
export type { ServerPing, StorePing } from './store-ping.js';
export type { AwaitedState, HeldState, HolderInfo, LockState, WaiterInfo } from './lock-state.js';

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
  /** Whether the store knows the module's option `replicas`. Default: false. */
  readonly replicas?: boolean;
  /** The supported modes. `exclusive` is one of them. */
  readonly modes: readonly LockModeKind[];
  /** Lease resolution in milliseconds. Leases are rounded up to a multiple and may last up to two units longer. */
  readonly resolutionMs: number;
  /** The shortest lease that may be requested. Default: any. */
  readonly shortestLease?: ShortestLease | undefined;
}

/** The lock that a request is about. */
export interface LockOwnership {
  /** The Redis keys: one. */
  readonly keys: readonly string[];
  /**
   * The identity of one attempt, `<instanceId>:<attemptId>`. Repeated requests keep it. It is never used again.
   */
  readonly owner: string;
  /** The mode. The same in all requests of one owner. */
  readonly mode: LockMode;
}

/** What the next owner in the queue gets if the request hands the lock off. */
export interface HandoffOptions {
  /** The lease that the next owner starts with, in milliseconds. */
  readonly handoffMs: number;
  /**
   * How many consecutive fencing tokens a grant reserves: one for the holder, and one for each caller of its instance
   * that the lock may be passed on to without a request.
   */
  readonly tokens: number;
}

/** A request to acquire one lock, or several: all of them or none. */
export interface AcquireRequest extends LockOwnership, HandoffOptions {
  /** The lease in milliseconds, counted from when the store runs the request. */
  readonly leaseMs: number;
  /**
   * Whether the owner joins the queue if the lock is not free. Only for stores with a queue, and for one key. A
   * repeated request keeps the owner's place.
   */
  readonly queue: boolean;
  /** The deadline of the request, on the engine's clock. A request that arrives later has no effect. */
  readonly expiresAt: number;
}

/** The fencing tokens of a grant. Several keys of one request share them. */
export interface GrantedTokens {
  /** The first token. Undefined without fencing. */
  readonly token: number | undefined;
  /** How many consecutive tokens are reserved, the first included. */
  readonly tokens: number;
}

/** The owner holds the lock. */
export interface Granted extends GrantedTokens {
  readonly status: 'granted';
}

/** Another owner holds the lock, or precedes this one in the queue. */
export interface Held {
  readonly status: 'held';
  /** Whether the owner is in the queue and will receive a handoff. Otherwise the engine has to retry. */
  readonly queued: boolean;
  /** The remaining lease of the holder in milliseconds. Undefined if unknown, Infinity if it never expires. */
  readonly remainingMs: number | undefined;
  /**
   * How many owners wait in the queue before this one, if it is queued. Undefined if it is not known. The engine then
   * repeats the request as often as for the first in the queue.
   */
  readonly ahead?: number | undefined;
  /** The first key that was not free, if the request named several. */
  readonly key?: string;
  /**
   * Whether only waiters that are gone keep the owner from the lock. The next request continues to remove them from the
   * queue. The engine then repeats the request, even for a caller that does not wait for others. Default: false.
   */
  readonly isFree?: boolean;
  /**
   * Whether another system's client holds the lock. Such clients neither queue nor notify. The engine then repeats the
   * request as often as they do, and leaves the lock free for them between its turns. Default: false.
   */
  readonly isForeign?: boolean | undefined;
  /**
   * A holder, if the reply names one. The engine uses it for errors, and to see that its own release has not arrived.
   * No lock is given or ended because of it.
   */
  readonly holder?: HolderHint | undefined;
}

/** A holder that a reply names. It does not contain the owner, because an owner is enough to release the lock. */
export interface HolderHint {
  /** The holder's instance id. */
  readonly instanceId: string;
  /** When the holder got the lock from the store, on the engine's clock. Undefined if it is not known. */
  readonly since?: number | undefined;
  /** How many holders share the lock. */
  readonly count?: number | undefined;
  /** Both wire versions, if the instance that holds the lock or waits first has a different one from the store. */
  readonly wireVersions?: { readonly holder: number; readonly own: number } | undefined;
}

/** The request was not delivered before its `expiresAt`, and had no effect. */
export interface Expired {
  readonly status: 'expired';
}

/** The lock is held with a different number of permits. A retry cannot succeed before it is released. */
export interface PermitsMismatch {
  readonly status: 'permits-mismatch';
  /** The number of permits that the lock is held with. */
  readonly permits: number;
  /** The key with the different number, if the request named several. */
  readonly key?: string;
}

/** The reply to an acquire request. */
export type AcquireReply = Granted | Held | Expired | PermitsMismatch;

/** A request to release a lock, or to leave its queue. */
export interface ReleaseRequest extends LockOwnership, HandoffOptions {
  /**
   * Keeps the lock closed for this long, in milliseconds. It then expires. 0 hands it off, or frees it without waiters.
   */
  readonly closedForMs: number;
}

/** A request to end the holds of a key, of any owner. */
export interface ForceReleaseRequest extends HandoffOptions {
  readonly key: string;
  /**
   * Ends the hold only if it is exclusive and its grant began with this fencing token, as {@link LockStore.inspect}
   * returns it. Undefined: ends all holds.
   */
  readonly ifToken?: number | undefined;
}

/** A request for a new lease of a held lock. */
export interface ExtendRequest extends LockOwnership {
  /** The lease in milliseconds, counted from when the store runs the request. Never shortens the current lease. */
  readonly leaseMs: number;
}

/**
 * The reply to an extend request.
 * - `renewed`: the owner holds the lock with the new lease.
 * - `lost`: the owner does not hold the lock.
 * - `unknown`: there was no reply. The owner may still hold the lock until its local deadline.
 */
export type ExtendReply = 'renewed' | 'lost' | 'unknown';

/** Returns whether an event concerns a key. */
export type KeyFilter = (key: string) => boolean;

/** The events that a store reports to the engine. */
export interface StoreListener {
  /** The first part of all owners of this listener. */
  readonly instanceId: string;
  /** A key may be free, so that a retry can succeed. The store may report it late, twice or never. */
  onReleased(key: string): void;
  /**
   * Handoffs can be received (again), for all keys or for those that `concerns` selects. Waiters must repeat their
   * acquire request to rejoin the queue and to catch up on missed handoffs.
   */
  onSubscribed(concerns?: KeyFilter): void;
  /** The store works, but with the limitation that `message` describes. */
  onDegraded(message: string): void;
  /** A limitation that `onDegraded` has reported has ended. */
  onRecovered?(message: string): void;
  /**
   * The lease of a key could not be extended. Optional: {@link LockStore.extend} cannot say why. The store may report
   * it repeatedly.
   */
  onExtendFailed?(key: string, error: LockUnavailableError): void;
  /**
   * A connection ended. Requests sent over it, for all keys or those that `concerns` selects, may never get a reply.
   */
  onDisconnected(concerns?: KeyFilter): void;
  /**
   * A connection that had ended is back. It may lead to another server, or to one that has lost locks. The engine
   * immediately renews all locks, or those that `concerns` selects. The store may report it repeatedly.
   */
  onReconnected(concerns?: KeyFilter): void;
  /** The store, or one server of it, cannot be reached. The store may report it repeatedly. */
  onUnreachable(error: Error, server?: string): void;
  /** The store, or one server of it, replies (again). */
  onReachable(server?: string): void;
}

/**
 * Keeps locks. Every method is atomic. Outcomes are values. A method throws only `LockUnavailableError`, if the store
 * sent no usable reply.
 */
export interface LockStore {
  /** What the store can do. Constant. */
  readonly capabilities: StoreCapabilities;
  /** Subscribes a listener to the store's events. Returns the function that unsubscribes it. */
  listen(listener: StoreListener): () => void;
  /**
   * Acquires a lock that is free or already the owner's. A lock that is already the owner's gets its full lease back.
   *
   * @throws LockUnavailableError if the store sent no usable reply. The owner may still hold the lock until it is
   * released.
   */
  acquire(request: AcquireRequest): PromiseLike<AcquireReply>;
  /**
   * Releases the owner's lock, and removes the owner from the queue. Releasing twice has no further effect.
   *
   * @returns false if the owner did not hold the lock.
   * @throws LockUnavailableError if the store sent no usable reply.
   */
  release(request: ReleaseRequest): PromiseLike<boolean>;
  /** Extends a batch of leases. Returns one reply for each request, in the same order. Does not throw. */
  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]>;
  /**
   * Returns the state of a key, or null if nobody holds it and nobody waits for it.
   *
   * @throws LockUnavailableError if the store sent no usable reply.
   */
  inspect(key: string): Promise<LockState | null>;
  /**
   * Yields the locks that are held or waited for and that the request selects, in any order, each once. A lock that is
   * acquired or released during the listing may be missing. The engine refuses `LockService.list()` if the store has no
   * such method.
   *
   * @throws LockUnavailableError if the store sent no usable reply, or may not have yielded all locks.
   */
  readonly list?: ((request: ListRequest) => AsyncIterable<ListedLock>) | undefined;
  /**
   * Returns the name of the server that keeps a key. Undefined if it is not known. Implemented by stores with several
   * servers, whose outages are independent.
   */
  readonly serverOf?: ((key: string) => string | undefined) | undefined;
  /**
   * Returns the connections on which requests for locks are sent, one for each server. With them, the engine treats a
   * server as silent only if nothing was read from it for the time limit of a request. Without this method, one request
   * without a reply is enough.
   */
  readonly connections?: (() => Iterable<ServerConnection>) | undefined;
  /** Sends a cheap request to each server. Resolves within the context's `requestTimeoutMs` and does not reject. */
  ping(): Promise<StorePing>;
  /**
   * Ends all holds of a key, of any owner: the exclusive one, or all that share it or have its permits. Hands the lock
   * off as a release does. The former holders learn of the loss no later than at their next renewal. Ends the holds
   * that the key has at the time of the call. A request that arrives twice must not end the hold of the next owner.
   *
   * Returns false if nobody holds the key, if the hold ended by itself before the request ran, or if `ifToken` is not
   * its token. Throws `LockUnavailableError` if the store sent no usable reply, even if an earlier run of the request
   * may have ended the hold. The engine refuses `forceRelease()` if the store has no such method.
   */
  readonly forceRelease?: ((request: ForceReleaseRequest) => Promise<boolean>) | undefined;
  /** Closes what the store opened. */
  close(): Promise<void>;
}

/** The connection to a server, as far as it shows whether the server is alive. */
export interface ServerConnection {
  /** The name of the server, as {@link LockStore.serverOf} returns it. Undefined on a single server. */
  readonly server: string | undefined;
  /** A number that changes whenever something is read from the server. */
  readonly received: number;
  /** When the connection last ended, on the engine's clock. A request that was sent earlier may never get a reply. */
  readonly lostAt: number;
  /** Sends a cheap request, so that a server that is alive sends something. Does not throw. */
  probe(): void;
  /**
   * Replaces the connection if it is the module's own, because it has been silent for long. What waits in its buffers
   * is dropped. Does not throw.
   */
  reset?(): void;
}
