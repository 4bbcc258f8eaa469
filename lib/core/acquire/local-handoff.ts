import { deadlineOf, type Lease, type StoreGrant } from '../lease/grant.js';

/** How far a lock may be passed on among the callers of one module instance, before others get their turn. */
export interface PassingLimits {
  readonly maxLocalPasses: number;
  readonly maxLocalHoldMs: number;
}

/**
 * One grant by the store, for as long as the lock is passed on from caller to caller without asking the store (lock
 * cohorting: Dice, Marathe and Shavit, "Lock Cohorting", PPoPP 2012). Each caller gets the next of the fencing tokens that
 * were set aside with the grant, so that tokens rise with every one of them.
 */
export class LocalHandoff {
  readonly owner: string;
  private passes = 0;

  constructor(
    private readonly grant: StoreGrant,
    private readonly startedAt: number,
  ) {
    this.owner = grant.owner;
  }

  /** The present caller's token. */
  get token(): number | undefined {
    const { token } = this.grant;
    return token === undefined ? undefined : token + this.passes;
  }

  /**
   * Passes on to the next caller, if that may be: the limits and the tokens allow it, and more than half of the lease is
   * left, so that the next one does not begin with a lock that is about to end.
   */
  tryPass(now: number, { sentAt, leaseMs }: Lease, { maxLocalPasses, maxLocalHoldMs }: PassingLimits): boolean {
    const { token, tokens } = this.grant;
    const spent =
      token === undefined ? this.passes >= maxLocalPasses : this.passes >= Math.min(maxLocalPasses, tokens - 1);
    const tooLong = now - this.startedAt >= maxLocalHoldMs;
    const fading = now - sentAt > leaseMs / 2 || now >= deadlineOf(sentAt, leaseMs);
    if (spent || tooLong || fading) return false;
    this.passes += 1;
    return true;
  }
}
