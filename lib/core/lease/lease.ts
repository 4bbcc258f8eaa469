import type { GrantedTokens } from '../store/lock-store.js';
import { driftOf } from '../time/clock.js';

/** A lease, as it was requested. */
export interface Lease {
  /** The local moment from which the lease counts: before the request was sent. */
  readonly sentAt: number;
  readonly leaseMs: number;
}

/** A grant of the store to one attempt. */
export interface StoreGrant extends GrantedTokens, Lease {
  readonly owner: string;
  /**
   * The local moment until which a request of the attempt may still grant the lock once more. Undefined if every
   * request has a reply.
   */
  readonly mayBeRepeatedUntil?: number | undefined;
}

/**
 * The longest lease of a handoff. A live holder renews it immediately. A dead holder delays others for no longer than
 * this. It is longer than the time limit of a request.
 */
export const HANDOFF_MS = 1_200;

/** The same, if the last holder did not release the lock. It may be one of several dead instances. */
const HANDOFF_AFTER_EXPIRY_MS = 250;

/** Returns the lease of the next holder, in milliseconds, if the current holder has a lease of `leaseMs`. */
export function handoffLease(leaseMs: number): number {
  return Math.min(HANDOFF_MS, leaseMs);
}

/** Like {@link handoffLease}, for a lock that a request finds free although others wait for it. */
export function handoffLeaseAfterExpiry(leaseMs: number): number {
  return Math.min(HANDOFF_AFTER_EXPIRY_MS, leaseMs);
}

/** Returns the local deadline of a lease that was requested at `sentAt`. */
export function deadlineOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - driftOf(leaseMs);
}

/** Returns a lease of at most `leaseMs` from `now`, whose deadline is not later than that of the given lease. */
export function cutTo(lease: Lease, leaseMs: number, now: number): Lease {
  if (lease.leaseMs <= leaseMs) return lease;
  const latest = deadlineOf(lease.sentAt, lease.leaseMs) - deadlineOf(0, leaseMs);
  return { sentAt: Math.min(now, latest), leaseMs };
}
