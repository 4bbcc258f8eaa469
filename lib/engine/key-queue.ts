import { runOutside } from '../common/async-context.js';
import { LockClosedError, LockLostError, withoutStack } from '../common/errors.js';
import { nameOfCall, type Target } from '../events/call.js';
import { repliesRead, type Timer } from '../clock/clock.js';
import type { HolderWork } from '../contract/lock-state.js';
import type { AcquireReply, Granted, Held, LockMode } from '../contract/store.js';
import { Attempt, pauseAfterFailure } from './attempt.js';
import { Lease } from './lease.js';
import { closedError } from './lifecycle.js';
import { Lock } from './lock.js';
import { type AcquireOptions, leaseOf } from './options.js';
import type { Parts } from './lock-engine.js';
import { unavailable } from './error-texts.js';
import type { Heir } from './releaser.js';
import type { Turns } from './turns.js';
import { HELD, WaitReview } from './wait-review.js';
import { type Waiter, WaiterList } from './waiter.js';

/**
 * The callers of one key in this instance, in all modes, first in, first out. The first waiter decides in which mode
 * the store is asked. At most one request is on its way, and it is never given up: callers come and go, and its reply
 * serves the callers that wait then.
 */
export class KeyQueue {
  readonly waiters = new WaiterList();
  /** What the store has granted. Several only for readers and permits. */
  readonly leases: Lease[] = [];
  /** The owner that asks the store. Undefined if nobody has to be served. */
  attempt: Attempt | undefined = undefined;
  /** Runs before the attempt repeats its request, or before the first request of a turn. */
  private pause: Timer | undefined = undefined;
  /** Decides how long the callers wait. */
  readonly review = new WaitReview(this);

  constructor(
    readonly key: string,
    readonly parts: Parts,
  ) {}

  // Callers.

  /** Adds a caller, which gets the lock or an error. */
  join(waiter: Waiter, now: number): void {
    const { waiters } = this;
    if (waiters.head === undefined) {
      const lease = waiter.mode === 'shared' ? this.leaseToJoin(waiter.options, now) : undefined;
      if (lease !== undefined) return this.admit(waiter, lease, now);
      // Until the reply, it is not known whether others hold the lock.
      if (this.attempt === undefined && this.mayAsk(waiter.mode)) this.review.forget();
    }
    waiter.queue = this;
    waiters.push(waiter);
    this.review.refuseIfUnavailable(now);
    this.askForHead(now);
    if (this.attempt?.state === 'idle' && this.mustAskForPlace(this.attempt)) this.repeat(this.attempt);
    this.review.one(waiter, now);
  }

  /** Ends the wait of a caller with an error. */
  refuse(waiter: Waiter, reason: unknown): void {
    if (!this.waiters.remove(waiter)) return;
    waiter.refuse(reason);
    this.onHeadChanged();
  }

  /**
   * Refuses all callers because of a shutdown, except for those that run in a hold if it is not over. What a request
   * brings that is still on its way is released.
   */
  refuseAll(exceptNested: boolean): void {
    for (const waiter of this.waiters.all())
      if (!exceptNested || !waiter.isNested) this.refuse(waiter, closedError(waiter.target.resource));
  }

  /** Releases what a request may still bring, because nobody will wait for its reply. */
  abandon(): void {
    if (this.attempt?.state === 'asking') this.releaseOwner(this.attempt);
  }

  /** The resource of the first waiting caller, for errors. Several resources may share a key. */
  get resource(): string {
    return this.waiters.head?.target.resource ?? this.key;
  }

  // What the store says.

  /**
   * Called with a message for an owner: one that waits repeats its request, and one that holds renews. Returns false
   * for any other.
   */
  onWake(owner: string): boolean {
    const lease = this.leases.find((each) => each.owner === owner);
    if (this.attempt?.owner === owner) this.askAgain();
    else if (lease !== undefined) this.checkHeld(lease);
    else return false;
    return true;
  }

