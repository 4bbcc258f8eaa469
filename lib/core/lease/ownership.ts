import type { LockMode } from '../store/lock-store.js';
import type { Clock, Timer } from '../time/clock.js';
import { cutTo, deadlineOf, Grant, type GrantOwner, type HoldOptions, type Renewal, type StoreGrant } from './grant.js';
import type { Releaser } from './releaser.js';

/** Whom an ownership serves. */
export interface OwnershipUser {
  /** Called when the last grant has ended in time. Returns true if another caller was given the lock. */
  passOn(ownership: Ownership, now: number): boolean;
  /** Called when the release was sent, and nobody waits for the end of `minHoldMs`. */
  onOver(ownership: Ownership, now: number): void;
}

/** What a caller wants to hold. */
export interface Wanted {
  readonly resource: string;
  readonly options: HoldOptions;
  readonly leaseMs: number;
}

/** How far a lock may be passed on among the callers of one module instance before other instances can get it. */
export interface PassingLimits {
  /** How many times one grant of the store may be passed on. */
  readonly maxLocalPasses: number;
  /** For how many milliseconds after the grant it may be passed on. */
  readonly maxLocalHoldMs: number;
}

interface OwnershipDeps {
  readonly clock: Clock;
  readonly releaser: Pick<Releaser, 'release'>;
  readonly passing: PassingLimits;
}

/**
 * One owner that the store has granted a key to: an exclusive lock, a share of the readers, or a permit. It is given to
 * one caller after another without a request, and to several readers at once (lock cohorting: Dice, Marathe and Shavit,
 * "Lock Cohorting", PPoPP 2012). The release is sent when its last grant has ended.
 *
 * It is held while it has grants. If the last one ends before its `minHoldMs`, it rests until then. Then it is over.
 */
export class Ownership implements GrantOwner {
  readonly grants: Grant[] = [];
  renewal: Renewal | undefined = undefined;
  dueAt: number | undefined = undefined;
  /** The last grant, whose lease the next one begins with. */
  private newest: Grant | undefined = undefined;
  /** How many times it was passed on. */
  private passes = 0;
  private isLost = false;
  /** The longest lease that the store may keep for it. */
  private longestLeaseMs: number;
  /** The key stays closed until then. */
  private closedUntil = 0;
  /** Set while it rests. */
  private timer: Timer | undefined = undefined;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly given: StoreGrant,
    /** When the store granted it. */
    readonly since: number,
    private readonly deps: OwnershipDeps,
    /** Changes when a line takes it over. */
    public user: OwnershipUser,
  ) {
    this.longestLeaseMs = given.leaseMs;
  }

  get owner(): string {
    return this.given.owner;
  }

  get mayBeRepeatedUntil(): number {
    return this.given.mayBeRepeatedUntil ?? -Infinity;
  }

  get isHeld(): boolean {
    return this.grants.length > 0;
  }

  get isResting(): boolean {
    return this.timer !== undefined;
  }

  /** Until when the store keeps it at most, without a renewal. */
  get deadline(): number {
    if (this.grants.length === 0) return this.closedUntil;
    return this.grants.reduce((latest, { deadline }) => Math.max(latest, deadline), 0);
  }

  /** When its last caller got it. */
  get servedAt(): number {
    return this.newest?.grantedAt ?? this.since;
  }

  /** How many callers have got it one after the other. */
  get callers(): number {
    return this.passes + 1;
  }

  /** Returns a grant for a caller. */
  grantTo({ resource, options, leaseMs }: Wanted, now: number): Grant {
    // The lease may have been requested for another caller, and be longer than this one wants.
    const lease = cutTo(this.newest?.lease ?? this.given, leaseMs, now);
    const grant = new Grant(resource, this.token, options, now, lease, this);
    this.newest = grant;
    this.grants.push(grant);
    return grant;
  }

  /**
   * Counts a further caller that gets the lock without a request. Returns false if the limits or the reserved tokens
   * are used up, or if less than half of the lease is left.
   */
  tryPass(now: number): boolean {
    const { newest, since, isLost, deps } = this;
    if (newest === undefined || isLost || this.isResting || now - since >= deps.passing.maxLocalHoldMs) return false;
    // A loss is reported to its caller first, who may acquire the lock again at once.
    for (const { state } of this.grants) if (state === 'lost') return false;
    // The next caller must not start with a lock that is about to end.
    const { sentAt, leaseMs } = newest.lease;
    if (now - sentAt > leaseMs / 2 || now >= deadlineOf(sentAt, leaseMs)) return false;
    if (this.passes >= this.mostPasses) return false;
    this.passes += 1;
    return true;
  }

  /** See {@link GrantOwner.end}. The store's reply belongs to the last grant. */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    const place = this.grants.indexOf(grant);
    if (place === -1) return Promise.resolve(false);
    this.grants.splice(place, 1);
    const now = this.deps.clock.now();
    const isLost = grant.state === 'lost';
    this.isLost ||= isLost;
    this.closedUntil = Math.max(this.closedUntil, isLost ? closedUntil : grant.minHoldUntil);
    // The last renewal may have run without a reply: the store may keep a longer lease than is known here.
    this.longestLeaseMs = Math.max(this.longestLeaseMs, grant.ttlMs, grant.leaseMs);
    if (this.grants.length > 0) return Promise.resolve(!isLost);
    const restMs = this.closedUntil - now;
    if (restMs <= 0 && this.user.passOn(this, now)) return Promise.resolve(true);
    const released = this.release(grant.resource, restMs > 0 ? this.closedUntil : 0, now);
    if (restMs > 0 && !isLost) this.rest(grant.resource, restMs);
    else this.user.onOver(this, now);
    return released;
  }

  /** Called if the lock may have been released by force. Nobody waits for the end of its rest. */
  endRest(): void {
    if (!this.isResting) return;
    // Its timer still sends the release: the message may be forged, and the release by force may have failed.
    this.timer = undefined;
    this.user.onOver(this, this.deps.clock.now());
  }

  /** Cancels its timer. */
  close(): void {
    this.timer?.cancel();
  }

  /** The present caller's fencing token, undefined if the store gives none. Those that share a lock have one token. */
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
    const onRested = (): void => {
      this.release(resource, 0).catch(() => undefined);
      if (this.timer !== timer) return;
      this.timer = undefined;
      this.user.onOver(this, this.deps.clock.now());
    };
    const timer = this.deps.clock.schedule(restMs, onRested, true);
    this.timer = timer;
  }

  private release(resource: string, closedUntil: number, now?: number): Promise<boolean> {
    const { key, mode, owner, longestLeaseMs: leaseMs } = this;
    return this.deps.releaser.release({ resource, key, owner, mode, leaseMs, closedUntil }, now);
  }
}
