import { driftOf } from '../clock/clock.js';
import type { Granted, LockMode } from '../contract/store.js';
import type { KeyQueue } from './key-queue.js';
import type { Lock } from './lock.js';
import { leaseOf, type HoldOptions, type PassingLimits } from './options.js';

/** The longest lease of a lock that a release hands to another instance, which asks for its full lease at once. */
export const HANDOFF_MS = 1_200;

/** The same if a request finds the key free with a queue: its last holder may have died, and the first waiter, too. */
export const AFTER_EXPIRY_MS = 250;

/** Returns the lease that the next instance starts with, if the last holder had a lease of `leaseMs`. */
export function handoffLease(leaseMs: number): number {
  return Math.max(1, Math.min(HANDOFF_MS, leaseMs));
}

/** Returns the local deadline of a lease that was requested at `sentAt`. It is earlier than the lease's end. */
export function deadlineOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - driftOf(leaseMs);
}

/** A request for a new lease, whose reply is expected. */
export interface Renewal {
  readonly sentAt: number;
  readonly leaseMs: number;
  /** Whether a deadline has passed, and the next look declares the lock lost if the reply is still unread then. */
  isLastChance: boolean;
}

/**
 * What the store has granted to one owner: an exclusive lock, a share of the readers, or a permit. It serves one caller
 * after the other, or several readers at the same time. It is released when its last lock has ended.
 */
export class Lease {
  /** The callers' locks that have not ended. Nearly always one. */
  readonly locks: Lock[] = [];
  /** The local moment from which nobody may rely on the lease. It counts from before the request was sent. */
  deadline: number;
  /** The longest lease that the store may keep, even if the reply to a renewal was lost. */
  longestMs: number;
  /** The last request for a new lease, while its reply is expected. */
  renewal: Renewal | undefined = undefined;
  /** Whether the lease has to be renewed again, because a message came while a renewal was on its way. */
  mustRenewAgain = false;
  /** Whether a message said that the lock may have been released by force. */
  isForced = false;
  /** The last renewal had no effect, so the next one is not sent before this moment. */
  renewNotBefore = 0;
  /** When the renewer looks at the lease next. Undefined while it is not watched. */
  dueAt: number | undefined = undefined;
  /** The key stays closed until this moment (`minHoldMs`, `onceMs`, or `lockDelayMs` after a loss). */
  closedUntil = 0;
  /** Whether it then is closed because the work of the last lock is done. */
  isDone = false;
  /** When the request that it was granted to was sent. */
  readonly askedAt: number;
  private passes = 0;
  private wasLost = false;

  /**
   * @param hasFailed whether a request of the owner got no reply. It may run late, and grant the lock once more, after
   * other holders.
   */
  constructor(
    readonly queue: KeyQueue,
    readonly owner: string,
    readonly mode: LockMode,
    private readonly granted: Granted,
    readonly grantedAt: number,
    private sentAt: number,
    private leaseMs: number,
    readonly hasFailed: boolean,
  ) {
    this.deadline = deadlineOf(sentAt, leaseMs);
    this.longestMs = leaseMs;
    this.askedAt = sentAt;
  }

  get key(): string {
    return this.queue.key;
  }

  /** The fencing token of the next lock. Callers of an exclusive lease get consecutive ones. Sharers have the same. */
  get token(): number | undefined {
    const { token } = this.granted;
    return token === undefined || this.mode !== 'exclusive' ? token : token + this.passes;
  }

  /** When to renew: after a third of the lease, or now if a lock wants a longer one. Infinity: no lock wants that. */
  get renewAt(): number {
    const { sentAt, leaseMs, deadline } = this;
    let at = Infinity;
    for (const lock of this.locks) {
      if (lock.limit <= deadline) continue;
      at = Math.min(at, this.isTooShortFor(lock) ? sentAt : deadline - (Math.min(leaseMs, lock.ttlMs) * 2) / 3);
    }
    return at;
  }

  /** Returns the lease to request at `now`: the longest that a lock wants. */
  wantedLeaseMs(now: number): number {
    // The shortest lease only checks whether the lock is still held, because no lease is ever shortened.
    let longest = 1;
    for (const lock of this.locks) if (lock.limit > this.deadline) longest = Math.max(longest, lock.wantedLeaseMs(now));
    return longest;
  }

  /** Whether the lease was requested for a caller that wanted a shorter one. */
  private isTooShortFor(lock: Lock): boolean {
    return this.leaseMs < lock.wantedLeaseMs(this.sentAt);
  }

  /**
   * Returns whether the store's reply that it renewed this lease counts for a lock if it is read at `now`. A blocked
   * event loop reads a reply late, after the deadline. The reply counts if the request was sent before the deadline,
   * because the store then found the owner's lock, and nobody else can have had it in between.
   */
  canBeRenewed(lock: Lock, { sentAt, leaseMs }: Renewal, now: number): boolean {
    if (now < lock.deadline) return true;
    // A store without a queue may hold a vote, in which some servers have not replied yet.
    const isCertain = this.queue.parts.link.store.capabilities.queue && !this.hasFailed;
    return isCertain && sentAt < lock.deadline && now < Math.min(deadlineOf(sentAt, leaseMs), lock.limit);
  }

  /** Records a renewal. Ignores one that ends before the current lease. */
  renewed({ sentAt, leaseMs }: Renewal): void {
    const deadline = deadlineOf(sentAt, leaseMs);
    if (deadline < this.deadline) return;
    this.sentAt = sentAt;
    this.leaseMs = leaseMs;
    this.deadline = deadline;
  }

  /**
   * Removes a lock that has ended.
   *
   * @param closedUntil until when the key stays closed: `minHoldMs`, `onceMs`, or `lockDelayMs` after a loss.
   * @param isDone whether it stays closed because the work of the lock is done.
   */
  remove(lock: Lock, closedUntil: number, isDone = false): void {
    this.locks.splice(this.locks.indexOf(lock), 1);
    this.wasLost ||= lock.loss !== undefined;
    this.isDone = isDone && closedUntil >= this.closedUntil;
    this.closedUntil = Math.max(this.closedUntil, closedUntil);
  }

  /**
   * Counts a further caller that gets the lease without a request. Returns false if the limits or the reserved tokens
   * are used up, if less than half of the lease is left, if it is shorter than the caller wants, if a caller has lost
   * its lock, or if the store may have ended it by force.
   */
  tryPass(options: HoldOptions, now: number, { maxLocalPasses, maxLocalHoldMs }: PassingLimits): boolean {
    if (this.wasLost || this.isForced || this.renewal !== undefined || this.closedUntil > now) return false;
    if (now - this.grantedAt >= maxLocalHoldMs || now - this.sentAt > this.leaseMs / 2) return false;
    if (now >= this.deadline || this.leaseMs < leaseOf(options)) return false;
    const { token, tokens } = this.granted;
    const isNumbered = this.mode === 'exclusive' && token !== undefined;
    if (this.passes >= (isNumbered ? Math.min(maxLocalPasses, tokens - 1) : maxLocalPasses)) return false;
    this.passes += 1;
    return true;
  }
}
