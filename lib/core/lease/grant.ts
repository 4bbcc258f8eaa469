import { LockLostError } from '../errors.js';
import { type CallDetails, nameOfCall } from '../events/call.js';
import type { LockCallContext } from '../events/tracing.js';
import type { LockMode } from '../store/lock-store.js';
import { type Clock, driftOf, type Timer } from '../time/clock.js';
import { withItem, without } from '../lists.js';
import { cutTo, deadlineOf, type Lease, type StoreGrant } from './lease.js';
import type { Releaser } from './releaser.js';

/** The options of a hold. Times are in milliseconds. */
export interface HoldOptions extends CallDetails {
  /** The lease of every renewal. */
  readonly ttlMs: number;
  /** The longest hold. Infinity for no limit. */
  readonly maxHoldMs: number;
  readonly minHoldMs: number;
  /** A hold that is renewed for longer than this is reported. False or Infinity: never. Default: false. */
  readonly warnHeldMs?: number | false | undefined;
}

/** A hold, as its grant knows it. */
export interface GrantHold {
  /** Whether a lock scope has the hold, and no caller. */
  readonly isKept: boolean;
  /** Called when the grant is lost. */
  lost(error: LockLostError): void;
  /** Called if the only caller that was given the grant does not use it. */
  unused?(): void;
}

/** A lease that was requested for an owner, and whose reply is expected. */
export interface Renewal {
  readonly lease: Lease;
  /** The grant that `extend()` was called for, which is renewed in any case. */
  readonly target: Grant | undefined;
  /** Whether a deadline has passed, and the next tick declares the grant lost if the reply is still unread then. */
  isLastChance: boolean;
}

export type GrantState = 'held' | 'lost' | 'ended';

const NO_HOLDS: readonly GrantHold[] = [];

/**
 * One caller's part of an {@link Ownership}. Nested holds share one grant, which ends with the last of them.
 *
 * The local `deadline` is always earlier than the expiry in Redis. It counts from before the request was sent and is
 * shortened by the drift of the clocks.
 */
export class Grant {
  readonly maxHoldUntil: number;
  /** The key stays closed until this time, even if the work ends sooner. */
  minHoldUntil: number;
  /** The lease of renewals. `extend(ttlMs)` changes it. */
  ttlMs: number;
  /** The local moment at which the grant is lost if it is not renewed. */
  deadline: number;
  /** The lease that the deadline comes from. Renewals change it. */
  lease: Lease;
  /** Whether the watchdog renews the grant and checks its deadline. */
  isWatched = false;
  /** The number of the call that the grant was given to. See `nextCall()`. */
  call = 0;
  /** What subscribers of traces know the call by. Undefined if there were no subscribers at the grant. */
  trace: LockCallContext | undefined = undefined;
  /** Resolves when its first renewal is written. No caller gets the lock earlier. Undefined: nobody has to wait. */
  ready: Promise<void> | undefined = undefined;
  /** Whether the grant was reported as held for longer than `warnHeldMs`. */
  isOverdue = false;
  /** Why the deadline has passed without a renewal, as found when that was first noticed. */
  whyOver: string | undefined = undefined;
  /** The holds. Nearly always one. */
  private holds: readonly GrantHold[] = NO_HOLDS;
  private callers = 0;
  private current: GrantState = 'held';
  private reason: LockLostError | undefined;

