import type { Clock, Timer } from './clock.js';
import { runOutside } from '../async-context.js';

/**
 * A clock on which all background timers of one certain delay share a single timer of the clock behind it: they end in the order in
 * which they began, so that the oldest one's does for all. Requests have the same timeout each and nearly all are answered
 * long before: with a timer each they would cost more than the rest of the request.
 */
export class TimeoutPool implements Clock {
  private oldest: PooledTimeout | undefined;
  private youngest: PooledTimeout | undefined;
  private timer: Timer | undefined;
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly pooledMs: number,
  ) {}

  now(): number {
    return this.clock.now();
  }

  wallTime(): number {
    return this.clock.wallTime();
  }

  random(): number {
    return this.clock.random();
  }

  schedule(delayMs: number, task: () => void, background?: boolean): Timer {
    // Only what does not keep the process alive: the shared timer would do so for longer than it is needed.
    if (delayMs !== this.pooledMs || !background || this.closed) return this.clock.schedule(delayMs, task, background);
    const timer = new PooledTimeout(this, this.clock.now() + delayMs, task);
    timer.older = this.youngest;
    if (this.youngest === undefined) this.oldest = timer;
    else this.youngest.younger = timer;
    this.youngest = timer;
    this.arm();
    return timer;
  }

  remove(timer: PooledTimeout): void {
    const { older, younger } = timer;
    if (older === undefined && this.oldest !== timer) return;
    if (older === undefined) this.oldest = younger;
    else older.younger = younger;
    if (younger === undefined) this.youngest = older;
    else younger.older = older;
    timer.older = timer.younger = undefined;
  }

  /** Lets all of them go off now: each is a request that nobody waits for any longer. */
  close(): void {
    this.closed = true;
    this.timer?.cancel();
    for (let timer = this.oldest; timer !== undefined; timer = this.oldest) this.end(timer);
  }

  /** One that is set goes off for nothing if the oldest has ended meanwhile: that is cheaper than to set it anew each time. */
  private arm(): void {
    if (this.timer !== undefined || this.oldest === undefined) return;
    const delayMs = Math.max(0, this.oldest.at - this.clock.now());
    // It serves many callers: whoever happened to start it must not be around those that it rings for.
    this.timer = runOutside(() => this.clock.schedule(delayMs, () => this.ring(), true));
  }

  /**
   * Behind a busy event loop timers come before the answers that have arrived meanwhile: those are read first, and only then
   * it is judged who is late.
   */
  private ring(): void {
    this.timer = this.clock.schedule(0, () => this.judge(), true);
  }

  private judge(): void {
    this.timer = undefined;
    const now = this.clock.now();
    for (let timer = this.oldest; timer !== undefined && timer.at <= now; timer = this.oldest) {
      this.end(timer);
    }
    this.arm();
  }

  private end(timer: PooledTimeout): void {
    this.remove(timer);
    timer.task();
  }
}

class PooledTimeout implements Timer {
  /** Neighbours by age. */
  older: PooledTimeout | undefined = undefined;
  younger: PooledTimeout | undefined = undefined;

  constructor(
    private readonly pool: TimeoutPool,
    readonly at: number,
    readonly task: () => void,
  ) {}

  cancel(): void {
    this.pool.remove(this);
  }
}
