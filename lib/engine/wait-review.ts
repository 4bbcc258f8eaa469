import { type LockError, LockReplicationError, LockUnavailableError, withoutStack } from '../common/errors.js';
import type { Target } from '../events/call.js';
import { UnansweredError } from '../contract/store.js';
import {
  acquireError,
  type KnownReply,
  type LastReply,
  outageError,
  unavailable,
  type WaitingLine,
} from './error-texts.js';
import { WorkDone } from './hold.js';
import type { KeyQueue } from './key-queue.js';
import { MOST_ON_THEIR_WAY } from './link.js';
import type { AcquireOptions } from './options.js';
import type { Waiter } from './waiter.js';

export const HELD: KnownReply = { kind: 'held', until: undefined };
const NO_REPLY: LastReply = { kind: 'none' };

/**
 * How many waiting readers of an instance count as one caller for `maxWaiting`, because one request serves all of them.
 */
const READERS_PER_PLACE = 50;

/** Decides how long the callers of a key wait, by the store's last reply, and with which error they leave. */
export class WaitReview {
  private lastReply: LastReply = NO_REPLY;
  /** Whether every waiter with `waitMs > 0` has a timer for the end of its wait, which a reply does not change. */
  private isTimed = false;

  constructor(private readonly queue: KeyQueue) {}

  // What is known.

  /** Forgets the last reply, because nobody has waited since. */
  forget(): void {
    this.lastReply = NO_REPLY;
    this.isTimed = false;
  }

  /** Records a reply of the store. */
  record(reply: LastReply): void {
    this.lastReply = reply;
  }

  /** Records that a request has failed. An outage counts from its first failure. */
  recordFailure(error: LockUnavailableError, failedSince: number): void {
    const { lastReply } = this;
    this.lastReply = { kind: 'failed', error, since: lastReply.kind === 'failed' ? lastReply.since : failedSince };
  }

  /** Counts a reply without a grant, for stores that limit how many a caller waits for. */
  countReply(now: number): void {
    const { queue } = this;
    const limit = queue.parts.link.store.capabilities.retry?.limit;
    if (limit === undefined) return;
    for (const waiter of queue.waiters.all()) {
      waiter.repliesWithoutGrant += 1;
      if (waiter.repliesWithoutGrant >= limit) queue.refuse(waiter, this.errorFor(waiter, now));
    }
  }

  /** Whether a request has no reply yet, or the last reply decides nothing and the next one comes soon. */
  isReplyDue(now: number): boolean {
    const { attempt, parts } = this.queue;
    if (attempt === undefined) return false;
    const { state, undecidedSince } = attempt;
    return state !== 'idle' || (undecidedSince !== undefined && now - undecidedSince < parts.link.limitMs);
  }

  // The callers that have waited long enough.

  /** Refuses the callers that a reply has decided about, if it may have changed when they stop waiting. */
  all(now: number): void {
    const { waiters } = this.queue;
    if (waiters.head === undefined) return;
    const { kind } = this.lastReply;
    // Waiters with a `waitMs` have their timers. The others stop no sooner than at a reply that is on its way.
    const isDecided = kind === 'failed' || this.isDone(now);
    if (this.isTimed && !isDecided && (waiters.areAllPatient || this.isReplyDue(now))) return;
    this.isTimed = kind !== 'none' && kind !== 'failed';
    for (const waiter of waiters.all()) this.one(waiter, now);
  }

  /** Refuses a waiter that has waited long enough, or sets a timer for its next review. */
  one(waiter: Waiter, now: number): void {
    const { queue } = this;
    if (waiter.queue !== queue) return;
    const { clock } = queue.parts;
    if (waiter.options.onceMs !== undefined && this.isDone(now)) {
      const done = withoutStack(() => new WorkDone());
      return queue.refuse(waiter, done);
    }
    const at = this.givesUpAt(waiter, now);
    if (at <= now) queue.refuse(waiter, this.errorFor(waiter, now));
    else if (at !== Infinity) waiter.wakeAt(at, now, clock, () => this.one(waiter, clock.now()));
  }

  /** Refuses the callers that no longer wait for the end of an outage. */
  refuseIfUnavailable(now: number): void {
    const { queue } = this;
    const { health } = queue.parts.link;
    const outage = health.isAnySilent ? health.outage(queue.key) : undefined;
    if (outage === undefined) return;
    for (const waiter of queue.waiters.all()) {
      const { target, enteredAt, options } = waiter;
      if (outage.seenForMs < (options.unavailableAfterMs ?? Infinity)) continue;
      const error = withoutStack(() => outageError(target.resource, outage, now - enteredAt));
      queue.refuse(waiter, error);
    }
  }

  /** Returns the error for a caller that must not wait, because too many others do. Undefined if it may wait. */
  refusalAtOnce({ resource }: Target, options: AcquireOptions, now: number): LockError | undefined {
    const { maxWaiting = Infinity, mode } = options;
    const { length, readers } = this.queue.waiters;
    if (length < maxWaiting) return undefined;
    const alike = mode === 'shared' ? readers : length - readers;
    if (alike < (mode === 'shared' ? maxWaiting * READERS_PER_PLACE : maxWaiting)) return undefined;
    const line = { waitingHere: alike, maxWaiting };
    return this.errorOf(resource, options, { enteredAt: now, now, line, why: this.whyFull(resource) });
  }