  /** Whether an owner waits for the key, or has it. */
  isOf(owner: string): boolean {
    return this.attempt?.owner === owner || this.leases.some((lease) => lease.owner === owner);
  }

  /** Called if others may have released the key. */
  onReleased(): void {
    const yieldMs = this.turns?.yieldAfterOthers(this.key) ?? 0;
    if (yieldMs === 0) return this.askAgain();
    const { attempt } = this;
    if (attempt?.state === 'idle') this.pauseFor(Math.min(yieldMs, this.longestYieldMs), () => this.repeat(attempt));
  }

  /** Called if the lock may have been released by force. Only the store knows. */
  onForced(): void {
    for (const lease of this.leases) this.checkHeld(lease);
    this.askAgain();
  }

  /** Renews a lease, which the store may have ended by force. Until the reply, nobody else gets it. */
  private checkHeld(lease: Lease): void {
    lease.isForced = true;
    this.parts.renewer.renewNow(lease);
  }

  /** Repeats the request now, because the key may be free or a message may be lost. */
  askAgain(): void {
    const { attempt } = this;
    if (attempt?.state === 'asking') attempt.mustAskAgain = true;
    else if (attempt?.state === 'idle') this.repeat(attempt);
  }

  /** Called with the reply to the attempt's request. */
  onReply(attempt: Attempt, reply: AcquireReply): void {
    const now = this.parts.clock.now();
    if (reply.status === 'granted') this.onGranted(attempt, reply, now);
    else if (!this.serves(attempt)) this.dropAttempt(now);
    else if (reply.status === 'held') this.onHeld(attempt, reply, now);
    else this.onPermitsMismatch(reply.permits, now);
  }

  /** Called if the attempt's request failed. It may have run, or may still run. */
  onFailed(attempt: Attempt, error: unknown): void {
    const now = this.parts.clock.now();
    const failure = this.review.failureOf(error);
    this.review.recordFailure(failure, attempt.sentAt);
    if (failure.permanent) {
      // A repetition cannot succeed.
      for (const waiter of this.waiters.all()) this.refuse(waiter, this.review.errorFor(waiter, now));
    } else this.review.countReply(now);
    this.review.all(now);
    if (this.attempt !== attempt) return;
    if (!this.serves(attempt)) return this.dropAttempt(now);
    this.askLater(attempt, pauseAfterFailure(this.parts.clock));
  }

  /** Repeats the request of an owner after a failure, or after a grant that came too late. It keeps its place. */
  private askLater(attempt: Attempt, pauseMs: number): void {
    // A repeated request would be refused because of the first one.
    if (!this.parts.link.store.capabilities.idempotentAcquire) this.replace(attempt, pauseMs);
    else if (pauseMs > 0) this.pauseFor(pauseMs, () => this.repeat(attempt));
    else this.repeat(attempt);
  }

  /** Releases an owner, and repeats its request for a new one. */
  private replace(attempt: Attempt, pauseMs: number): void {
    this.releaseOwner(attempt);
    const next = (this.attempt = new Attempt(this, this.parts.nextOwner(), attempt.mode));
    this.pauseFor(pauseMs, () => this.repeat(next));
  }

  private onGranted(attempt: Attempt, granted: Granted, now: number): void {
    if (!attempt.isFresh(now)) return this.onStaleGrant(attempt, now);
    this.attempt = undefined;
    const { owner, mode, sentAt, leaseMs, hasFailed, mustAskAgain } = attempt;
    const lease = new Lease(this, owner, mode, granted, now, sentAt, leaseMs, hasFailed);
    // Recorded before any caller gets it.
    this.leases.push(lease);
    this.review.record(HELD);
    this.serve(lease, now);
    // All callers that it was for have left.
    if (lease.locks.length === 0) this.releaseLease(lease, undefined, now).catch(() => undefined);
    else {
      this.parts.renewer.watch(lease, now);
      // The message may be about the end of this lease.
      if (mustAskAgain) this.checkHeld(lease);
      this.askForHead(now);
    }
    this.review.all(now);
  }

