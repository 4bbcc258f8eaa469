import { type LockError, LockTimeoutError, withoutStack } from '../errors.js';
import type { Grant } from '../lease/grant.js';
import type { LockMode } from '../store/lock-store.js';
import {
  acquireError,
  closed,
  failedBecause,
  heldUntil,
  type LastReply,
  NO_REPLY,
  notYetLimitOf,
  outageError,
  storeLimitOf,
  unavailable,
} from './acquire-errors.js';
import type { AcquireDeps, Target, WaitOptions } from './acquire-options.js';
import { Waiter, type WaiterCount, WaiterQueue } from './waiters.js';

/** A refusal because `maxWaiting` callers wait, and when it was. */
interface FullLine {
  readonly resource: string;
  readonly maxWaiting: number | undefined;
  readonly waiting: number;
  readonly at: number;
  readonly error: LockTimeoutError;
}

/** The callers of one key that wait in this module instance: their order, the end of their waiting, and its reasons. */
export abstract class WaitingCallers {
  protected readonly queue: WaiterQueue;
  protected lastReply: LastReply = NO_REPLY;
  /** The last caller that was refused at once. */
  private lastFull: FullLine | undefined = undefined;
  /** True if every waiter with `waitMs > 0` has a timer. */
  private timed = false;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    protected readonly deps: AcquireDeps,
    /** See {@link WaiterQueue}. */
    total?: WaiterCount,
  ) {
    this.queue = new WaiterQueue(total);
  }

  /** Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. */
  acquire(resource: string, options: WaitOptions, now: number, nested: boolean, call?: number): Promise<Grant> {
    const waiter = new Waiter(resource, options, now, nested, this.deps.clock, call);
    try {
      if (options.signal !== undefined) this.listenFor(waiter);
      this.enter(waiter, now);
      if (this.isBehindOwn) this.deps.onWaitBehindOwn?.();
    } catch (error) {
      // A waiter that stays behind would be granted the lock for nobody.
      waiter.refuse(error);
      this.refuse(waiter, error);
      this.forgetIfIdle();
    }
    return waiter.granted;
  }

  /**
   * Refuses a caller at once, because `maxWaiting` others wait.
   *
   * @param waiting how many wait for the key, in all modes that count.
   * @returns a promise that rejects with `LockTimeoutError`, or with `LockUnavailableError` in an outage. The error has
   * no stack.
   */
  refuseAtOnce(
    { resource }: Target,
    { waitMs, maxWaiting }: WaitOptions,
    now: number,
    waiting: number,
  ): Promise<never> {
    const { key, mode, lastFull } = this;
    const isSame = lastFull?.resource === resource && lastFull.maxWaiting === maxWaiting;
    // A crowd of callers is refused in the same millisecond, for the same reason. It must not block the event loop.
    if (isSame && lastFull.waiting === waiting && now - lastFull.at < 1)
      return Promise.reject(withoutStack(() => copyOf(lastFull.error)));
    const call = { resource, key, mode, waitMs, enteredAt: now, now };
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

  /** The callers that wait, in order of arrival. */
  get waiters(): Iterable<Waiter> {
    return this.queue;
  }

  /** Rejects all waiters that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    for (const waiter of this.queue) if (!waiter.nested) this.refuse(waiter, closed(waiter.resource));
  }

  /** Rejects the waiters for whose work nobody waits, unless they run in a hold of this engine. */
  refuseBackground(): void {
    for (const waiter of this.queue)
      if (!waiter.nested && waiter.options.background === true) this.refuse(waiter, closed(waiter.resource));
  }

  /** Rejects all waiters and cancels all timers. */
  close(): void {
    for (const waiter of this.queue) this.refuse(waiter, closed(waiter.resource));
  }

  /** Serves a new waiter, or puts it into the queue. */
  protected abstract enter(waiter: Waiter, now: number): void;

  /** Called when a waiter has left the queue without the lock. */
  protected abstract onLeft(): void;

  protected abstract forgetIfIdle(): void;

  /** How long the next reply may take, in milliseconds. Infinity if a request is on its way, 0 if none is expected. */
  protected abstract get replyDueMs(): number;

  /** Whether callers wait, and this instance holds the lock and requests no more of it. */
  abstract get isBehindOwn(): boolean;

  /** Why a waiter does not have the lock now. */
  protected abstract get whyNot(): LastReply;

  /** Records that whether others hold the lock is not known before the next reply. */
  protected forgetLastReply(): void {
    this.lastReply = NO_REPLY;
    this.timed = false;
  }

  /**
   * Rejects the waiters for whom the outage of the key's server has lasted too long. All of them, because no release
   * of another holder reaches this instance during an outage.
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

  /** Rejects the waiters that do not wait for a silent server. Returns whether a request is to be sent for others. */
  protected mayRequest(): boolean {
    this.refuseIfUnavailable();
    return this.queue.head !== undefined;
  }

  /**
   * Records a reply that has granted nothing. Rejects the waiters with at least `limit` such replies, and those that
   * have waited long enough for a store that fails.
   */
  protected refused(reply: LastReply, limit: number): void {
    const before = this.lastReply;
    const failed = reply.kind === 'failed';
    // What the store said before is still the best that is known.
    if (reply.kind === 'undelivered' && before.kind === 'held') return this.startTimers();
    this.lastReply = 'since' in reply && before.kind === reply.kind ? { ...reply, since: before.since } : reply;
    // A reply that nobody else has the lock does not count.
    const counts = reply.kind === 'held' ? reply.notYet === undefined : reply.kind !== 'undelivered';
    if (counts) for (const waiter of this.queue.exhaustedAfter(limit)) this.refuse(waiter, this.errorFor(waiter));
    if (failed) this.refuseAfterFailure();
    this.startTimers();
  }

  /** See {@link AcquireLoopListener.onBlocked}. */
  onBlocked(): void {
    this.startTimers();
  }

  private refuseAfterFailure(): void {
    for (const waiter of this.queue) if (this.storeRestMs(waiter) <= 0) this.refuse(waiter, this.errorFor(waiter));
  }

  /** Starts the timers of all waiters that have none. Later waiters start theirs when they arrive. */
  protected startTimers(): void {
    if (this.timed && (this.queue.allWillWait || this.replyDueMs === Infinity)) return;
    // A failure leaves some waiters without a timer, and the next reply starts it.
    this.timed = this.lastReply !== NO_REPLY && this.lastReply.kind !== 'failed';
    // Nearly always nobody waits behind the first caller: no iterator is made for it.
    if (this.queue.head !== undefined && !this.awaitsFirstReply) {
      for (const waiter of this.queue) this.startTimer(waiter);
    }
  }

  protected startTimer(waiter: Waiter): void {
    if (!this.awaitsFirstReply) this.armTimer(waiter);
  }

  /** No wait ends before the first reply: until then the lock is neither held by others nor unavailable. */
  private get awaitsFirstReply(): boolean {
    return this.lastReply === NO_REPLY && this.replyDueMs === Infinity;
  }

  private armTimer(waiter: Waiter): void {
    if (!this.queue.has(waiter)) return;
    const hasNoReply = this.lastReply === NO_REPLY;
    const storeRestMs = this.storeRestMs(waiter);
    // A caller without time left still waits for the reply, to learn which of the two it is.
    const isLast = waiter.options.waitMs === 0 || (hasNoReply && waiter.remainingWaitMs <= 0);
    let delayMs = isLast ? Math.max(this.replyDueMs, this.notYetRestMs(waiter)) : waiter.remainingWaitMs;
    // How long it waits for the store does not depend on `waitMs`. The next reply starts its timer, if one will come.
    if (storeRestMs !== Infinity) delayMs = this.isBlocked ? Math.max(storeRestMs, this.replyDueMs) : Infinity;
    waiter.startTimer(delayMs, () => this.onTimer(waiter, isLast));
  }

  private onTimer(waiter: Waiter, isLast: boolean): void {
    const storeRestMs = this.storeRestMs(waiter);
    const isOver = isLast || (this.lastReply !== NO_REPLY && waiter.remainingWaitMs <= 0);
    if (storeRestMs === Infinity ? isOver : this.isBlocked && storeRestMs <= 0) {
      this.refuse(waiter, this.errorFor(waiter));
    } else this.startTimer(waiter);
  }

  /** Returns the rest of that wait for a caller. See `notYetLimitOf`. */
  private notYetRestMs({ options, enteredAt }: Waiter): number {
    const { lastReply, deps } = this;
    const now = deps.clock.now();
    // The event loop may have stood still before the request came too late.
    if (lastReply.kind === 'undelivered')
      return notYetLimitOf(0, options, deps.requestTimeoutMs) - (now - Math.max(enteredAt, lastReply.since));
    if (lastReply.kind !== 'held' || lastReply.notYet === undefined) return 0;
    return notYetLimitOf(lastReply.notYet.leastMs, options, deps.requestTimeoutMs) - (now - enteredAt);
  }

  /** Whether no reply will come before one that is overdue. */
  private get isBlocked(): boolean {
    const { replyDueMs } = this;
    return replyDueMs !== 0 && replyDueMs !== Infinity;
  }

  /** Returns how long a caller still waits for a store that fails. Infinity if it does not fail, or without a limit. */
  private storeRestMs({ options, enteredAt }: Waiter): number {
    const { lastReply, deps } = this;
    const { unavailableAfterMs = Infinity } = options;
    if (unavailableAfterMs === Infinity) return Infinity;
    const now = deps.clock.now();
    if (lastReply === NO_REPLY) return this.isBlocked ? unavailableAfterMs - (now - enteredAt) : Infinity;
    if (lastReply.kind !== 'failed') return Infinity;
    return storeLimitOf(lastReply, options) - Math.max(now - lastReply.since, deps.health.refusesForMs(this.key));
  }

  // Not in `acquire`, so that a call without a signal makes no closure.
  private listenFor(waiter: Waiter): void {
    waiter.listen((reason) => this.refuse(waiter, reason));
  }

  private refuse(waiter: Waiter, reason: unknown): void {
    if (!this.queue.remove(waiter)) return;
    waiter.refuse(reason);
    this.onLeft();
  }

  private errorFor({ resource, enteredAt, options: { waitMs } }: Waiter): LockError {
    const { key, mode } = this;
    // The waiter itself leaves.
    const line = { waitingHere: this.queue.length - 1 };
    return acquireError(this.whyNot, { resource, key, mode, waitMs, enteredAt, now: this.deps.clock.now(), line });
  }

  /** Returns why a caller beyond `maxWaiting` is refused. */
  private whyFull(resource: string): LastReply {
    const { whyNot, key, deps } = this;
    if (whyNot.kind !== 'none' && whyNot.kind !== 'undelivered') return whyNot;
    const cause = deps.health.outageOf(key);
    // Those that wait keep it out, whatever the first reply says.
    return cause === undefined
      ? heldUntil(undefined)
      : failedBecause(unavailable(resource, 'the store has sent no reply yet', { cause }), deps.clock.now());
  }
}

/** Returns another error with the same fields. Each caller has its own. */
function copyOf(error: LockTimeoutError): LockTimeoutError {
  return new LockTimeoutError(error.message, error);
}
