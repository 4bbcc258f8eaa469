import { cutTo, Grant, type GrantEnder, type Lease, type StoreGrant } from '../lease/grant.js';
import type { Handoff, LockMode } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';
import type { LastReply } from './acquire-errors.js';
import { AcquireLoop, type AcquireLoopListener, type AcquireParams } from './acquire-loop.js';
import type { AcquireDeps } from './acquire-options.js';
import { LocalHandoff } from './local-handoff.js';
import type { Waiter } from './waiters.js';

/** The local lock that a share belongs to. */
export interface ShareUser {
  /** Called with the share and the owner of its next request. */
  onAttempt(share: Share, owner: string): void;
  /** Called with a new grant of the store. It must admit a waiter. */
  onGranted(share: Share, now: number): void;
  /** See {@link AcquireLoopListener.onReply}. */
  onReply(reply: LastReply, limit: number): void;
  onBlocked(): void;
  /** Called when the last caller has ended its hold. Returns true if it has admitted another one. */
  onUnused(share: Share, now: number): boolean;
  /** Called when the share is idle. */
  onIdle(share: Share): void;
}

/** What a share does. Each state carries only its own data. */
type ShareState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'acquiring' }
  | { readonly kind: 'held'; readonly handoff: LocalHandoff; readonly lease: Lease }
  /** The last hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly handoff: LocalHandoff; readonly until: number; readonly timer: Timer };

const IDLE: ShareState = { kind: 'idle' };
const ACQUIRING: ShareState = { kind: 'acquiring' };

/**
 * One share of a lock, or one of its permits, that this module instance has or requests: one place in the store's
 * queue, then one holder in the store. Each caller that has it gets a grant of its own. The share is released when the
 * last of them has ended.
 */
export class Share implements AcquireLoopListener, GrantEnder {
  readonly loop: AcquireLoop;
  /** The owner of the last attempt, by which handoffs find this share. */
  owner = '';
  private state: ShareState = IDLE;
  private readonly grants = new Set<Grant>();
  /** The last grant, whose lease the next one begins with. */
  private newest: Grant | undefined;
  /** Whether further callers may get it. */
  private isOpen = false;
  /** The store keeps the share until then, even if all holds end sooner. */
  private closedUntil = 0;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly deps: AcquireDeps,
    private readonly user: ShareUser,
  ) {
    this.loop = new AcquireLoop(key, mode, deps, this);
  }

  get isHeld(): boolean {
    return this.state.kind === 'held';
  }

  /** Whether nothing can come of it any more. */
  get isOver(): boolean {
    return this.state.kind === 'idle' && this.loop.isIdle;
  }

  /** Until when the store keeps it at most, without a renewal. */
  get deadline(): number {
    if (this.state.kind === 'resting') return this.state.until;
    let deadline = 0;
    for (const grant of this.grants) deadline = Math.max(deadline, grant.deadline);
    return deadline;
  }

  /** When the store granted it. */
  get since(): number {
    return 'handoff' in this.state ? this.state.handoff.startedAt : 0;
  }

  start(params: AcquireParams): void {
    this.state = ACQUIRING;
    this.loop.start(params);
  }

  /** Gives up to acquire it. */
  stop(): void {
    this.state = IDLE;
    this.loop.stop();
    this.user.onIdle(this);
  }

  /** Counts a further caller that gets it without a request. Returns false if a limit of `fairness` is reached. */
  tryPass(now: number): boolean {
    const { state, newest } = this;
    if (state.kind !== 'held' || newest === undefined || !this.isOpen) return false;
    // A loss is reported to its caller first, who may acquire the lock again at once.
    for (const grant of this.grants) if (grant.state === 'lost') return false;
    return state.handoff.tryPass(now, newest.lease, this.deps.passing);
  }

  /** Gives it to a caller. */
  admit(waiter: Waiter, now: number): void {
    const { state } = this;
    if (state.kind !== 'held') throw new Error('a share that is not held has no grant to give');
    const { resource, options, leaseMs } = waiter;
    const { owner, token, mayBeRepeatedUntil } = state.handoff;
    const lease = cutTo(this.newest?.lease ?? state.lease, leaseMs, now);
    const grant = new Grant(resource, this.key, owner, token, options, now, lease, this, mayBeRepeatedUntil);
    this.newest = grant;
    this.grants.add(grant);
    waiter.admit(grant, this.deps.watch(grant));
  }

  /** See {@link GrantEnder.end}. The store's reply belongs to the last grant of the share. */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    const { state } = this;
    if (!this.grants.delete(grant) || state.kind !== 'held') return Promise.resolve(false);
    const now = this.deps.clock.now();
    const isLost = grant.state === 'lost';
    if (isLost) this.isOpen = false;
    this.closedUntil = Math.max(this.closedUntil, isLost ? closedUntil : grant.minHoldUntil);
    state.handoff.onEnded(grant);
    if (this.grants.size > 0) return Promise.resolve(!isLost);
    const restMs = this.closedUntil - now;
    if (restMs <= 0 && this.user.onUnused(this, now)) return Promise.resolve(true);
    const released = this.release(grant.resource, state.handoff, this.closedUntil, now);
    if (restMs > 0 && !isLost) this.rest(grant.resource, state.handoff, restMs);
    else this.becomeIdle();
    return released;
  }

  /** Takes a handoff of the store. Returns false if it is of no use here: `LocalLocks` then releases it. */
  onHandoff(handoff: Handoff): boolean {
    // A duplicate, or one whose lock a reply has granted already.
    if (this.holds(handoff.owner)) return true;
    return this.loop.onHandoff(handoff);
  }

  /** See {@link SharedLocalLock.onForceReleased}. */
  onForceReleased(): void {
    // Its timer still sends the release: the message may be forged, and the release by force may have failed.
    if (this.state.kind === 'resting') this.becomeIdle();
  }

  /** Cancels its timer. */
  close(): void {
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  holds(owner: string): boolean {
    return 'handoff' in this.state && this.state.handoff.owner === owner;
  }

  onAttempt(owner: string): void {
    this.user.onAttempt(this, owner);
    this.owner = owner;
  }

  onGranted(given: StoreGrant, now: number): void {
    this.state = { kind: 'held', handoff: new LocalHandoff(given, now, true), lease: given };
    this.newest = undefined;
    this.isOpen = true;
    this.closedUntil = 0;
    this.user.onGranted(this, now);
  }

  onBlocked(): void {
    this.user.onBlocked();
  }

  onReply(reply: LastReply, limit: number): void {
    this.user.onReply(reply, limit);
  }

  onIdle(): void {
    // A late reply to the request of an attempt that a handoff has granted changes nothing.
    if (this.state.kind === 'idle') this.user.onIdle(this);
  }

  private becomeIdle(): void {
    this.state = IDLE;
    this.user.onIdle(this);
  }

  private rest(resource: string, handoff: LocalHandoff, restMs: number): void {
    const onRested = (): void => {
      this.release(resource, handoff, 0).catch(() => undefined);
      if (this.state === resting) this.becomeIdle();
    };
    const timer = this.deps.clock.schedule(restMs, onRested, true);
    const resting: ShareState = { kind: 'resting', handoff, until: this.closedUntil, timer };
    this.state = resting;
  }

  private release(resource: string, handoff: LocalHandoff, closedUntil: number, now?: number): Promise<boolean> {
    const { key, mode } = this;
    const { owner, longestLeaseMs: leaseMs } = handoff;
    return this.deps.releaser.release({ resource, key, owner, mode, leaseMs, closedUntil }, now);
  }
}
