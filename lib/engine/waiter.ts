import { type AbortSubscription, onAbort, throwIfAborted } from '../common/abort-signals.js';
import type { Target } from '../events/call.js';
import type { Clock, Timer } from '../clock/clock.js';
import type { LockMode } from '../contract/store.js';
import type { KeyQueue } from './key-queue.js';
import { type Linked, LinkedList } from '../common/linked-list.js';
import type { Lock } from './lock.js';
import type { ScopeHold } from './lock-scope.js';
import type { AcquireOptions } from './options.js';

/** One caller that waits for a lock. */
export class Waiter implements Linked<Waiter> {
  previous: Waiter | undefined = undefined;
  next: Waiter | undefined = undefined;
  /** Resolves with the lock. Rejects with an error, or with the reason of the caller's signal. */
  readonly result: Promise<Lock>;
  /** Where it waits. Undefined before and after. */
  queue: KeyQueue | undefined = undefined;
  /** How many requests without a grant it has waited for. Only counted for stores that limit them. */
  repliesWithoutGrant = 0;
  private resolve!: (lock: Lock) => void;
  private reject!: (reason: unknown) => void;
  private timer: Timer | undefined = undefined;
  private timerAt = Infinity;
  private subscription: AbortSubscription | undefined = undefined;

  /**
   * @param enteredAt the local moment of the call.
   * @param isNested whether the caller runs in a hold of this engine. A shutdown still serves it.
   * @param scope the lock scope that the caller runs in.
   */
  constructor(
    readonly target: Target,
    readonly options: AcquireOptions,
    readonly enteredAt: number,
    readonly isNested: boolean,
    readonly scope: ScopeHold | undefined,
  ) {
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  get mode(): LockMode {
    return this.options.mode;
  }

  /** Whether it waits for other holders. */
  get isPatient(): boolean {
    return this.options.waitMs > 0;
  }

  /** The local moment at which it stops waiting for other holders. */
  get waitUntil(): number {
    return this.enteredAt + this.options.waitMs;
  }

  /**
   * Ends the wait when the caller's signal aborts. The signal's own code runs here, so call this before others know the
   * waiter.
   *
   * @throws the reason if the signal has aborted, and a LockConfigError if the signal refuses its listener.
   */
  listen(): void {
    const { signal } = this.options;
    if (signal === undefined) return;
    this.subscription = onAbort(signal, (reason) => {
      if (this.queue === undefined) this.refuse(reason);
      else this.queue.refuse(this, reason);
    });
    throwIfAborted(signal);
  }

  /** Calls `onTimer` at a moment, unless it is called earlier anyway. Sets at most one timer. */
  wakeAt(at: number, now: number, clock: Clock, onTimer: () => void): void {
    if (at >= this.timerAt) return;
    this.timer?.cancel();
    this.timerAt = at;
    // Node's timers may fire a little early.
    this.timer = clock.schedule(Math.max(0, Math.ceil(at - now)), () => {
      this.timer = undefined;
      this.timerAt = Infinity;
      onTimer();
    });
  }

  /** Ends the wait with the lock. */
  admit(lock: Lock): void {
    this.resolve(lock);
    this.end();
  }

  /** Ends the wait with an error. */
  refuse(reason: unknown): void {
    this.reject(reason);
    this.end();
  }

  private end(): void {
    this.queue = undefined;
    this.timer?.cancel();
    this.subscription?.stop();
  }
}

/** Waiters in the order in which they arrived. A waiter may leave at any time. */
export class WaiterList extends LinkedList<Waiter> {
  /** How many want to share the lock. */
  readers = 0;
  private patient = 0;

  override push(waiter: Waiter): void {
    super.push(waiter);
    this.count(waiter, 1);
  }

  override remove(waiter: Waiter): boolean {
    if (!super.remove(waiter)) return false;
    this.count(waiter, -1);
    return true;
  }

  private count(waiter: Waiter, by: number): void {
    if (waiter.mode === 'shared') this.readers += by;
    if (waiter.isPatient) this.patient += by;
  }

  /** Whether all waiters wait for other holders. */
  get areAllPatient(): boolean {
    return this.patient === this.length;
  }

  /** Returns all waiters that are in the list now, in order. */
  all(): readonly Waiter[] {
    const waiters: Waiter[] = [];
    for (let waiter = this.head; waiter !== undefined; waiter = waiter.next) waiters.push(waiter);
    return waiters;
  }
}
