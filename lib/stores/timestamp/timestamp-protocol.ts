import type { ExtendReply } from '../../core/store/lock-store.js';
import type { HeldLease, Expiry } from './held-leases.js';

/** One try for a lock. */
export interface Take {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  /** The moment on our clock after which it must have no effect. */
  readonly expiresAt: number;
  /** Whether anybody still waits for the answer. */
  readonly isWanted: () => boolean;
}

export type Taken =
  | { readonly status: 'granted'; readonly stamp: Expiry }
  /** Others hold it; what is in the key, undefined if it changed hands too fast to tell. */
  | { readonly status: 'held'; readonly held: string | undefined }
  | { readonly status: 'expired' };

/** A new expiry for a lock that is ours. */
export interface Renewal {
  readonly lease: HeldLease;
  readonly stamp: Expiry;
}

/** The steps of the algorithm on a server: each one script, or several plain commands. They reject if it could not be asked. */
export interface TimestampProtocol {
  /** Whether it can be asked now. */
  readonly ready: boolean;
  /** Waits until it can be asked; at the longest until the local moment `until`. */
  prepare(key: string, until: number): Promise<void>;
  take(ask: Take): Promise<Taken>;
  /** An answer for each, in the same order; none rejects. */
  renew(renewals: readonly Renewal[]): Promise<readonly ExtendReply[]>;
  /** Ends the lock; false if it was not ours any more. */
  end(lease: HeldLease): Promise<boolean>;
  /** Leaves the lock closed until the stamp; false if it was not ours any more. */
  keep(lease: HeldLease, stamp: Expiry): Promise<boolean>;
}
