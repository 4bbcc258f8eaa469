import { driftOf } from '../time/clock.js';
import type { CallDetails } from '../events/call.js';
import { LockLostError } from '../errors.js';
import type { LockCallContext } from '../events/tracing.js';
import type { GrantedTokens, LockMode } from '../store/lock-store.js';

/** The options that a hold is kept by. Times are in milliseconds. */
export interface HoldOptions extends CallDetails {
  /** The lease of every renewal. */
  readonly ttlMs: number;
  readonly renew: boolean;
  /** The longest hold. Infinity for no limit. */
  readonly maxHoldMs: number;
  readonly minHoldMs: number;
  /** A hold that is renewed for longer than this is reported. False and Infinity: none is. Default: false. */
  readonly warnHeldMs?: number | false | undefined;
}

/** A hold, as its grant knows it. */
export interface GrantHold {
  /** Whether a lock scope has it, and no caller. */
  readonly isKept: boolean;
  /** Whether work runs under it, until it ends. */
  readonly runsWork: boolean;
  /** Called when the grant is lost. */
  lost(error: LockLostError): void;
  /** Called if the only caller that was given the grant does not use it. */
  unused?(): void;
  /**
   * Called at each renewal of a full lease. Returns the hold that takes its place. Undefined, and without this method:
   * it stays.
   */
  onRenewed?(): GrantHold | undefined;
}

/** A caller that waits until no work runs under a grant. */
export interface GrantWaiter {
  /** Orders the waiters. Lower numbers come first. */
  readonly arrival: number;
  /** Called when it is its turn. Must add the caller's hold before it returns. */
  enter(): void;
  /** Called if the grant has ended, or a lock scope no longer keeps it. */
  startOver(): void;
}

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
   * request was answered.
   */
  readonly mayBeRepeatedUntil?: number | undefined;
}

/** A lease that was requested for an owner, and whose reply is expected. */
export interface Renewal {
  readonly lease: Lease;
  /** The grant that `extend()` was called for, which is renewed in any case. */
  readonly target: Grant | undefined;
  /** Whether a deadline has passed, and the next tick declares the grant lost if the reply was not read by then. */
  isLastChance: boolean;
}

/** What the store granted, and the grants that callers have of it. See `Ownership`. */
export interface GrantOwner {
  readonly key: string;
  readonly owner: string;
  readonly mode: LockMode;
  /** The grants that have not ended. Nearly always one. */
  readonly grants: readonly Grant[];
  /** See {@link StoreGrant.mayBeRepeatedUntil}. */
  readonly mayBeRepeatedUntil: number;
  /** The last renewal, while its reply is expected. */
  renewal: Renewal | undefined;
  /** When the watchdog looks at it next. Undefined while it does not watch it. */
  dueAt: number | undefined;
  /**
   * Ends a grant that is released or lost. Returns whether the store still had it.
   *
   * @param closedUntil until when a lost lock stays closed. Default: it is free now.
   */
  end(grant: Grant, closedUntil?: number): Promise<boolean>;
}

export type GrantState = 'held' | 'lost' | 'ended';

const NO_HOLDS: readonly GrantHold[] = [];

/**
 * A key that the store granted to this module instance. Nested holds share one grant, which ends with the last of them.
 *
 * The local `deadline` is always earlier than the expiry in Redis. It counts from before the request was sent and is
 * shortened by the drift of the clocks.
 */
export class Grant {
  readonly maxHoldUntil: number;
  /** The key stays closed until then, even if the work ends sooner. */
  minHoldUntil: number;
  /** The lease of renewals. `extend(ttlMs)` changes it. */
  ttlMs: number;
  /** The local moment at which the grant is lost if it is not renewed. */
  deadline: number;
  /** The lease that the deadline comes from, in milliseconds. Renewals change it. */
  leaseMs: number;
  // When that lease was requested.
  private leasedAt: number;
  /** Whether the watchdog renews it and checks its deadline. */
  isWatched = false;
  /** The number of the call that it was given to. See `nextCall()`. */
  call = 0;
  /** What subscribers of traces know the call by. Undefined if there were none at the grant. */
  trace: LockCallContext | undefined = undefined;
  /** Resolves when its first renewal is written. No caller gets the lock before. Undefined: it may be used at once. */
  ready: Promise<void> | undefined = undefined;
  /** Whether it was reported, because it is held for longer than `warnHeldMs`. */
  isOverdue = false;
  /** Why the deadline has passed without a renewal, as found when that was first noticed. */
  whyOver: string | undefined = undefined;
  /** The holds. Nearly always one. */
  private holds: readonly GrantHold[] = NO_HOLDS;
  private callers = 0;
  private workCount = 0;
  /** Callers in lock scopes, in order of arrival. Undefined until the first one waits. */
  private waiters: GrantWaiter[] | undefined = undefined;
  private current: GrantState = 'held';
  private reason: LockLostError | undefined;

