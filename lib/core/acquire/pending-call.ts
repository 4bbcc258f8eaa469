import { type AbortSubscription, onAbort, throwIfAborted } from '../context/abort-signals.js';
import type { Clock, Timer } from '../time/clock.js';

/** The promise, the timer and the signal of a waiting caller. The end of the wait stops the use of the last two. */
export class PendingCall<Result> {
  readonly result: Promise<Result>;
  private resolveResult!: (result: Result | Promise<Result>) => void;
  private rejectResult!: (reason: unknown) => void;
  private timer: Timer | undefined = undefined;
  private wakesAt = Infinity;
  private subscription: AbortSubscription | undefined = undefined;

  constructor(protected readonly clock: Clock) {
    this.result = new Promise((resolve, reject) => {
      this.resolveResult = resolve;
      this.rejectResult = reject;
    });
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

  /** Ends the wait. */
  protected resolve(result: Result | Promise<Result>): void {
    this.resolveResult(result);
    this.end();
  }

  private end(): void {
    this.timer?.cancel();
    this.subscription?.stop();
  }
}
