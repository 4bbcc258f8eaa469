import { type Clock, type Timer, withTimeout } from '../core/time/clock.js';

/** A result of a {@link SharedTask}. */
export interface TaskResult<T> {
  readonly value: T;
  /** How many results the task had before this one. */
  readonly index: number;
  /** When the task began, on the clock of the task. */
  readonly startedAt: number;
  /** How long the task ran, in milliseconds. */
  readonly tookMs: number;
}

/** A task that takes long pauses longer, so that it runs for at most this part of the time. */
const SHARE_OF_TIME = 1 / 10;
/** A result is forgotten if no caller has come this long after the task might have begun again. */
const FORGET_AFTER_MS = 60_000;

/**
 * Runs a task for all callers that wait for its next result. It runs once at a time, and begins at most once in
 * `pauseMs`. Without callers it does not run, and after a minute its result is forgotten.
 */
export class SharedTask<T> {
  latest: TaskResult<T> | undefined;
  private runs = 0;
  private running: Promise<void> | undefined;
  private pause: { readonly timer: Timer; readonly end: () => void } | undefined;
  private forgetting: Timer | undefined;
  private closed = false;

  /** @param run the task. It must not reject. */
  constructor(
    private readonly clock: Clock,
    private readonly pauseMs: number,
    private readonly run: () => Promise<T>,
  ) {}

  /** Returns whether the latest result is as new as it can be: a caller that has not seen it need not wait. */
  get isFresh(): boolean {
    return this.latest !== undefined && this.restMs > 0;
  }

  /** Returns in how many milliseconds the task may begin again. */
  get restMs(): number {
    if (this.closed) return this.pauseMs;
    const { latest } = this;
    if (latest === undefined) return 0;
    const dueAt = latest.startedAt + Math.max(this.pauseMs, latest.tookMs / SHARE_OF_TIME);
    return Math.max(0, dueAt - this.clock.now());
  }

  /** Waits until the task has another result, for at most `limitMs` milliseconds. */
  next(limitMs: number): Promise<void> {
    if (this.closed) return Promise.resolve();
    this.running ??= this.runOnce().finally(() => (this.running = undefined));
    return withTimeout(this.clock, limitMs, this.running, () => undefined);
  }

  /** Ends the waits of all callers, apart from those for a task that runs. The task does not run again. */
  close(): void {
    this.closed = true;
    this.forgetting?.cancel();
    this.pause?.timer.cancel();
    this.pause?.end();
  }

  private async runOnce(): Promise<void> {
    const { restMs } = this;
    if (restMs > 0) await this.wait(restMs);
    if (this.closed) return;
    this.forgetting?.cancel();
    const startedAt = this.clock.now();
    const value = await this.run();
    this.runs += 1;
    this.latest = { value, index: this.runs, startedAt, tookMs: this.clock.now() - startedAt };
    if (!this.closed) this.forgetting = this.clock.schedule(this.restMs + FORGET_AFTER_MS, () => this.forget(), true);
  }

  private forget(): void {
    this.latest = undefined;
  }

  private wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.pause = { timer: this.clock.schedule(delayMs, resolve, true), end: resolve };
    });
  }
}