  /** Less than half of the lease is left, so the owner asks again, before any work. */
  private onStaleGrant(attempt: Attempt, now: number): void {
    if (!this.serves(attempt)) return this.dropAttempt(now);
    const why = `the reply took longer than half of the lease of ${attempt.leaseMs} ms`;
    // The store has replied, and the event loop may have been blocked. So the outage does not count from the request.
    this.review.recordFailure(
      withoutStack(() => unavailable(this.resource, why)),
      now,
    );
    // Each repetition renews the lease. If it comes too late as well, others get the lock meanwhile.
    if (attempt.wasStale) this.replace(attempt, pauseAfterFailure(this.parts.clock));
    else this.askLater(attempt, 0);
    attempt.wasStale = true;
    this.review.all(now);
  }

  private onHeld(attempt: Attempt, held: Held, now: number): void {
    const { remainingMs, holder, ahead, isForeign, isDone } = held;
    const { parts, turns } = this;
    if (isForeign === true) parts.turns.onForeigner(this.key);
    else if (attempt.isUnqueued(held)) turns?.onOthers(this.key);
    const isOwn = holder?.instanceId === parts.instanceId;
    const undecided = this.whyUndecided(held, isOwn);
    attempt.undecidedSince = undecided === undefined ? undefined : (attempt.undecidedSince ?? now);
    if (undecided === undefined) {
      const until = remainingMs === undefined ? undefined : now + remainingMs;
      this.review.record({ kind: 'held', until, holder: holder && { ...holder, isOwn }, ahead, isDone });
      this.review.countReply(now);
    } else if (!this.review.isReplyDue(now)) {
      const error = withoutStack(() => unavailable(this.resource, undecided));
      this.review.recordFailure(error, attempt.undecidedSince ?? now);
    }
    this.pauseFor(attempt.pauseAfter(held), () => this.repeat(attempt));
    this.review.all(now);
    // The callers may have changed, and with them the attempt.
    if (this.attempt === attempt && (attempt.mustAskAgain || this.mustAskForPlace(attempt))) this.repeat(attempt);
  }

  /** Returns why nobody else seems to have the key, although it is not free. Undefined if somebody has it. */
  private whyUndecided({ isFree, isDone }: Held, isOwn: boolean): string | undefined {
    if (isDone === true) return undefined;
    if (isFree === true) return 'waiters that are gone are being removed from its queue';
    if (!isOwn || this.leases.length > 0 || !this.parts.releaser.isReleasing(this.key)) return undefined;
    return 'the release of an earlier request of this instance has not arrived yet';
  }

  /** A repetition cannot succeed before the key is free, so this refuses all that want this number of permits. */
  private onPermitsMismatch(permits: number, now: number): void {
    const wanted = this.waiters.head?.mode;
    const mismatch = { kind: 'permits-mismatch', permits } as const;
    const { attempt } = this;
    this.attempt = undefined;
    // A place from an earlier request.
    if (attempt?.mayBeKept === true) this.releaseOwner(attempt);
    for (const waiter of this.waiters.all())
      if (waiter.mode === wanted) this.refuse(waiter, this.review.errorFor(waiter, now, mismatch));
    this.askForHead(now);
    this.forgetIfIdle();
  }

  // Asking the store.

  /**
   * What the next request asks for: the lease of the first waiter, with the names of its call, and a place in the queue
   * if one waits for others.
   */
  wanted(): { readonly leaseMs: number; readonly asksForPlace: boolean } & HolderWork {
    const { asksForPlace } = this;
    const options = this.waiters.head?.options;
    if (options === undefined) return { leaseMs: 1, asksForPlace, method: undefined, label: undefined };
    return { leaseMs: leaseOf(options), asksForPlace, method: options.method, label: options.label };
  }

