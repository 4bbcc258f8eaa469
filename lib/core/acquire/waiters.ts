import { type Clock, driftOf, type Timer } from '../time/clock.js';
import type { Grant, HoldOptions } from '../lease/grant.js';

/** What a caller asks a gate for. */
export interface WaitOptions extends HoldOptions {
  /** How long to wait for others; 0 does not wait, Infinity waits for ever. */
  readonly waitMs: number;
  /** Ends the waiting with its reason. */
  readonly signal: AbortSignal | undefined;
}

/** A lease no longer than the hold may last at most. */
export function leaseOf({ ttlMs, maxHoldMs }: WaitOptions): number {
  return Math.min(ttlMs, Math.ceil(maxHoldMs + driftOf(ttlMs)));
}

/** One local caller in front of a gate. */
export class Waiter {
  readonly granted: Promise<Grant>;
  /** Neighbours in the gate's line; kept here so that leaving from the middle is one step. */
  previous: Waiter | undefined = undefined;
  next: Waiter | undefined = undefined;
  /** How many asks it has waited for that did not bring the lock. */
  failedAttempts = 0;

  private resolve!: (grant: Grant) => void;
  private reject!: (reason: unknown) => void;
  private timer: Timer | undefined = undefined;
  private stopListening: (() => void) | undefined = undefined;

  /**
   * @param resource what the caller calls it; several may share a key.
   * @param nested asked from inside a hold of the same instance: shutting down lets it through, so that the hold can finish.
   */
  constructor(
    readonly resource: string,
    readonly options: WaitOptions,
    readonly enteredAt: number,
    readonly nested: boolean,
    private readonly clock: Clock,
  ) {
    this.granted = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** What is left of `waitMs`. */
  get remainingWaitMs(): number {
    return this.enteredAt + this.options.waitMs - this.clock.now();
  }

  /** Calls back when the caller's own signal says that it is not interested any more. */
  onAbort(leave: (reason: unknown) => void): void {
    const { signal } = this.options;
    if (signal === undefined) return;
    const listener = (): void => leave(signal.reason);
    signal.addEventListener('abort', listener, { once: true });
    this.stopListening = () => signal.removeEventListener('abort', listener);
  }

  /** Calls back in `delayMs`, unless the waiting has ended or a timer runs already; at once if no time is left. */
  startTimer(delayMs: number, whenOver: () => void): void {
    if (delayMs <= 0) return whenOver();
    if (this.timer !== undefined || delayMs === Infinity) return;
    this.timer = this.clock.schedule(delayMs, () => {
      this.timer = undefined;
      whenOver();
    });
  }

  admit(grant: Grant): void {
    this.end();
    this.resolve(grant);
  }

  refuse(reason: unknown): void {
    this.end();
    this.reject(reason);
  }

  private end(): void {
    this.timer?.cancel();
    this.stopListening?.();
  }
}

/** Waiters, first in first out; anyone may leave at any time. */
export class WaiterQueue {
  head: Waiter | undefined;
  private tail: Waiter | undefined;
  length = 0;
  private willWaitCount = 0;

  /** Whether anybody in it is ready to wait for others. */
  get willWait(): boolean {
    return this.willWaitCount > 0;
  }

  /** Whether everybody in it is. */
  get allWillWait(): boolean {
    return this.willWaitCount === this.length;
  }

  push(waiter: Waiter): void {
    this.length += 1;
    if (waiter.options.waitMs > 0) this.willWaitCount += 1;
    waiter.previous = this.tail;
    if (this.tail === undefined) this.head = waiter;
    else this.tail.next = waiter;
    this.tail = waiter;
  }

  /** False if the waiter does not stand in the line. */
  remove(waiter: Waiter): boolean {
    if (waiter.previous === undefined && this.head !== waiter) return false;
    this.length -= 1;
    if (waiter.options.waitMs > 0) this.willWaitCount -= 1;
    if (waiter.previous === undefined) this.head = waiter.next;
    else waiter.previous.next = waiter.next;
    if (waiter.next === undefined) this.tail = waiter.previous;
    else waiter.next.previous = waiter.previous;
    waiter.previous = waiter.next = undefined;
    return true;
  }

  /** Counts one more ask in vain for everybody; answers those who have waited for so many. */
  *exhaustedAfter(limit: number): Generator<Waiter> {
    for (const waiter of this) {
      waiter.failedAttempts += 1;
      if (waiter.failedAttempts >= limit) yield waiter;
    }
  }

  /** All of them, in order; the line may change underway. */
  *[Symbol.iterator](): Generator<Waiter> {
    for (let waiter = this.head; waiter !== undefined;) {
      const { next } = waiter;
      yield waiter;
      waiter = next;
    }
  }
}