  constructor(
    readonly resource: string,
    readonly token: number | undefined,
    readonly options: HoldOptions,
    readonly grantedAt: number,
    lease: Lease,
    readonly ownership: GrantOwner,
  ) {
    this.ttlMs = options.ttlMs;
    this.maxHoldUntil = grantedAt + options.maxHoldMs;
    this.minHoldUntil = grantedAt + options.minHoldMs;
    this.leasedAt = lease.sentAt;
    this.leaseMs = lease.leaseMs;
    this.deadline = Math.min(deadlineOf(lease.sentAt, lease.leaseMs), this.maxHoldUntil);
  }

  get key(): string {
    return this.ownership.key;
  }

  get owner(): string {
    return this.ownership.owner;
  }

  get mode(): LockMode {
    return this.ownership.mode;
  }

  get state(): GrantState {
    return this.current;
  }

  /** Why the grant was lost. Undefined in any other state. */
  get loss(): LockLostError | undefined {
    return this.reason;
  }

  /** The lease that the deadline comes from. */
  get lease(): Lease {
    return { sentAt: this.leasedAt, leaseMs: this.leaseMs };
  }

  /** Whether a caller has a hold of it. The holds of lock scopes do not count. */
  get isInUse(): boolean {
    return this.holds.some(({ isKept }) => !isKept);
  }

  /** How many holds of callers have not ended. */
  get useCount(): number {
    return this.holds.filter(({ isKept }) => !isKept).length;
  }

  /**
   * Whether other callers in the lock scopes that keep it must wait: work runs under it, or others wait already. Shared
   * locks and permits are never busy.
   */
  get isBusy(): boolean {
    return this.mode === 'exclusive' && (this.workCount > 0 || (this.waiters?.length ?? 0) > 0);
  }

  /** When to renew: two thirds of `ttlMs` before the deadline, or at once if the lease is short. Infinity: never. */
  get renewAt(): number {
    if (this.deadline >= this.maxHoldUntil) return Infinity;
    if (this.isShort) return this.leasedAt;
    if (!this.options.renew) return Infinity;
    // So work that blocks the event loop for less than two thirds of `ttlMs` does not outlast its lease.
    return deadlineOf(this.leasedAt, this.leaseMs) - (Math.min(this.leaseMs, this.ttlMs) * 2) / 3;
  }

  /**
   * Whether the lease is shorter than the holder's `ttlMs`: after a handoff, or if another caller's request was
   * granted.
   */
  get isShort(): boolean {
    return this.leaseMs < this.nextLeaseMs(this.leasedAt);
  }

  /** Returns the lease to request at `now`: `ttlMs`, but no longer than `maxHoldMs` allows. */
  nextLeaseMs(now: number): number {
    return Math.min(this.ttlMs, Math.ceil(this.maxHoldUntil - now + driftOf(this.ttlMs)));
  }

  /**
   * Returns whether the store's reply that it renewed this lease counts if it is read at `now`. A blocked event loop
   * reads a reply late, after the deadline. It counts if the request was sent before the deadline, because the store
   * has found the owner's lock then, and nobody else could have had it in between.
   */
  canBeRenewed({ sentAt, leaseMs }: Lease, now: number): boolean {
    if (now < this.deadline) return true;
    // A late acquire request of the same owner could have granted the lock once more, after another holder.
    const isUnbroken = sentAt < this.deadline && this.ownership.mayBeRepeatedUntil <= this.deadline;
    return isUnbroken && now < Math.min(deadlineOf(sentAt, leaseMs), this.maxHoldUntil);
  }