  /** Requests the key for the first waiter, unless a request is on its way or the key is about to be passed on. */
  private askForHead(now: number): void {
    const { head } = this.waiters;
    if (head === undefined || this.attempt !== undefined) return;
    if (!this.mayAsk(head.mode)) return;
    this.attempt = new Attempt(this, this.parts.nextOwner(), head.mode);
    const { attempt, turns } = this;
    const yieldMs = turns === undefined ? 0 : Math.min(turns.yieldBefore(this.key), this.longestYieldMs);
    if (yieldMs > 0) this.pauseFor(yieldMs, () => this.repeat(attempt));
    else attempt.ask(now);
  }

  private repeat(attempt: Attempt): void {
    this.endPause();
    if (this.waiters.head !== undefined) attempt.ask(this.parts.clock.now());
  }

  /** Whether the request joins the store's queue: one of the callers that it serves waits for other holders. */
  private get asksForPlace(): boolean {
    const mode = this.waiters.head?.mode;
    if (!this.parts.link.store.capabilities.queue) return false;
    for (let waiter = this.waiters.head; waiter?.mode === mode && waiter !== undefined; waiter = waiter.next)
      if (waiter.isPatient) return true;
    return false;
  }

  private mustAskForPlace(attempt: Attempt): boolean {
    return attempt.sentAt !== -Infinity && !attempt.asksForPlace && this.asksForPlace;
  }

  /** Whether the store may grant a further lease in that mode, or has to say why it does not. */
  private mayAsk(mode: LockMode): boolean {
    if (this.leases.some((lease) => lease.mode === 'exclusive')) return false;
    return this.leases[0]?.mode !== mode || typeof mode !== 'number' || this.leases.length < mode;
  }

  /** Whether the attempt asks for what the first waiter wants. */
  private serves(attempt: Attempt): boolean {
    return this.waiters.head?.mode === attempt.mode;
  }

  /** The turns of this instance and others. Undefined for callers that share the lock, which have no order. */
  private get turns(): Turns | undefined {
    return (this.waiters.head?.mode ?? 'exclusive') === 'exclusive' ? this.parts.turns : undefined;
  }

  /** Half of the time that the first caller still waits, so that a yield alone never ends its wait. */
  private get longestYieldMs(): number {
    return ((this.waiters.head?.waitUntil ?? Infinity) - this.parts.clock.now()) / 2;
  }

  /** Called when the first waiter may have left. Gives up a place in the store's queue that nobody needs. */
  private onHeadChanged(): void {
    const { attempt } = this;
    // A request that is on its way stays, and serves the callers that wait when its reply comes.
    if (attempt !== undefined && attempt.state !== 'asking' && !this.serves(attempt))
      this.dropAttempt(this.parts.clock.now());
    this.forgetIfIdle();
  }

  /** Ends the attempt, which nobody needs now, and requests the key for the first waiter. */
  private dropAttempt(now: number): void {
    const { attempt } = this;
    this.attempt = undefined;
    this.endPause();
    attempt?.dropUnsent();
    if (attempt?.mayBeKept === true) this.releaseOwner(attempt);
    this.askForHead(now);
    this.forgetIfIdle();
  }

  /** Releases whatever the store keeps for an attempt. */
  private releaseOwner({ owner, mode, leaseMs, hasFailed }: Attempt): void {
    const { key, parts } = this;
    const release = { key, owner, mode, leaseMs, closedUntil: 0 };
    parts.releaser.release(release, parts.clock.now(), hasFailed).catch(() => undefined);
  }

  private pauseFor(pauseMs: number, then: () => void): void {
    this.endPause();
    this.pause = runOutside(() =>
      this.parts.clock.schedule(pauseMs, () => {
        this.pause = undefined;
        then();
      }),
    );
  }

  private endPause(): void {
    this.pause?.cancel();
    this.pause = undefined;
  }

  // Leases and locks.