  constructor(
    readonly resource: string,
    readonly token: number | undefined,
    readonly options: HoldOptions,
    readonly grantedAt: number,
    lease: Lease,
    readonly ownership: Ownership,
  ) {
    this.ttlMs = options.ttlMs;
    this.maxHoldUntil = grantedAt + options.maxHoldMs;
    this.minHoldUntil = grantedAt + options.minHoldMs;
    this.lease = lease;
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

  /** When to renew: two thirds of `ttlMs` before the deadline, or now if the lease is short. Infinity: never. */
  get renewAt(): number {
    if (this.deadline >= this.maxHoldUntil) return Infinity;
    const { sentAt, leaseMs } = this.lease;
    if (this.isShort) return sentAt;
    // So work that blocks the event loop for less than two thirds of `ttlMs` does not outlast its lease.
    return deadlineOf(sentAt, leaseMs) - (Math.min(leaseMs, this.ttlMs) * 2) / 3;
  }

  /**
   * Whether the lease is shorter than the holder's `ttlMs`: after a handoff, or if another caller's request was
   * granted.
   */
  get isShort(): boolean {
    const { sentAt, leaseMs } = this.lease;
    return leaseMs < this.nextLeaseMs(sentAt);
  }

  /** Returns the lease to request at `now`: `ttlMs`, but no longer than `maxHoldMs` allows. */
  nextLeaseMs(now: number): number {
    return Math.min(this.ttlMs, Math.ceil(this.maxHoldUntil - now + driftOf(this.ttlMs)));
  }

  /**
   * Returns whether the store's reply that it renewed this lease counts if it is read at `now`. A blocked event loop
   * reads a reply late, after the deadline. The reply counts if the request was sent before the deadline, because the
   * store then found the owner's lock, and nobody else can have had it in between.
   */
  canBeRenewed({ sentAt, leaseMs }: Lease, now: number): boolean {
    if (now < this.deadline) return true;
    // A late acquire request of the same owner could have granted the lock once more, after another holder.
    const isUnbroken = sentAt < this.deadline && this.ownership.mayBeRepeatedUntil <= this.deadline;
    return isUnbroken && now < Math.min(deadlineOf(sentAt, leaseMs), this.maxHoldUntil);
  }

  /** Records a renewal that was requested at `sentAt`. Ignores a lease that ends before the current one. */
  renewed(lease: Lease): void {
    const deadline = Math.min(deadlineOf(lease.sentAt, lease.leaseMs), this.maxHoldUntil);
    if (deadline < this.deadline) return;
    this.deadline = deadline;
    this.lease = lease;
    this.whyOver = undefined;
  }

  /** Adds a hold. */
  join(hold: GrantHold): void {
    this.holds = withItem(this.holds, hold);
    if (!hold.isKept) this.callers += 1;
  }

  /** Removes a hold. Returns true if it was the last hold of a grant that is still held. */
  part(hold: GrantHold): boolean {
    this.holds = without(this.holds, hold);
    return this.holds.length === 0 && this.current === 'held';
  }

  /** Ends the grant as lost, permanently. Returns the loss. Undefined if the grant had already ended. */
  lose(why: string, now: number, cause?: unknown): LockLostError | undefined {
    if (this.current !== 'held') return undefined;
    this.current = 'lost';
    const elapsedMs = now - this.grantedAt;
    const name = nameOfCall(this.resource, this.options);
    const message = `The lock on ${name} was lost after ${Math.round(elapsedMs)} ms: ${why}.`;
    this.reason = new LockLostError(message, { resource: this.resource, elapsedMs, cause });
    for (const hold of this.holds) hold.lost(this.reason);
    return this.reason;
  }

  /**
   * Drops `minHoldMs` and the holds of lock scopes, because the caller does not begin its work. Does nothing if the
   * grant was also given to another caller.
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

/** What an ownership serves: its line, or `Lines` if it is bare. */
export interface OwnershipUser {
  /** Called when the last grant has ended in time. Returns true if another caller was given the lock. */
  passOn(ownership: Ownership, now: number): boolean;
  /**
   * Called if a rest need not be waited for, because the lock may have been released by force. The release is sent
   * later, and {@link onOver} is then called.
   */
  onRestEnded(ownership: Ownership, now: number): void;
  /** Called when the last release was sent. */
  onOver(ownership: Ownership, now: number): void;
}

/** What a caller wants to hold. */
export interface Wanted {
  readonly resource: string;
  readonly options: HoldOptions;
  readonly leaseMs: number;
  /** See {@link Grant.call}. */
  readonly call: number;
}

/** How far a lock may be passed on among the callers of one module instance before other instances can get it. */
export interface PassingLimits {
  /** How many times one grant of the store may be passed on. */
  readonly maxLocalPasses: number;
  /** How many milliseconds after the grant it may be passed on. */
  readonly maxLocalHoldMs: number;
}

/** What ownerships use of their engine. */
export interface OwnershipDeps {
  readonly clock: Clock;
  readonly releaser: Pick<Releaser, 'release'>;
  readonly passing: PassingLimits;
  /**
   * Starts to renew a grant and to check its deadline.
   *
   * @returns if the renewal of the grant is already due and is not written in this tick, a promise that resolves when
   * it is written to the socket. Work that blocks the event loop must not begin earlier.
   */
  watch(grant: Grant): Promise<void> | undefined;
}

/**
 * One owner that the store has granted a key to: an exclusive lock, a share of the readers, or a permit. It is given to
 * one caller after another without a request, and to several readers at the same time (lock cohorting: Dice, Marathe
 * and Shavit, "Lock Cohorting", PPoPP 2012). The release is sent when its last grant has ended.
 *
 * It is held while it has grants. If the last one ends before its `minHoldMs`, the ownership rests until then. Then it
 * is over.
 */
export class Ownership {
  /** The grants that have not ended. Nearly always one. */
  grants: Grant[] = [];
  /** The last renewal, while its reply is expected. */
  renewal: Renewal | undefined = undefined;
  /** When the watchdog looks at the ownership next. Undefined while it is not watched. */
  dueAt: number | undefined = undefined;
  /** The last grant. The next one begins with its lease. */
  private newest: Grant | undefined = undefined;
  /** How many times the ownership was passed on. */
  private passes = 0;
  private isLost = false;
  /** The longest lease that the store may keep for it. */
  private longestLeaseMs: number;
  /** The key stays closed until this time. */
  private closedUntil = 0;
  /** Whether it has no grant, and the key stays closed until the end of `minHoldMs`. */
  isResting = false;
  private timer: Timer | undefined = undefined;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly given: StoreGrant,
    /** When the store granted it. */
    readonly since: number,
    private readonly deps: OwnershipDeps,
    private readonly user: OwnershipUser,
  ) {
    this.longestLeaseMs = given.leaseMs;
  }

  get owner(): string {
    return this.given.owner;
  }

  /** See {@link StoreGrant.mayBeRepeatedUntil}. */
  get mayBeRepeatedUntil(): number {
    return this.given.mayBeRepeatedUntil ?? -Infinity;
  }

  get isHeld(): boolean {
    return this.grants.length > 0;
  }

  /** The latest time until which the store keeps it without a renewal. */
  get deadline(): number {
    if (this.grants.length === 0) return this.closedUntil;
    return this.grants.reduce((latest, { deadline }) => Math.max(latest, deadline), 0);
  }

  /** When its last caller got it. */
  get servedAt(): number {
    return this.newest?.grantedAt ?? this.since;
  }

  /** Returns a watched grant for a caller. The user must have recorded the ownership before. */
  grantTo({ resource, options, leaseMs, call }: Wanted, now: number): Grant {
    // The lease may have been requested for another caller, and be longer than this one wants.
    const lease = cutTo(this.newest?.lease ?? this.given, leaseMs, now);
    const grant = new Grant(resource, this.token, options, now, lease, this);
    grant.call = call;
    this.newest = grant;
    // The first `push` would reserve memory for 16 more.
    if (this.grants.length === 0) this.grants = [grant];
    else this.grants.push(grant);
    grant.ready = this.deps.watch(grant);
    return grant;
  }

  /**
   * Counts a further caller that gets the lock without a request. Returns false if the limits or the reserved tokens
   * are used up, or if less than half of the lease is left.
   */
  tryPass(now: number): boolean {
    const { newest, since, isLost, deps } = this;
    if (newest === undefined || isLost || this.isResting || now - since >= deps.passing.maxLocalHoldMs) return false;
    // A loss is first reported to its caller, which may acquire the lock again immediately.
    for (const { state } of this.grants) if (state === 'lost') return false;
    // The next caller must not start with a lock that is about to end.
    const { sentAt, leaseMs } = newest.lease;
    if (now - sentAt > leaseMs / 2 || now >= deadlineOf(sentAt, leaseMs)) return false;
    if (this.passes >= this.mostPasses) return false;
    this.passes += 1;
    return true;
  }

  /**
   * Ends a grant that is released or lost. Returns whether the store still had it. The reply belongs to the last grant.
   *
   * @param closedUntil until when a lost lock stays closed. Default: it is free now.
   */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    const place = this.grants.indexOf(grant);
    if (place === -1) return Promise.resolve(false);
    this.grants.splice(place, 1);
    const now = this.deps.clock.now();
    const isLost = grant.state === 'lost';
    this.isLost ||= isLost;
    this.closedUntil = Math.max(this.closedUntil, isLost ? closedUntil : grant.minHoldUntil);
    // The last renewal may have run without a reply, so the store may keep a longer lease than is known here.
    this.longestLeaseMs = Math.max(this.longestLeaseMs, grant.ttlMs, grant.lease.leaseMs);
    if (this.grants.length > 0) return Promise.resolve(!isLost);
    const restMs = this.closedUntil - now;
    if (restMs <= 0 && this.user.passOn(this, now)) return Promise.resolve(true);
    const released = this.release(grant.resource, restMs > 0 ? this.closedUntil : 0, now);
    if (restMs > 0 && !isLost) this.rest(grant.resource, restMs);
    else this.user.onOver(this, now);
    return released;
  }

