import { deadlineOf, type Grant, type Lease, type StoreGrant } from '../lease/grant.js';
import type { PassingLimits } from './acquire-options.js';

/** How many fencing tokens to reserve for a lock that may be kept, and so how many callers may have it in a row. */
export const KEPT_TOKENS = 256;

/** How much of a kept lock's lease is left for its last caller, so that it can be renewed. Half of a shorter lease. */
const LEFT_FOR_RENEWAL_MS = 250;

/** How a grant may be passed on. */
interface HandoffTraits {
  /** Whether all callers have one token, because the order of those that share a lock does not matter. */
  readonly hasOneToken?: boolean;
  /**
   * Whether no other instance wants the lock, as far as is known, and the store reports it if one does. Then its
   * callers pass it on without the limits of fairness, and the instance may keep it.
   */
  readonly isUnwanted?: boolean;
}

/**
 * One grant of the store that is passed on from caller to caller without a request (lock cohorting: Dice, Marathe and
 * Shavit, "Lock Cohorting", PPoPP 2012). Each caller of an exclusive lock gets the next of the fencing tokens that were
 * reserved with the grant, so that every caller's token is higher than the last.
 */
export class LocalHandoff {
  readonly owner: string;
  private passes = 0;
  private readonly hasOneToken: boolean;
  /** See {@link HandoffTraits.isUnwanted}. */
  isUnwanted: boolean;
  /** The longest lease that the store may keep for it, by the holds that have ended, in milliseconds. */
  longestLeaseMs: number;

  constructor(
    private readonly grant: StoreGrant,
    /** When the store granted it. */
    readonly startedAt: number,
    { hasOneToken = false, isUnwanted = false }: HandoffTraits = {},
  ) {
    this.owner = grant.owner;
    this.hasOneToken = hasOneToken;
    this.isUnwanted = isUnwanted;
    this.longestLeaseMs = grant.leaseMs;
  }

  /** The current caller's fencing token, undefined if the store gives none. */
  get token(): number | undefined {
    const { token } = this.grant;
    return token === undefined || this.hasOneToken ? token : token + this.passes;
  }

  /** See {@link StoreGrant.mayBeRepeatedUntil}. */
  get mayBeRepeatedUntil(): number | undefined {
    return this.grant.mayBeRepeatedUntil;
  }

  /** How many callers have held it. */
  get grants(): number {
    return this.passes + 1;
  }

  /** Called at the end of each hold, with its grant. */
  onEnded({ ttlMs, leaseMs }: Grant): void {
    // The last renewal may have run without a reply.
    this.longestLeaseMs = Math.max(this.longestLeaseMs, ttlMs, leaseMs);
  }

  /** Returns until when the lock may be kept and given to the next caller. 0 if it must be released. */
  keepUntil(now: number, lease: Lease, keepMs: number): number {
    // A crash must not cost others more than `keepMs`.
    if (!this.isUnwantedAt(now) || this.longestLeaseMs > keepMs || !this.hasTokens(KEPT_TOKENS - 1)) return 0;
    return lastPassOf(lease);
  }

  /**
   * Passes the grant on to the next caller. Returns false if the limits or the reserved tokens are used up, or if less
   * than half of the lease is left. While no other instance wants the lock, only the tokens, the lease and the time
   * since the grant limit it.
   */
  tryPass(now: number, lease: Lease, limits: PassingLimits): boolean {
    const mayPass = this.isUnwantedAt(now)
      ? this.hasTokens(KEPT_TOKENS - 1) && now < lastPassOf(lease)
      : this.isWithin(limits, now, lease);
    if (mayPass) this.passes += 1;
    return mayPass;
  }

  /** Whether no other instance wants the lock. If one cannot report that, it gets a chance after each lease. */
  private isUnwantedAt(now: number): boolean {
    return this.isUnwanted && now - this.startedAt < this.longestLeaseMs;
  }

  private hasTokens(maxPasses: number): boolean {
    const { token, tokens } = this.grant;
    const isLimited = token !== undefined && !this.hasOneToken;
    return this.passes < (isLimited ? Math.min(maxPasses, tokens - 1) : maxPasses);
  }

  private isWithin(
    { maxLocalPasses, maxLocalHoldMs }: PassingLimits,
    now: number,
    { sentAt, leaseMs }: Lease,
  ): boolean {
    const isOverdue = now - this.startedAt >= maxLocalHoldMs;
    // The next caller must not start with a lock that is about to end.
    const isEnding = now - sentAt > leaseMs / 2 || now >= deadlineOf(sentAt, leaseMs);
    return this.hasTokens(maxLocalPasses) && !isOverdue && !isEnding;
  }
}

/** Returns the last moment at which a kept lock is given to a caller, whose renewal then still arrives in time. */
function lastPassOf({ sentAt, leaseMs }: Lease): number {
  return deadlineOf(sentAt, leaseMs) - Math.min(LEFT_FOR_RENEWAL_MS, leaseMs / 2);
}