  /**
   * Ends a lock whose last hold has ended. Returns whether the store still had it.
   *
   * @param heir whom it is given to. Default: it is released.
   */
  release(lock: Lock, heir?: Heir): Promise<boolean> {
    const { lease } = lock;
    const { clock, events } = this.parts;
    lock.onEnded();
    if (!lock.isUnseen) events.released(lock, clock, heir !== undefined);
    const now = clock.now();
    lock.leave(lease);
    this.parts.onEnded();
    if (lease.locks.length > 0) return Promise.resolve(true);
    if (heir === undefined && this.passOn(lease, now)) return Promise.resolve(true);
    return this.releaseLease(lease, lock.resource, now, heir);
  }

  /**
   * Gives a lock to the owner of a ticket, and ends it here. Returns whether the store still had it.
   *
   * @throws LockUnavailableError if the store sent no reply until the lease was over.
   */
  async detach(lock: Lock, heir: Heir): Promise<boolean> {
    const { owner, mode, longestMs, hasFailed } = lock.lease;
    // A late request of this owner may still run.
    const left = hasFailed ? [owner] : [];
    try {
      return await this.release(lock, heir);
    } catch (error) {
      // Nobody will have the ticket. A shutdown has closed the store.
      if (!(error instanceof LockClosedError)) left.push(owner, heir.owner);
      throw error;
    } finally {
      const { key, parts } = this;
      const leaseMs = Math.max(longestMs, heir.leaseMs);
      for (const each of new Set(left)) {
        const release = { key, owner: each, mode, leaseMs, closedUntil: 0 };
        parts.releaser.release(release, parts.clock.now(), true).catch(() => undefined);
      }
    }
  }

  /**
   * Gives a caller the lock that was given to an owner of this instance. It is never passed on.
   *
   * @param sentAt when the request was sent.
   */
  adopt(target: Target, options: AcquireOptions, owner: string, token: number, sentAt: number, now: number): Lock {
    const granted: Granted = { status: 'granted', token, tokens: 1 };
    const lease = new Lease(this, owner, 'exclusive', granted, now, sentAt, leaseOf(options), false);
    this.leases.push(lease);
    const lock = this.lockOf(lease, target, options, now);
    this.parts.renewer.watch(lease, now);
    return lock;
  }

  private lockOf(lease: Lease, target: Target, options: AcquireOptions, now: number): Lock {
    const lock = new Lock(lease, target.resource, options, now, target.call);
    lease.locks.push(lock);
    return lock;
  }

  /** Declares a lock lost if its deadline has passed. */
  expire(lock: Lock): void {
    const now = this.parts.clock.now();
    if (lock.isAlive && now >= lock.deadline) this.lose(lock, this.parts.renewer.whyOver(lock, now));
  }

  /**
   * Like {@link expire}, but first reads the replies that have arrived. Returns undefined if there is nothing to wait
   * for, which is the usual case.
   */
  expireUnlessRenewed(lock: Lock): Promise<void> | undefined {
    const { clock, renewer } = this.parts;
    const now = clock.now();
    if (now < lock.deadline) return undefined;
    // How long the event loop was blocked is known now, but not after its next turn.
    renewer.whyOver(lock, now);
    if (!renewer.mayBeRenewed(lock, now)) return void this.expire(lock);
    return repliesRead(clock).then(() => this.expire(lock));
  }

  /** Ends a lock against its holder's will. Does nothing if it has ended. */
  lose(lock: Lock, why: string, cause?: unknown): void {
    if (lock.isAlive) runOutside(() => this.endAsLost(lock, why, cause));
  }

