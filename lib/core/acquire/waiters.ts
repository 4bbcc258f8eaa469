import { type AbortSubscription, onAbort, throwIfAborted } from '../context/abort-signals.js';
import type { Grant } from '../lease/grant.js';
import { type Linked, LinkedList } from '../linked-list.js';
import type { Clock, Timer } from '../time/clock.js';
import { leaseOf, type WaitOptions } from './acquire-options.js';

/** One local caller that waits for a lock. The end of the wait stops its timer and the use of its signal. */
export class Waiter implements Linked<Waiter> {
  readonly result: Promise<Grant>;
  previous: Waiter | undefined = undefined;
  next: Waiter | undefined = undefined;
  /** How many requests without a grant were counted for this waiter. */
  ungranted = 0;
  /** The lease that it wants, in milliseconds. */
  readonly leaseMs: number;
  private resolveResult!: (result: Grant | Promise<Grant>) => void;
  private rejectResult!: (reason: unknown) => void;
  private timer: Timer | undefined = undefined;
  private wakesAt = Infinity;
  private subscription: AbortSubscription | undefined = undefined;

  /**
   * @param resource the caller's name for the key. Several resources may share a key.
   * @param nested whether the caller runs in a hold of this engine. A shutdown still admits such a caller, so that the
   * hold can finish.
   * @param call the number of the call.
   */
  constructor(
    readonly resource: string,
    readonly options: WaitOptions,
    readonly enteredAt: number,
    readonly nested: boolean,
    private readonly clock: Clock,
    readonly call = 0,
  ) {
    this.leaseMs = leaseOf(options);
    this.result = new Promise((resolve, reject) => {
      this.resolveResult = resolve;
      this.rejectResult = reject;
    });
  }

  /** The local moment at which it stops waiting. */
  get waitUntil(): number {
    return this.enteredAt + this.options.waitMs;
  }

  /**
   * Calls `leave` with the reason when the caller's signal aborts. The signal's own code runs here, so call this before
   * others know the caller.
   *
   * @throws the reason if the signal has aborted, and a LockConfigError if the signal refuses its listener.
   */
  listen(signal: AbortSignal | undefined, leave: (reason: unknown) => void): void {
    this.subscription = onAbort(signal, leave);
    // A subscriber to an event may have aborted the signal since the call.
    throwIfAborted(signal);
  }

  /**
   * Calls `onTimer` at a time, or at an earlier time that is already set.
   *
   * @param now the current time. If `at` is Infinity, no timer is set.
   */
  wakeAt(at: number, now: number, onTimer: () => void): void {
    if (at >= this.wakesAt) return;
    this.timer?.cancel();
    this.wakesAt = at;
    this.timer = this.clock.schedule(at - now, () => {
      this.wakesAt = Infinity;
      onTimer();
    });
  }

  /** Ends the wait with an error. */
  refuse(reason: unknown): void {
    this.rejectResult(reason);
    this.end();
  }

  /** Ends the wait with a grant, which the caller receives once it is ready. */
  admit(grant: Grant): void {
    const { ready } = grant;
    this.resolveResult(ready === undefined ? grant : ready.then(() => grant));
    this.end();
    const { options } = this;
    if (options.onGranted === undefined) return;
    const { onGranted } = options;
    options.onGranted = undefined;
    onGranted(grant);
  }

  private end(): void {
    this.timer?.cancel();
    this.subscription?.stop();
  }
}

/** Waiters in the order in which they arrived. A waiter may leave at any time. */
export class WaiterQueue extends LinkedList<Waiter> {
  private willWaitCount = 0;

  /** Whether any waiter in the queue has a `waitMs` above 0. */
  get willWait(): boolean {
    return this.willWaitCount > 0;
  }

  /** Whether all waiters in the queue have a `waitMs` above 0. */
  get allWillWait(): boolean {
    return this.willWaitCount === this.length;
  }

  override push(waiter: Waiter): void {
    super.push(waiter);
    if (waiter.options.waitMs > 0) this.willWaitCount += 1;
  }

  override remove(waiter: Waiter): boolean {
    if (!super.remove(waiter)) return false;
    if (waiter.options.waitMs > 0) this.willWaitCount -= 1;
    return true;
  }

  /** Yields all waiters in order, skipping any that leave during the iteration. */
  *[Symbol.iterator](): Generator<Waiter> {
    // A waiter that leaves may cause others to leave, including the next.
    const waiters: Waiter[] = [];
    for (let waiter = this.head; waiter !== undefined; waiter = waiter.next) waiters.push(waiter);
    for (const waiter of waiters) if (this.has(waiter)) yield waiter;
  }
}
