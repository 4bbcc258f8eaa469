/**
 * The contract between the engine and a store, which keeps locks somewhere. All times are in milliseconds. A method
 * throws `LockUnavailableError` if there is no usable reply, and {@link UnansweredError} if there is none at all.
 */

import type { ListedLock, ListRequest } from '../core/store/lock-listing.js';
import type { LockMode } from '../core/store/lock-mode.js';
import type { LockState } from '../core/store/lock-state.js';
import type {
  ExtendReply,
  Granted as FormerGranted,
  HolderHint,
  KeyFilter,
  PermitsMismatch,
  StoreCapabilities,
} from '../core/store/lock-store.js';
import type { StorePing } from '../core/store/store-ping.js';

export type { ExtendReply, HolderHint, KeyFilter, LockMode, LockState, PermitsMismatch, StoreCapabilities, StorePing };
export type { ListedLock, ListRequest };

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

/** A request to acquire a lock. */
export interface AcquireRequest extends Owned {
  readonly leaseMs: number;
  /** Whether the owner joins the queue if the lock is held. */
  readonly wait: boolean;
  /** The lease of the owner that gets the lock if the request finds it free and others waiting. */
  readonly handoffMs: number;
}

/** The owner holds the lock with the full lease. */
export type Granted = FormerGranted;

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
}

/** The reply to an acquire request. */
export type AcquireReply = Granted | Held | PermitsMismatch;

/** A request to release a lock, or to leave its queue. */
export interface ReleaseRequest extends Owned {
  /** Keeps the lock closed for this long. 0 hands it off, or frees it. */
  readonly closedForMs: number;
  /** The lease of the next owner. */
  readonly handoffMs: number;
}

/** A request for a new lease of a held lock. */
export interface ExtendRequest extends Owned {
  /** Never shortens the current lease. */
  readonly leaseMs: number;
}

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
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /**
   * Releases the owner's lock, and removes the owner from the queue. Called when the owner's acquire request was
   * answered or has failed. Releasing twice has no further effect.
   *
   * @returns false if the owner did not hold the lock.
   */
  release(request: ReleaseRequest): Promise<boolean>;
  /** Extends leases. Returns one reply for each request, in the same order. Does not throw. */
  extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]>;
  /** Returns the state of a key, or null if nobody holds it and nobody waits for it. */
  inspect(key: string): Promise<LockState | null>;
  /** Yields the locks that are held or waited for and that the request selects, each once. */
  readonly list?: ((request: ListRequest) => AsyncIterable<ListedLock>) | undefined;
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
