import type { Clock, Timer } from '../../core/time/clock.js';

/**
 * The pause in milliseconds between a timeout and its check. After a blocked event loop, timers fire before the replies
 * that have arrived. The replies are read in this pause.
 */
export const REPLY_GRACE_MS = 5;

/** The unanswered requests of one node. Reports when the oldest takes longer than the timeout. */
export class InFlight {
  /** A reply has taken longer than the timeout. */
  overdue = false;
  private readonly requests = new Set<{ readonly sentAt: number }>();
  /** The request that had timed out at the previous check. */
  private suspect: object | undefined;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly listener: {
      onOverdue(): void;
      /** The node has replied after all. */
      onRecovered(): void;
    },
  ) {}

  /** Whether a request is unanswered. */
  get isBusy(): boolean {
    return this.requests.size > 0;
  }

  async track<T>(reply: Promise<T>): Promise<T> {
    const request = { sentAt: this.clock.now() };
    this.requests.add(request);
    this.timer ??= this.checkIn(this.timeoutMs);
    try {
      return await reply;
    } finally {
      this.requests.delete(request);
      if (this.overdue) {
        this.overdue = false;
        this.listener.onRecovered();
      }
    }
  }

  /** Drops all requests: their connection has ended, so they may never be answered. */
  forget(): void {
    this.timer?.cancel();
    this.timer = undefined;
    this.requests.clear();
    this.overdue = false;
  }

  /** Checks the oldest request. One timer serves all requests and runs only while one is unanswered. */
  private check(): void {
    this.timer = undefined;
    const [oldest] = this.requests;
    if (oldest === undefined) return;
    if (oldest === this.suspect) {
      this.overdue = true;
      return this.listener.onOverdue();
    }
    const restMs = oldest.sentAt + this.timeoutMs - this.clock.now();
    if (restMs <= 0) this.suspect = oldest;
    this.timer = this.checkIn(Math.max(REPLY_GRACE_MS, restMs));
  }

  private checkIn(delayMs: number): Timer {
    return this.clock.schedule(delayMs, () => this.check(), true);
  }
}