  /** Called if the lock may have been released by force. Nobody then waits for the end of the rest. */
  endRest(): void {
    if (!this.isResting) return;
    // The timer still sends the release, because the message may be forged, or the release by force may have failed.
    this.isResting = false;
    this.user.onRestEnded(this, this.deps.clock.now());
  }

  /** Cancels its timer. */
  close(): void {
    this.timer?.cancel();
  }

  /** The current caller's fencing token, undefined if the store gives none. Sharers have one token. */
  private get token(): number | undefined {
    const { token } = this.given;
    // Each caller of an exclusive lock gets the next of the tokens that were reserved with the grant.
    return token === undefined || this.mode !== 'exclusive' ? token : token + this.passes;
  }

  private get mostPasses(): number {
    const { token, tokens } = this.given;
    const { maxLocalPasses } = this.deps.passing;
    return token === undefined || this.mode !== 'exclusive' ? maxLocalPasses : Math.min(maxLocalPasses, tokens - 1);
  }

  private rest(resource: string, restMs: number): void {
    this.isResting = true;
    const onRested = (): void => {
      this.release(resource, 0).catch(() => undefined);
      this.isResting = false;
      this.user.onOver(this, this.deps.clock.now());
    };
    this.timer = this.deps.clock.schedule(restMs, onRested, true);
  }

  private release(resource: string, closedUntil: number, now?: number): Promise<boolean> {
    const { key, mode, owner, longestLeaseMs: leaseMs } = this;
    return this.deps.releaser.release({ resource, key, owner, mode, leaseMs, closedUntil }, now);
  }
}
