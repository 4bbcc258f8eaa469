import { LockTimeoutError, type LockError, withoutStack } from '../errors.js';
import type { Target } from '../events/call.js';
import { type Grant, Ownership, type OwnershipUser } from '../lease/grant.js';
import type { StoreGrant } from '../lease/lease.js';
import { closedError } from '../lifecycle.js';
import { instanceOf } from '../store/instance-id.js';
import type { Handoff, LockMode } from '../store/lock-store.js';
import {
  acquireError,
  failedBecause,
  heldUntil,
  type LastReply,
  NO_REPLY,
  notYetLimitOf,
  outageError,
  storeLimitOf,
  unavailable,
} from './acquire-errors.js';
import { AcquireLoop, type LoopUser } from './acquire-loop.js';
import { type AcquireDeps, READERS_PER_PLACE, type WaitOptions } from './acquire-options.js';
import { withItem, without } from '../lists.js';
import { turnsOf } from './turns.js';
import { type Waiter, WaiterQueue } from './waiters.js';

const HELD = heldUntil(undefined);
const NO_LOOPS: readonly AcquireLoop[] = [];
const NOTHING: readonly Ownership[] = [];

/** A refusal because `maxWaiting` callers wait, and when it happened. */
interface FullLine {
  readonly resource: string;
  readonly maxWaiting: number | undefined;
  readonly waiting: number;
  readonly at: number;
  readonly error: LockTimeoutError;
}

/**
 * The callers of one module instance that want one key in one mode, in order of arrival. Its loops ask the store for
 * the key, and its ownerships are what the store has granted. How many of each there are depends on the mode:
 *
 * - Exclusive: one, which is passed on from caller to caller.
 * - Permits: as many as there are permits, each passed on. After a refusal, one is requested at a time.
 * - Readers: one is requested for all waiting readers. They share it, and later readers join them.
 * - In strict order, each reader and each caller with a permit has one of its own.
 */
