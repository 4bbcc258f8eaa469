import type { ExtendReply } from '../../core/store/lock-store.js';
import type { Expiry } from './expiry-clock.js';
import type { HeldLease } from './held-leases.js';

/** One attempt to take a lock. */
export interface TakeRequest {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  /** The moment on the local clock after which the attempt must have no effect. */
  readonly expiresAt: number;
  /** Returns false once the owner was released: nothing more is sent then. */
  readonly isWanted: () => boolean;
}

export type TakeReply =
  | { readonly status: 'granted'; readonly expiry: Expiry }
  /**
   * Another client holds the lock. `held` is the key's value. Undefined if the key changed too often. `owner` is known
   * if it is an instance with scripts.
   */
  | { readonly status: 'held'; readonly held: string | undefined; readonly owner?: string | undefined }
  | { readonly status: 'expired' };

/** A new expiry for a lock that this instance holds. */
export interface Renewal {
  readonly lease: HeldLease;
  readonly expiry: Expiry;
}

/**
 * The steps of the algorithm on a server: each one script, or several plain commands. A step rejects if Redis did not
 * reply.
 */
export interface TimestampProtocol {
  /** Whether a request can be sent now. */
  readonly ready: boolean;
  /** Waits until a request can be sent, at most until the local moment `until`. */
  prepare(key: string, until: number): Promise<void>;
  /** Takes the lock if it is free or expired. */
  take(request: TakeRequest): Promise<TakeReply>;
  /** Writes new expiries. Returns a reply or an error for each, in the same order, and does not reject. */
  renew(renewals: readonly Renewal[]): Promise<readonly (ExtendReply | Error)[]>;
  /** Deletes the lock. Returns false if it was no longer ours. */
  end(lease: HeldLease): Promise<boolean>;
  /** Keeps the lock until the expiry, without a holder. Returns false if it was no longer ours. */
  keep(lease: HeldLease, expiry: Expiry): Promise<boolean>;
}
