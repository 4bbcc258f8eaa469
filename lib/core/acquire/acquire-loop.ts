import type { LockUnavailableError } from '../errors.js';
import type { StoreGrant } from '../lease/lease.js';
import { type AcquireReply, type Granted, type Handoff, type Held, type LockMode } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';
import { failedBecause, type LastReply } from './acquire-errors.js';
import type { AcquireDeps } from './acquire-options.js';
import { Attempt, type AttemptListener, leaseStartOf, pauseAfterFailure } from './attempt.js';
import { FOREIGN_MS, type Turns, turnsOf } from './turns.js';

/** The line that a loop acquires for: what its next request asks for, and who receives the result. */
export interface LoopUser {
  readonly key: string;
  readonly mode: LockMode;
  /** The resource of the first caller, for errors. Several resources may share a key. */
  readonly resource: string;
  /** The lease of the first caller. */
  readonly leaseMs: number;
  /** How many fencing tokens to reserve. */
  readonly tokens: number;
  /** Whether a caller would wait for other holders. Only then does a request join the store's queue. */
  readonly willWait: boolean;
  /** The local moment at which the first caller stops waiting. */
  readonly waitUntil: number;
  /** Called with a grant, after the loop has stopped. */
  onGranted(loop: AcquireLoop, grant: StoreGrant, now: number): void;
  /**
   * Called after a refused or unanswered request. Callers with at least `limit` requests without a grant are rejected.
   * `0` rejects all, because retrying cannot help. The loop continues until it is stopped.
   */
  onReply(reply: LastReply, limit: number): void;
  /** Called if the next attempt has to wait for the reply to one that was given up. */
  onBlocked(): void;
  /** Called if the loop has stopped and no reply is outstanding. */
  onIdle(loop: AcquireLoop): void;
  /** Returns true if the line holds the lock under this owner. */
  owns(owner: string): boolean;
}

/** What an acquire loop does. Each state carries only its own data. */
export type AcquireLoopState =
  | { readonly kind: 'idle' }
  /** Others come first, or the last attempt was given up. The next attempt starts when the timer fires. */
  | { readonly kind: 'pausing'; readonly timer: Timer }
  /** The next attempt starts after the outstanding reply. Callers whose time is up still wait for it until `until`. */
  | { readonly kind: 'blocked'; readonly until: number }
  | { readonly kind: 'requesting'; readonly attempt: Attempt }
  /** Too many requests of this process have no reply. The request is sent when it is its turn. */
  | { readonly kind: 'crowded'; readonly attempt: Attempt; readonly timer: Timer }
  /** The lock is held by others. The request is repeated when the timer fires. */
  | { readonly kind: 'waiting'; readonly attempt: Attempt; readonly timer: Timer };

const IDLE: AcquireLoopState = { kind: 'idle' };

/**
 * Acquires one key from the store for a line. It sends requests until the key is granted or the loop is stopped. In the
 * store's queue, it waits for a handoff, and repeats its request now and then in case a message was lost. Without a
 * queue, it repeats its request with jittered pauses.
 *
 * An abandoned request may still run. So a release follows it, and the next attempt has a new owner. At most one such
 * request is outstanding, not counting those of attempts that a handoff granted.
 */
export class AcquireLoop implements AttemptListener {
  /** The model checker reads it. @internal */
  state: AcquireLoopState = IDLE;
  /**
   * An attempt that has ended before its reply came. The next attempt waits for that reply, unless a handoff has
   * granted the ended attempt. Then the next attempt may replace it here. `onLateReply` handles both late replies.
   */
  private outstanding: Attempt | undefined = undefined;

  constructor(
    private readonly deps: AcquireDeps,
    private readonly user: LoopUser,
  ) {}

  /** The resource that errors name. */
  get resource(): string {
    return this.user.resource;
  }

  /** Whether the loop is stopped and no reply is outstanding. */
  get isIdle(): boolean {
    return this.state.kind === 'idle' && this.outstanding === undefined;
  }

  /** Whether its next attempt starts later. */
  get isPausing(): boolean {
    return this.state.kind === 'pausing';
  }

  /** No caller stops waiting before this time: Infinity while a request is on its way, 0 if none is. */
  get replyDueAt(): number {
    if (this.state.kind === 'requesting') return Infinity;
    return this.state.kind === 'blocked' ? this.state.until : 0;
  }