  /** Records a renewal that was requested at `sentAt`. Ignores a lease that ends before the present one. */
  renewed({ sentAt, leaseMs }: Lease): void {
    const deadline = Math.min(deadlineOf(sentAt, leaseMs), this.maxHoldUntil);
    if (deadline < this.deadline) return;
    // The holder of a handoff renews its short lease at once, so that says nothing about how long it holds the lock.
    if (!this.isShort) this.holds = this.holds.map((hold) => hold.onRenewed?.() ?? hold);
    this.deadline = deadline;
    this.leasedAt = sentAt;
    this.leaseMs = leaseMs;
    this.whyOver = undefined;
  }

  /** Adds a hold. */
  join(hold: GrantHold): void {
    this.holds = this.holds.length === 0 ? [hold] : [...this.holds, hold];
    if (!hold.isKept) this.callers += 1;
    if (hold.runsWork) this.workCount += 1;
  }

  /** Removes a hold. Returns true if it was the last hold of a grant that is still held. */
  part(hold: GrantHold): boolean {
    this.holds = without(this.holds, hold);
    if (hold.runsWork) this.workCount -= 1;
    if (this.waiters !== undefined) {
      if (hold.isKept) this.startOver();
      else this.enterNext();
    }
    return this.holds.length === 0 && this.current === 'held';
  }

  /** Adds a caller that waits until no work runs under the grant. */
  wait(waiter: GrantWaiter): void {
    // Nobody would let it in.
    if (this.current !== 'held' || !this.holds.some(({ isKept }) => isKept)) return waiter.startOver();
    this.waiters ??= [];
    let place = this.waiters.length;
    while (place > 0 && this.waiters[place - 1].arrival > waiter.arrival) place -= 1;
    this.waiters.splice(place, 0, waiter);
    this.enterNext();
  }

  /** Removes a caller that waits. */
  stopWaiting(waiter: GrantWaiter): void {
    this.waiters = this.waiters?.filter((other) => other !== waiter);
  }

  /** Lets those that wait enter, until one of them runs work. */
  private enterNext(): void {
    while (this.workCount === 0 && this.current === 'held') {
      const next = this.waiters?.shift();
      if (next === undefined) return;
      next.enter();
    }
  }

  private startOver(): void {
    const { waiters = [] } = this;
    this.waiters = undefined;
    for (const waiter of waiters) waiter.startOver();
  }

  /** Ends the grant as lost, for good. Returns the loss. Undefined if the grant had ended before. */
  lose(why: string, now: number, cause?: unknown): LockLostError | undefined {
    if (this.current !== 'held') return undefined;
    this.current = 'lost';
    const elapsedMs = now - this.grantedAt;
    const message = `The lock on ${this.resource} was lost after ${Math.round(elapsedMs)} ms: ${why}.`;
    this.reason = new LockLostError(message, { resource: this.resource, elapsedMs, cause });
    for (const hold of this.holds) hold.lost(this.reason);
    this.startOver();
    return this.reason;
  }

  /**
   * Drops `minHoldMs` and the holds of lock scopes, because the caller does not begin its work. Does nothing if the
   * grant was given to another caller too.
   */
  discard(): void {
    if (this.callers > 1) return;
    this.minHoldUntil = this.grantedAt;
    for (const hold of this.holds) hold.unused?.();
  }

  /** Ends the grant as released. */
  end(): void {
    if (this.current === 'held') this.current = 'ended';
  }
}

/**
 * The longest lease of a handoff. A live holder renews it at once. A dead one delays the others for no longer. It is
 * longer than the time limit of a request.
 */
export const HANDOFF_MS = 1_200;

/** The same, if the last holder did not release the lock. It may be one of several that are dead. */
const HANDOFF_AFTER_EXPIRY_MS = 250;

/** Returns the lease of the next holder, in milliseconds, if this one has a lease of `leaseMs`. */
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

function without(holds: readonly GrantHold[], hold: GrantHold): readonly GrantHold[] {
  return holds.length === 1 && holds[0] === hold ? NO_HOLDS : holds.filter((other) => other !== hold);
}
