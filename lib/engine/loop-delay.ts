/**
 * Measures how long the event loop was blocked, by how late the watchdog's timer was. A process that was stopped, and a
 * machine that was suspended, also count.
 */
export class LoopDelay {
  /** When the timer is due. Infinity without a timer. */
  private dueAt = Infinity;
  // The last delay.
  private from = 0;
  private until = 0;

  /** Records when the timer will be due. */
  onArmed(dueAt: number, now: number): void {
    this.observe(now);
    this.dueAt = dueAt;
  }

  /** Records that the timer has fired. */
  onFired(now: number): void {
    this.observe(now);
    this.dueAt = Infinity;
  }

  /** Returns how long the event loop was blocked around the time `at`, in milliseconds. 0 if it was not blocked. */
  around(at: number, now: number): number {
    // The timer is overdue if the loop has not come to it yet.
    this.observe(now);
    return this.from < at && at <= this.until ? this.until - this.from : 0;
  }

  private observe(now: number): void {
    if (now <= this.dueAt) return;
    this.from = this.dueAt;
    this.until = now;
  }
}