  /** Starts the first attempt, after a yield if this instance has used up its turn. */
  start(now: number): void {
    // A caller that does not wait does not yield.
    const { turns } = this;
    const yieldMs = turns !== undefined && this.longestYieldMs > 0 ? turns.yieldBefore(this.user.key) : 0;
    if (yieldMs > 0) this.pause(Math.min(yieldMs, this.longestYieldMs));
    else this.startAttempt(now);
  }

  /** Repeats the request immediately if it now has to join the store's queue. */
  onWaiterAdded(): void {
    if (this.state.kind === 'waiting' && this.mustJoinQueue(this.state.attempt)) this.retryNow();
  }

  /** Stops, and releases what the store may still keep for the attempt. */
  stop(): void {
    const { state } = this;
    this.endWait();
    if (state.kind === 'requesting') this.outstanding = state.attempt;
    if (state.kind === 'requesting' || ('attempt' in state && state.attempt.needsRelease))
      state.attempt.releaseBehind();
    this.state = IDLE;
  }

  /** Accepts a handoff. Returns false if it is not for the current attempt. `Lines` then releases it. */
  onHandoff(handoff: Handoff): boolean {
    const { state } = this;
    const now = this.deps.clock.now();
    if (!('attempt' in state) || state.attempt.owner !== handoff.owner) return false;
    const { attempt } = state;
    const sentAt = leaseStartOf(handoff, now);
    if (sentAt === undefined) {
      // A repeated request of the same owner finds out whether the lock is still its own.
      attempt.unverifiedHandoff = true;
      this.retryNow();
      return true;
    }
    const isUnanswered = state.kind === 'requesting';
    if (isUnanswered) {
      attempt.grantedBeforeReply = this.outstanding === undefined;
      this.outstanding = attempt;
    }
    this.grant({ ...handoff, sentAt, mayBeRepeatedUntil: isUnanswered ? attempt.expiresAt : undefined }, now);
    return true;
  }

  /** Repeats the request now if it waits to be repeated, because the state may have changed since the last reply. */
  retryNow(): void {
    if (this.state.kind !== 'waiting') return;
    this.state.timer.cancel();
    this.send(this.state.attempt);
  }

  /** Repeats the request if it waits to be repeated: immediately, or after a yield if this instance has had a turn. */
  onReleasedByOthers(): void {
    const yieldMs = this.turns?.yieldAfterOthers(this.user.key) ?? 0;
    if (yieldMs === 0) return this.retryNow();
    if (this.state.kind !== 'waiting') return;
    this.state.timer.cancel();
    this.repeatAfter(Math.min(yieldMs, this.longestYieldMs), this.state.attempt);
  }

  /** Gives up all requests, because their replies may be lost with the connection. */
  onDisconnected(): void {
    if (this.state.kind === 'requesting') this.state.attempt.onDisconnected();
    if (this.outstanding !== undefined) this.endOutstanding();
  }

  /** @internal */
  onAcquireReply(attempt: Attempt, reply: AcquireReply): void {
    if (reply.status === 'granted') return this.grantedByReply(attempt, reply);
    const lastReply = attempt.lastReplyOf(reply);
    if (reply.status === 'held') {
      if (reply.isForeign === true) this.deps.turns?.onOthers(this.user.key, FOREIGN_MS);
      // If the store has a queue, a refusal because of another instance does not prolong the turns, because the
      // instances return to the queue.
      else if (!this.deps.store.capabilities.queue) this.turns?.onOthers(this.user.key);
      return this.onHeld(attempt, reply, lastReply);
    }
    this.wait(attempt, attempt.backoff(), lastReply, reply.status === 'permits-mismatch' ? 0 : Infinity);
  }

  onFailure(attempt: Attempt, error: LockUnavailableError): void {
    this.fail(attempt, error, attempt.sentAt);
  }

  onTimeout(attempt: Attempt, error: LockUnavailableError): void {
    this.outstanding = attempt;
    this.onFailure(attempt, error);
  }

  onLateReply(attempt: Attempt, reply?: AcquireReply): void {
    // The release that followed the request may have run before the request.
    const needsRelease = reply?.status === 'granted' || (reply?.status === 'held' && reply.queued);
    if (needsRelease && !this.user.owns(attempt.owner)) attempt.releaseBehind();
    if (this.outstanding === attempt) this.endOutstanding();
  }