  private endAsLost(lock: Lock, why: string, cause: unknown): void {
    const { lease, resource, deadline } = lock;
    const { clock, events, lockDelayMs, warn, onEnded } = this.parts;
    const now = clock.now();
    const elapsedMs = now - lock.grantedAt;
    const name = nameOfCall(resource, lock.options);
    const message = `The lock on ${name} was lost after ${Math.round(elapsedMs)} ms: ${why}.`;
    const loss = new LockLostError(message, { resource, elapsedMs, cause });
    lock.onEnded(loss);
    // Its work may still run.
    const delayedUntil = lockDelayMs > 0 ? Math.min(now, deadline) + lockDelayMs : 0;
    lease.remove(lock, Math.max(delayedUntil, lock.minHoldUntil));
    const isOver = lease.locks.length === 0;
    // Code of callers runs. It learns of the loss before the next holder can have the lock.
    lock.abortAll(loss);
    // The key may still be locked, although no caller holds it.
    if (isOver) this.releaseLease(lease, resource, now).catch(() => undefined);
    warn(loss.message);
    events.lost(lock, clock);
    onEnded();
  }

  /** Gives a new lease to the first waiter, and to the readers behind a reader. */
  private serve(lease: Lease, now: number): void {
    const { head } = this.waiters;
    if (head?.mode !== lease.mode) return;
    this.admit(head, lease, now);
    if (lease.mode !== 'shared') return;
    for (const waiter of this.waiters.all()) {
      // A lock scope may have got it for one of them meanwhile.
      if (waiter.queue !== this) continue;
      if (waiter.mode !== 'shared') return;
      this.admit(waiter, lease, now);
    }
  }

  private admit(waiter: Waiter, lease: Lease, now: number): void {
    this.waiters.remove(waiter);
    const { target, options, scope } = waiter;
    const lock = this.lockOf(lease, target, options, now);
    if (lease.dueAt !== undefined) this.parts.renewer.watch(lease, now);
    scope?.keep(lock, options.onLost);
    waiter.admit(lock);
    if (scope !== undefined) this.admitFromScopes();
  }

  /** Gives nested holds to the waiters whose lock scopes now keep the lock. */
  private admitFromScopes(): void {
    for (const waiter of this.waiters.all()) {
      const { scope, options } = waiter;
      const outer = scope?.findOutwards(this.parts, this.key);
      if (outer === undefined || !this.waiters.remove(waiter)) continue;
      try {
        const nested = outer.nest(options);
        scope?.keep(nested, options.onLost);
        waiter.admit(nested);
      } catch (error) {
        waiter.refuse(error);
      }
    }
  }

  /** Gives the lease to the next caller, without a request. */
  private passOn(lease: Lease, now: number): boolean {
    const { head } = this.waiters;
    if (head === undefined || head.mode !== lease.mode || lease.mode === 'shared') return false;
    if (!lease.tryPass(head.options, now, this.parts.passing)) return false;
    this.admit(head, lease, now);
    this.onHeadChanged();
    this.askForHead(now);
    return true;
  }

  /** Returns a lease that a further reader may share. */
  private leaseToJoin(options: AcquireOptions, now: number): Lease | undefined {
    const lease = this.leases.at(-1);
    return lease?.mode === 'shared' && lease.tryPass(options, now, this.parts.passing) ? lease : undefined;
  }

  /** Releases a lease that no caller uses. The release is sent before the next request for the key. */
  private releaseLease(lease: Lease, resource: string | undefined, now: number, heir?: Heir): Promise<boolean> {
    const { key, parts, turns } = this;
    const { owner, mode, longestMs: leaseMs, closedUntil, isDone, askedAt, hasFailed } = lease;
    this.leases.splice(this.leases.indexOf(lease), 1);
    parts.renewer.forget(lease);
    // The store had it from about then on. Short work takes less time than its request.
    turns?.onReleased(key, now - askedAt, this.waiters.head !== undefined);
    const release = { resource, key, owner, mode, leaseMs, closedUntil, isDone, heir };
    const released = parts.releaser.release(release, now, hasFailed && heir === undefined);
    this.askForHead(now);
    this.forgetIfIdle();
    return released;
  }

  private forgetIfIdle(): void {
    if (this.waiters.length > 0 || this.leases.length > 0 || this.attempt !== undefined) return;
    this.endPause();
    this.parts.forget(this);
  }
}