export class Line implements LoopUser, OwnershipUser {
  private readonly queue = new WaiterQueue();
  private lastReply: LastReply = NO_REPLY;
  /**
   * Whether every caller with `waitMs > 0` has a timer for the end of its wait. A reply changes that only if the store
   * has failed, or if nothing was known about the lock.
   */
  private isTimed = false;
  // The lists are replaced, never changed in place, so that items may be added or removed during an iteration.
  /** The loops that run, in the order of their places in the store's queue. */
  private asking: readonly AcquireLoop[] = NO_LOOPS;
  /** What this instance owns. */
  private owned: readonly Ownership[] = NOTHING;
  /** What it may have lost through a release by force, until its own release is sent. */
  private closing: readonly Ownership[] = NOTHING;
  /** Loops that have stopped before their last request got a reply. They run first, and wait for that reply. */
  private unanswered: readonly AcquireLoop[] = NO_LOOPS;
  /** What further readers may join. */
  private joinable: Ownership | undefined = undefined;
  /** Whether a request was refused or failed, so that others may also have permits. */
  private isFull = false;
  /** The last caller that was refused immediately. */
  private lastFull: FullLine | undefined = undefined;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly deps: AcquireDeps,
    private readonly forget: (line: Line) => void,
    /** See {@link RejectedCall.ownMethod}. The lock may be held in another mode. */
    private readonly ownMethod: () => string | undefined,
  ) {}

  /** Adds a caller, which gets the lock or an error. */
  join(waiter: Waiter, now: number): void {
    try {
      this.enter(waiter, now);
    } catch (error) {
      // A waiter left in the queue would be granted the lock for nobody.
      waiter.refuse(error);
      this.refuse(waiter, error);
      this.forgetIfIdle();
    }
  }

  /** Rejects a caller, if it waits. */
  refuse(waiter: Waiter, reason: unknown): void {
    if (!this.queue.remove(waiter)) return;
    waiter.refuse(reason);
    this.onLeft();
  }

  /**
   * Refuses a caller immediately, because `maxWaiting` others wait.
   *
   * @param waiting how many wait for the key, in all modes that count.
   * @returns a promise that rejects with `LockTimeoutError`, or with `LockUnavailableError` in an outage.
   */
  refuseAtOnce({ resource }: Target, options: WaitOptions, now: number, waiting: number): Promise<never> {
    const { key, mode, lastFull } = this;
    const { waitMs, maxWaiting } = options;
    const isSame = lastFull?.resource === resource && lastFull.maxWaiting === maxWaiting;
    // Many callers may be refused in the same millisecond for the same reason, which must not block the event loop.
    if (isSame && lastFull.waiting === waiting && now - lastFull.at < 1)
      return Promise.reject(withoutStack(() => copyOf(lastFull.error)));
    const place = this.deps.health.placeOf(key);
    const call = { resource, key, mode, waitMs, enteredAt: now, now, place, ownMethod: this.ownMethod };
    const line = { waitingHere: waiting, maxWaiting };
    const error = withoutStack(() => acquireError(this.whyFull(resource), { ...call, line }));
    if (error instanceof LockTimeoutError) this.lastFull = { resource, maxWaiting, waiting, at: now, error };
    this.forgetIfIdle();
    return Promise.reject(error);
  }

  /** How many callers wait. */
  get length(): number {
    return this.queue.length;
  }

  /** The grants of this instance. */
  get grants(): readonly Grant[] {
    return this.owned.flatMap(({ grants }) => grants);
  }

  /** The callers that wait, in order of arrival. */
  get waiters(): Iterable<Waiter> {
    return this.queue;
  }

  /** Whether all that wait are served together, so that many of them count as one for `maxWaiting`. */
  get isServedTogether(): boolean {
    return this.mode === 'shared' && !this.isStrict;
  }

  /** Returns how many callers may wait. */
  longest({ maxWaiting = Infinity }: WaitOptions): number {
    return this.isServedTogether ? maxWaiting * READERS_PER_PLACE : maxWaiting;
  }

  /** Rejects the waiters that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    for (const waiter of this.queue) if (!waiter.nested) this.refuse(waiter, closedError(waiter.resource));
  }

  /** Rejects all waiters and cancels all timers. */
  close(): void {
    for (const waiter of this.queue) this.refuse(waiter, closedError(waiter.resource));
    for (const ownership of [...this.owned, ...this.closing]) ownership.close();
  }

  // Events of the store.

  /** Accepts a handoff. Returns false if no loop needs it. `Lines` then releases it. */
  onHandoff(handoff: Handoff): boolean {
    // A duplicate, or one whose lock a reply has granted already.
    if (this.owns(handoff.owner)) return true;
    return this.asking.some((loop) => loop.onHandoff(handoff));
  }

  /** Repeats the requests that wait to be repeated. */
  retryNow(): void {
    for (const loop of this.asking) loop.retryNow();
  }

  /** Called if others have released the key. */
  onReleasedByOthers(): void {
    for (const loop of this.asking) loop.onReleasedByOthers();
  }

  onDisconnected(): void {
    for (const loop of this.loops) loop.onDisconnected();
  }

  /** Called if the lock may have been released by force. */
  onForceReleased(): void {
    for (const ownership of this.owned) {
      if (!ownership.isResting) continue;
      this.forgetLastReply();
      ownership.endRest();
    }
  }

  /**
   * Rejects the waiters for whom the outage of the key's server has lasted too long. Checks all waiters, because no
   * release of another holder reaches this instance during an outage.
   */
  refuseIfUnavailable(): void {
    const { health, clock } = this.deps;
    const outage = health.isAnySilent ? health.outage(this.key) : undefined;
    if (outage === undefined) return;
    for (const waiter of this.queue) {
      const { resource, enteredAt, options } = waiter;
      const { unavailableAfterMs = Infinity } = options;
      if (outage.seenForMs < unavailableAfterMs) continue;
      this.refuse(waiter, outageError(resource, outage, clock.now() - enteredAt));
    }
  }

  /** The loops that run or wait for a last reply. The model checker reads them. @internal */
  get loops(): readonly AcquireLoop[] {
    return [...this.asking, ...this.unanswered];
  }

  // What its loops need.

  get resource(): string {
    return this.queue.head?.resource ?? this.key;
  }

  get leaseMs(): number {
    return this.queue.head?.leaseMs ?? 1;
  }

  /** One token for the first waiter, and one for each waiter that an exclusive lock may be passed on to. */
  get tokens(): number {
    return this.mode === 'exclusive' ? 1 + Math.min(this.queue.length - 1, this.deps.passing.maxLocalPasses) : 1;
  }

  get willWait(): boolean {
    return this.queue.willWait;
  }

  get waitUntil(): number {
    return this.queue.head?.waitUntil ?? Infinity;
  }

  /** Returns true from the grant until the last release is sent, so that a late reply or message frees nothing. */
  owns(owner: string): boolean {
    const isOf = (ownership: Ownership): boolean => ownership.owner === owner;
    return this.owned.some(isOf) || this.closing.some(isOf);
  }

  onGranted(loop: AcquireLoop, given: StoreGrant, now: number): void {
    this.leave(loop);
    const ownership = new Ownership(this.key, this.mode, given, now, this.deps, this);
    // Before the caller learns of the grant.
    this.owned = withItem(this.owned, ownership);
    this.lastReply = HELD;
    this.admitFirst(ownership, now);
    if (this.isServedTogether) {
      this.joinable = ownership;
      while (this.queue.head !== undefined && ownership.isHeld) this.admitFirst(ownership, now);
    }
    // Others may have released more permits.
    this.ask(now);
    this.reviewAll();
  }

  onReply(reply: LastReply, limit: number): void {
    this.isFull = true;
    const before = this.lastReply;
    // What the store said before is still the best that is known.
    if (reply.kind === 'undelivered' && before.kind === 'held') return this.reviewAll();
    this.lastReply = 'since' in reply && before.kind === reply.kind ? { ...reply, since: before.since } : reply;
    // A reply that says that nobody else has the lock does not count.
    const counts = reply.kind === 'held' ? reply.notYet === undefined : reply.kind !== 'undelivered';
    if (counts) this.countReply(limit);
    this.reviewAll();
  }

  onBlocked(): void {
    this.reviewAll();
  }

  onIdle(loop: AcquireLoop): void {
    this.unanswered = without(this.unanswered, loop);
    this.forgetIfIdle();
  }

  // What its ownerships need.

  passOn(ownership: Ownership, now: number): boolean {
    // Each loop that runs is for a waiter. Readers that may join have done so.
    if (this.queue.length <= this.asking.length || this.mode === 'shared') return false;
    if (!ownership.tryPass(now)) return false;
    this.admitFirst(ownership, now);
    return true;
  }

  onRestEnded(ownership: Ownership, now: number): void {
    this.closing = withItem(this.closing, ownership);
    this.end(ownership, now);
  }

  onOver(ownership: Ownership, now: number): void {
    if (!this.closing.includes(ownership)) return this.end(ownership, now);
    this.closing = without(this.closing, ownership);
    this.forgetIfIdle();
  }

  /** Acquires the key again for the remaining waiters. */
  private end(ownership: Ownership, now: number): void {
    if (this.joinable === ownership) this.joinable = undefined;
    this.owned = without(this.owned, ownership);
    const isAwaited = this.queue.head !== undefined;
    turnsOf(this.deps, this.key, this.mode)?.onReleased(this.key, now - ownership.since, isAwaited);
    this.ask(now);
    this.forgetIfIdle();
  }

  private get isStrict(): boolean {
    return this.mode !== 'exclusive' && this.deps.passing.maxLocalPasses === 0;
  }

  /** How many loops should run for the waiters. */
  private get wanted(): number {
    const { mode, owned } = this;
    const { length } = this.queue;
    if (mode === 'exclusive') return owned.length === 0 ? Math.min(length, 1) : 0;
    if (this.isStrict) return length;
    if (mode === 'shared') return Math.min(length, 1);
    // Without a queue, each caller counts the replies.
    const isOne = this.isFull || !this.deps.store.capabilities.queue;
    return Math.min(length, mode - owned.length, isOne ? 1 : Infinity);
  }

  private enter(waiter: Waiter, now: number): void {
    const { head, willWait } = this.queue;
    if (head === undefined && this.joinable?.tryPass(now)) return waiter.admit(this.joinable.grantTo(waiter, now));
    this.queue.push(waiter);
    const running = this.asking.length;
    const { wanted } = this;
    // Until the reply, it is not known whether others hold the lock.
    if (head === undefined && running === 0 && wanted > 0) this.forgetLastReply();
    if (wanted > running) this.ask(now);
    else this.refuseIfUnavailable();
    this.review(waiter, now);
    if (running === 0 || willWait || !this.queue.willWait) return;
    // Loops that are not in the store's queue join it.
    for (const loop of this.asking) loop.onWaiterAdded();
  }

  /** Starts the loops that are missing. */
  private ask(now: number): void {
    if (this.wanted <= this.asking.length) return;
    this.refuseIfUnavailable();
    while (this.asking.length < this.wanted) {
      const loop = this.unanswered.at(-1) ?? new AcquireLoop(this.deps, this);
      this.unanswered = without(this.unanswered, loop);
      this.asking = withItem(this.asking, loop);
      loop.start(now);
    }
  }

  private admitFirst(ownership: Ownership, now: number): void {
    const waiter = this.queue.head as Waiter;
    this.queue.remove(waiter);
    waiter.admit(ownership.grantTo(waiter, now));
  }

  /** Removes a loop that has stopped. */
  private leave(loop: AcquireLoop): void {
    this.asking = without(this.asking, loop);
    if (!loop.isIdle) this.unanswered = withItem(this.unanswered, loop);
  }

  /** Stops the loops that nobody waits for: those that were started last, with the last places in the store's queue. */
  private onLeft(): void {
    const { length } = this.asking;
    while (this.asking.length > this.queue.length) {
      const last = this.asking[this.asking.length - 1];
      try {
        last.stop();
      } finally {
        this.leave(last);
      }
    }
    // Callers without `waitMs` may have waited for the reply to a request that was given up.
    if (this.asking.length < length) this.reviewAll();
    this.forgetIfIdle();
  }

  /** Ends the line if nothing is left of it. */
  forgetIfIdle(): void {
    const { asking, owned, closing, unanswered, queue } = this;
    if (asking.length + owned.length + closing.length + unanswered.length + queue.length === 0) this.forget(this);
  }

  // The end of a wait.

  private forgetLastReply(): void {
    this.lastReply = NO_REPLY;
    this.isTimed = false;
  }

  /** Counts a reply that has granted nothing. Rejects the waiters with at least `limit` such replies. */
  private countReply(limit: number): void {
    const { retry } = this.deps.store.capabilities;
    if (limit === Infinity && retry?.limit === undefined) return;
    for (const waiter of this.queue) {
      waiter.ungranted += 1;
      if (waiter.ungranted >= limit) this.refuse(waiter, this.errorFor(waiter));
    }
  }

  /** Reviews all waiters, if a reply may have changed when they stop waiting. */
  private reviewAll(): void {
    if (this.queue.head === undefined) return;
    const { kind } = this.lastReply;
    // Waiters with a `waitMs` have their timers. The others stop no sooner than at a reply that is on its way.
    if (this.isTimed && kind !== 'failed' && (this.queue.allWillWait || this.replyDueAt === Infinity)) return;
    this.isTimed = kind !== 'none' && kind !== 'failed';
    for (const waiter of this.queue) this.review(waiter);
  }

  /** Rejects a waiter that has waited long enough, or schedules its next review. */
  private review(waiter: Waiter, now = this.deps.clock.now()): void {
    if (!this.queue.has(waiter)) return;
    const at = this.givesUpAt(waiter, now);
    if (at <= now) this.refuse(waiter, this.errorFor(waiter));
    else waiter.wakeAt(at, now, () => this.review(waiter));
  }

  /** No caller stops waiting before this time: Infinity while a request is on its way, 0 if none is. */
  private get replyDueAt(): number {
    let dueAt = 0;
    for (const loop of this.asking) dueAt = Math.max(dueAt, loop.replyDueAt);
    return dueAt;
  }

  /** Returns when a waiter stops waiting. Infinity: a reply will come, and decides. */
  private givesUpAt({ options, enteredAt, waitUntil }: Waiter, now: number): number {
    const { lastReply, replyDueAt } = this;
    const { unavailableAfterMs = Infinity, waitMs } = options;
    if (lastReply.kind === 'none') {
      // Until the first reply, the lock counts as neither held by others nor unavailable.
      const isLimited = unavailableAfterMs !== Infinity && replyDueAt !== 0;
      return Math.max(isLimited ? enteredAt + unavailableAfterMs : waitUntil, replyDueAt);
    }
    const storeLimitMs = storeLimitOf(lastReply, options);
    // How long a caller waits for the store does not depend on `waitMs`.
    if (lastReply.kind === 'failed' && storeLimitMs !== Infinity) {
      const failsSince = Math.min(lastReply.since, now - this.deps.health.refusesForMs(this.key));
      const limit = failsSince + storeLimitMs;
      // The outage may be over by the next reply, which decides. An overdue reply decides nothing.
      return replyDueAt !== 0 || limit <= now ? Math.max(limit, replyDueAt) : Infinity;
    }
    if (waitMs > 0) return waitUntil;
    // A caller whose time is up still awaits the reply, to report busy or unavailable.
    return Math.max(replyDueAt, this.notYetUntil(options, enteredAt));
  }

  /** Returns until when a caller without `waitMs` waits, because nobody else seems to have the lock. See `NotYet`. */
  private notYetUntil(options: WaitOptions, enteredAt: number): number {
    const { lastReply, deps } = this;
    // The event loop may have been blocked before the request, which then came too late.
    if (lastReply.kind === 'undelivered')
      return Math.max(enteredAt, lastReply.since) + notYetLimitOf(0, options, deps.requestTimeoutMs);
    if (lastReply.kind !== 'held' || lastReply.notYet === undefined) return 0;
    return enteredAt + notYetLimitOf(lastReply.notYet.leastMs, options, deps.requestTimeoutMs);
  }

  private errorFor({ resource, enteredAt, options: { waitMs } }: Waiter): LockError {
    const { key, mode, ownMethod } = this;
    const { clock, health } = this.deps;
    // The waiter itself leaves, so it does not count.
    const line = { waitingHere: this.queue.length - 1 };
    const place = health.placeOf(key);
    const call = { resource, key, mode, waitMs, enteredAt, now: clock.now(), place, line, ownMethod };
    // The stack is taken where the caller's wait ends.
    return withoutStack(() => acquireError(this.whyNot, call));
  }

  /** Why a waiter does not have the lock now: the store's last reply, or the holders of this instance. */
  private get whyNot(): LastReply {
    const { owned, asking, mode, lastReply } = this;
    const [first] = owned;
    // While other instances come first, the lock counts as theirs.
    if (lastReply.kind === 'none' && asking.some(({ isPausing }) => isPausing)) return HELD;
    if (first === undefined || asking.length > 0) return lastReply;
    const { owner, deadline, since, servedAt, isResting } = first;
    const holder = { instanceId: instanceOf(owner), isOwn: true };
    if (mode !== 'exclusive') return heldUntil(deadline, { ...holder, since, count: owned.length });
    return heldUntil(deadline, { ...holder, since: isResting ? since : servedAt });
  }

  /** Returns why a caller beyond `maxWaiting` is refused. */
  private whyFull(resource: string): LastReply {
    const { whyNot, key, deps } = this;
    if (whyNot.kind !== 'none' && whyNot.kind !== 'undelivered') return whyNot;
    const cause = deps.health.outageOf(key);
    // The waiting callers keep this caller out, whatever the first reply says.
    return cause === undefined
      ? HELD
      : failedBecause(unavailable(resource, 'the store has sent no reply yet', { cause }), deps.clock.now());
  }
}

/** Returns another error with the same fields, because each caller gets its own error. */
function copyOf(error: LockTimeoutError): LockTimeoutError {
  return new LockTimeoutError(error.message, error);
}
