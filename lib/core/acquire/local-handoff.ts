import { deadlineOf, type Grant, type Lease, type StoreGrant } from '../lease/grant.js';
import type { PassingLimits } from './acquire-options.js';

/**
 * One grant of the store that is passed on from caller to caller without a request (lock cohorting: Dice, Marathe and
 * Shavit, "Lock Cohorting", PPoPP 2012). Each caller of an exclusive lock gets the next of the fencing tokens that were
 * reserved with the grant, so that every caller's token is higher than the last.
 */
export class LocalHandoff {
  readonly owner: string;
  private passes = 0;
  /** The longest lease that the store may keep for it, by the holds that have ended, in milliseconds. */
  longestLeaseMs: number;

  constructor(
    private readonly grant: StoreGrant,
    /** When the store granted it. */
    readonly startedAt: number,
    /** Whether all callers have one token, because the order of those that share a lock does not matter. */
    private readonly hasOneToken = false,
  ) {
    this.owner = grant.owner;
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

  /** Called at the end of each hold of a share, with its grant. */
  onEnded({ ttlMs, leaseMs }: Grant): void {
    // The last renewal may have run without a reply.
    this.longestLeaseMs = Math.max(this.longestLeaseMs, ttlMs, leaseMs);
  }

  /**
   * Passes the grant on to the next caller. Returns false if the limits or the reserved tokens are used up, or if less
   * than half of the lease is left.
   */
  tryPass(now: number, { sentAt, leaseMs }: Lease, { maxLocalPasses, maxLocalHoldMs }: PassingLimits): boolean {
    const isOverdue = now - this.startedAt >= maxLocalHoldMs;
    // The next caller must not start with a lock that is about to end.
    const isEnding = now - sentAt > leaseMs / 2 || now >= deadlineOf(sentAt, leaseMs);
    const mayPass = this.hasTokens(maxLocalPasses) && !isOverdue && !isEnding;
    if (mayPass) this.passes += 1;
    return mayPass;
  }

  private hasTokens(maxPasses: number): boolean {
    const { token, tokens } = this.grant;
    const isLimited = token !== undefined && !this.hasOneToken;
    return this.passes < (isLimited ? Math.min(maxPasses, tokens - 1) : maxPasses);
  }
}
