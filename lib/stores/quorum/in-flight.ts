import type { Clock, Timer } from '../../core/time/clock.js';

/** What has been answered meanwhile is read between two timers, also where this process was held up until the first. */
export const TURN_MS = 5;

/** What a node has not answered yet, whatever it was asked; and whether that has taken too long. */
export class InFlight {
  /** It owes an answer for longer than it may take. */
  overdue = false;
  private readonly requests = new Set<{ readonly sentAt: number }>();
  private suspect: object | undefined;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly listener: {
      overdue(): void;
      /** It has answered after all. */
      recovered(): void;
    },
  ) {}

  async track<T>(answer: Promise<T>): Promise<T> {
    const request = { sentAt: this.clock.now() };
    this.requests.add(request);
    this.timer ??= this.lookIn(this.timeoutMs);
    try {
      return await answer;
    } finally {
      this.requests.delete(request);
      if (this.overdue) {
        this.overdue = false;
        this.listener.recovered();
      }
    }
  }

  /** The connection has ended: what was asked over it may never be answered. */
  forget(): void {
    this.requests.clear();
    this.overdue = false;
  }

  /** One timer for all requests, which is there only while something is unanswered. */
  private look(): void {
    this.timer = undefined;
    const [oldest] = this.requests;
    if (oldest === undefined) return;
    if (oldest === this.suspect) {
      this.overdue = true;
      return this.listener.overdue();
    }
    const restMs = oldest.sentAt + this.timeoutMs - this.clock.now();
    if (restMs <= 0) this.suspect = oldest;
    this.timer = this.lookIn(Math.max(TURN_MS, restMs));
  }

  private lookIn(delayMs: number): Timer {
    return this.clock.schedule(delayMs, () => this.look(), true);
  }
}
