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

/**
 * Runs a task for all callers that wait for its next result. It runs once at a time, and begins at most once in
 * `pauseMs`. It also pauses three times as long as it ran, so that a slow task takes a quarter of the time at most.
 * Without callers it does not run and there is no timer.
 */
export class SharedTask<T> {
  latest: TaskResult<T> | undefined;
  private running: Promise<void> | undefined;
  private pause: { readonly timer: Timer; readonly end: () => void } | undefined;
  private closed = false;

  /** @param run the task. It must not reject. */
  constructor(
    private readonly clock: Clock,
    private readonly pauseMs: number,
    private readonly run: () => Promise<T>,
  ) {}

  /** Returns whether the latest result is as new as it can be: a caller that has not seen it need not wait. */
  get isFresh(): boolean {
    return this.latest !== undefined && this.clock.now() < this.dueAt;
  }

  /** Waits until the task has another result, for at most `limitMs` milliseconds. */
  next(limitMs: number): Promise<void> {
    if (this.closed) return Promise.resolve();
    this.running ??= this.runOnce().finally(() => (this.running = undefined));
    return withTimeout(this.clock, limitMs, this.running, () => undefined);
  }

  /** Ends the waits of all callers. The task does not run again. */
  close(): void {
    this.closed = true;
    this.pause?.timer.cancel();
    this.pause?.end();
  }

  private get dueAt(): number {
    const { latest } = this;
    return latest === undefined ? -Infinity : latest.startedAt + Math.max(this.pauseMs, 4 * latest.tookMs);
  }

  private async runOnce(): Promise<void> {
    const restMs = this.dueAt - this.clock.now();
    if (restMs > 0) await this.wait(restMs);
    if (this.closed) return;
    const startedAt = this.clock.now();
    const value = await this.run();
    const index = (this.latest?.index ?? 0) + 1;
    this.latest = { value, index, startedAt, tookMs: this.clock.now() - startedAt };
  }

  private wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.pause = { timer: this.clock.schedule(delayMs, resolve, true), end: resolve };
    });
  }
}