  /**
   * Returns when a waiter stops waiting, by the last reply. Infinity: the next reply decides.
   * - None yet: after `waitMs`. A request has twice the time limit, to be sent and to be answered.
   * - Others hold the key: after `waitMs`.
   * - The store failed: `unavailableAfterMs` after it first did, whatever `waitMs` is.
   */
  private givesUpAt({ options, enteredAt, waitUntil, isPatient }: Waiter, now: number): number {
    const { lastReply, queue } = this;
    const { limitMs, health } = queue.parts.link;
    const replyDueUntil = this.isReplyDue(now) ? enteredAt + 2 * limitMs : 0;
    // Until the first reply, nobody knows whether others hold the key.
    if (lastReply.kind === 'none') return Math.max(waitUntil, replyDueUntil, enteredAt + (options.firstReplyMs ?? 0));
    const { unavailableAfterMs = Infinity } = options;
    // If replicas did not acknowledge a grant, the store itself replied.
    const isDown = lastReply.kind === 'failed' && !(lastReply.error instanceof LockReplicationError);
    // How long a caller waits for the store does not depend on `waitMs`.
    if (isDown && unavailableAfterMs !== Infinity) {
      const limit = Math.min(lastReply.since, now - health.refusesForMs(queue.key)) + unavailableAfterMs;
      // The outage may be over by the next reply, which decides.
      return replyDueUntil !== 0 || limit <= now ? Math.max(limit, replyDueUntil) : Infinity;
    }
    // A caller that does not wait for others gets one reply, to report busy or unavailable.
    return isPatient ? waitUntil : Math.max(waitUntil, replyDueUntil);
  }

  /** Whether the key is closed because its work is done, by the last reply. */
  private isDone(now: number): boolean {
    const { lastReply } = this;
    return lastReply.kind === 'held' && lastReply.isDone === true && now < (lastReply.until ?? 0);
  }

  // With which error.

  /** Returns the error for a waiter that leaves now. */
  errorFor({ target, enteredAt, options }: Waiter, now: number, why = this.whyNot(now)): LockError {
    // The waiter itself leaves, so it does not count.
    const line = { waitingHere: this.queue.waiters.length - 1 };
    return this.errorOf(target.resource, options, { enteredAt, now, line, why });
  }

  /** Returns the error of a request that has failed. */
  failureOf(error: unknown): LockUnavailableError {
    if (error instanceof LockUnavailableError) return error;
    const { resource, key, parts } = this.queue;
    if (!(error instanceof UnansweredError))
      return withoutStack(() => unavailable(resource, 'the store failed', { cause: error }));
    const cause = parts.link.health.outageOf(key);
    return withoutStack(() => unavailable(resource, error.message, { cause }));
  }

  private errorOf(
    resource: string,
    { mode, waitMs }: AcquireOptions,
    { why, ...wait }: { enteredAt: number; now: number; line: WaitingLine; why: KnownReply },
  ): LockError {
    const { key, parts } = this.queue;
    const place = parts.link.health.placeOf(key);
    const ownMethod = (): string | undefined => this.ownMethod;
    // The stack is taken where the caller's wait ends.
    return withoutStack(() => acquireError(why, { resource, key, mode, waitMs, place, ownMethod, ...wait }));
  }

  /** The `@Locked` method that holds the key in this instance. Undefined if none is known. */
  private get ownMethod(): string | undefined {
    const locks = this.queue.leases.flatMap((lease) => lease.locks);
    return locks.find(({ options }) => options.method !== undefined)?.options.method;
  }

  /** Why a waiter does not have the lock now: the holders of this instance, or the store's last reply. */
  private whyNot(now: number): KnownReply {
    const { lastReply, queue } = this;
    const { attempt, leases, parts, key, resource } = queue;
    const [first] = leases;
    if (lastReply.kind === 'none' && attempt !== undefined) {
      // While other instances come first, the lock counts as theirs.
      if (attempt.state === 'idle') return HELD;
      const why =
        attempt.state === 'unsent'
          ? `its request was not sent, because ${MOST_ON_THEIR_WAY} requests of this process have no reply yet`
          : `Redis replies slowly: there was no reply within ${Math.round(now - attempt.sentAt)} ms`;
      const cause = parts.link.health.outageOf(key);
      return { kind: 'failed', error: unavailable(resource, why, { cause }), since: attempt.sentAt };
    }
    if (first === undefined || attempt !== undefined) return lastReply.kind === 'none' ? HELD : lastReply;
    const { deadline, mode, grantedAt, locks } = first;
    const holder = { instanceId: parts.instanceId, isOwn: true };
    const shares = { since: grantedAt, count: leases.length };
    const since = locks.at(-1)?.grantedAt ?? grantedAt;
    return { kind: 'held', until: deadline, holder: { ...holder, ...(mode === 'exclusive' ? { since } : shares) } };
  }

  /** Returns why a caller beyond `maxWaiting` is refused. */
  private whyFull(resource: string): KnownReply {
    const { lastReply, queue } = this;
    const { leases, attempt, parts, key } = queue;
    const now = parts.clock.now();
    if (lastReply.kind !== 'none' || (leases.length > 0 && attempt === undefined)) return this.whyNot(now);
    const cause = parts.link.health.outageOf(key);
    // The waiting callers keep this caller out, whatever the first reply says.
    if (cause === undefined) return HELD;
    const error = unavailable(resource, 'the store has sent no reply yet', { cause });
    return { kind: 'failed', error, since: now };
  }
}
