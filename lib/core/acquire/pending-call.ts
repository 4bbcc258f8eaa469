import { type AbortSubscription, onAbort, throwIfAborted } from '../context/abort-signals.js';
import type { Clock, Timer } from '../time/clock.js';

/** A caller that waits: its promise, its timer and its signal. The end of the waiting stops both. */
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
   * Calls `leave` with the reason when the caller's signal aborts. The signal's own code runs here, so call it before
   * others know the caller.
   *
   * @throws the reason if the signal has aborted, and a LockConfigError if it refuses its listener.
   */
  listen(signal: AbortSignal | undefined, leave: (reason: unknown) => void): void {
    this.subscription = onAbort(signal, leave);
    // A subscriber of an event may have aborted it since the call.
    throwIfAborted(signal);
  }

  /**
   * Calls `onTimer` at a moment, or at an earlier one that was set before.
   *
   * @param now the current time. Infinity as a moment sets no timer.
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

  /** Ends the waiting with an error. */
  refuse(reason: unknown): void {
    this.rejectResult(reason);
    this.end();
  }

  /** Ends the waiting. */
  protected resolve(result: Result | Promise<Result>): void {
    this.resolveResult(result);
    this.end();
  }

  private end(): void {
    this.timer?.cancel();
    this.subscription?.stop();
  }
}