  /** Half of the time that the first caller still waits, so that a yield alone never ends its wait. */
  private get longestYieldMs(): number {
    return (this.user.waitUntil - this.deps.clock.now()) / 2;
  }

  /** Starts the next attempt later. */
  private pause(pauseMs: number): void {
    this.state = { kind: 'pausing', timer: this.deps.clock.schedule(pauseMs, () => this.startAttempt()) };
  }

  private startAttempt(now = this.deps.clock.now()): void {
    if (this.outstanding?.grantedBeforeReply === false) {
      this.state = { kind: 'blocked', until: now + this.deps.requestTimeoutMs };
      return this.user.onBlocked();
    }
    const { deps, user } = this;
    const attempt = new Attempt(deps.nextOwner(), [user.key], user.mode, deps, this);
    this.send(attempt, now);
  }

  /** Sends a request, or waits until it may be sent. */
  private send(attempt: Attempt, now?: number): void {
    this.state = { kind: 'requesting', attempt };
    if (attempt.send(this.user, this.wantsQueue, now)) return;
    this.state = { kind: 'crowded', attempt, timer: attempt.waitToSend(() => this.sendAdmitted(attempt)) };
    this.user.onReply(attempt.crowdedOut(), Infinity);
  }

  private sendAdmitted(attempt: Attempt): void {
    this.state = { kind: 'requesting', attempt };
    attempt.sendAdmitted(this.user, this.wantsQueue);
  }

  private grantedByReply(attempt: Attempt, reply: Granted): void {
    const now = this.deps.clock.now();
    const grant = attempt.grantOf(reply, now);
    // A store without a queue may hold a vote, in which some servers have not replied yet.
    const isFinal = this.deps.store.capabilities.queue;
    if (grant !== undefined)
      return this.grant(isFinal ? grant : { ...grant, mayBeRepeatedUntil: attempt.expiresAt }, now);
    attempt.needsRelease = true;
    const failure = attempt.tooLate();
    // A repeated request of the same owner gets a full lease, unless another owner has the key by then.
    if (this.deps.store.capabilities.idempotentAcquire) this.wait(attempt, 0, failedBecause(failure, now));
    else this.fail(attempt, failure, now);
  }

  /** Starts another attempt after a pause. @param since the time from which requests have failed. */
  private fail(attempt: Attempt, error: LockUnavailableError, since: number): void {
    attempt.releaseBehind(true);
    this.pause(pauseAfterFailure(this.deps.clock));
    this.user.onReply(failedBecause(error, since), error.permanent ? 0 : Infinity);
  }

  private grant(grant: StoreGrant, now: number): void {
    this.endWait();
    this.state = IDLE;
    this.user.onGranted(this, grant, now);
  }

  private onHeld(attempt: Attempt, reply: Held, lastReply: LastReply): void {
    attempt.needsRelease ||= reply.queued;
    this.wait(attempt, attempt.pauseAfter(reply), lastReply, this.deps.store.capabilities.retry?.limit);
    // The line may have stopped the loop.
    if (this.state.kind !== 'waiting') return;
    if (attempt.unverifiedHandoff || this.mustJoinQueue(attempt)) this.retryNow();
  }

  private wait(attempt: Attempt, pauseMs: number, reply: LastReply, limit = Infinity): void {
    this.repeatAfter(pauseMs, attempt);
    this.user.onReply(reply, limit);
  }

  private repeatAfter(pauseMs: number, attempt: Attempt): void {
    this.state = { kind: 'waiting', attempt, timer: this.deps.clock.schedule(pauseMs, () => this.send(attempt)) };
  }

  /** Stops waiting for a reply or a timer. */
  private endWait(): void {
    if (this.state.kind === 'requesting') this.state.attempt.ignoreReply();
    else if ('timer' in this.state) this.state.timer.cancel();
  }

  private endOutstanding(): void {
    this.outstanding = undefined;
    if (this.state.kind === 'blocked') this.startAttempt();
    else if (this.isIdle) this.user.onIdle(this);
  }

  private get turns(): Turns | undefined {
    return turnsOf(this.deps, this.user.key, this.user.mode);
  }

  private get wantsQueue(): boolean {
    return this.deps.store.capabilities.queue && this.user.willWait && this.turns === undefined;
  }

  private mustJoinQueue(attempt: Attempt): boolean {
    return this.wantsQueue && !attempt.queueRequested;
  }
}
