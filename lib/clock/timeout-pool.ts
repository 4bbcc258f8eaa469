import { runOutside } from '../common/async-context.js';
import { type Linked, LinkedList } from '../common/linked-list.js';
import type { Clock, Timer } from './clock.js';

/** A request that may have no reply in time. */
export interface LimitedRequest {
  /** Called when the request has had no reply for too long. */
  onTimeout(): void;
}

/**
 * Calls `onTimeout` when a request for a key has had no reply for too long.
 *
 * @param sentAt when the request was sent, which is now.
 */
export type LimitRequest = (key: string, request: LimitedRequest, sentAt: number) => Timer;

/** What a {@link TimeoutPool} reports, and asks. */
export interface TimeoutPoolListener {
  /**
   * Called repeatedly while timeouts run, after the event loop has read what had arrived at its sockets.
   *
   * @param attendedMs how long the pool has watched, without the time in which the event loop was blocked.
   * @param oldestMs the part of that time for which the oldest timeout has run.
   */
  onLook(attendedMs: number, oldestMs: number): void;
  /**
   * Returns whether a timeout that has run for its whole time may expire, for a request for the key. Called again at
   * each further look.
   *
   * @param sentAt when the request was sent, on the clock.
   */
  hasFailed(key: string, sentAt: number, attendedMs: number): boolean;
}

/** How many times a pool looks before a timeout expires. */
const LOOKS = 10;

/** A rounding error of the sum of all steps, in milliseconds. */
const EPSILON_MS = 0.001;

/**
 * A single timer for the timeouts of requests. All have the same delay, and nearly all are cancelled.
 *
 * Before a timeout expires, the event loop reads what has arrived at its sockets. The pool looks ten times in a delay,
 * and only time in which this process could read replies counts for timeouts. A late look counts as if it had come in
 * time, because the event loop was blocked.
 *
 * The timeouts are a linked list, because they expire in the order in which they were scheduled.
 */
export class TimeoutPool {
  /** The timeouts, the oldest first. */
  private readonly timeouts = new LinkedList<PooledTimeout>();
  private timer: Timer | undefined;
  /** How long the pool has watched, without the time in which the event loop was blocked. */
  private attendedMs = 0;
  private lookedAt = 0;
  private readonly longestStepMs: number;
  /** How long after the last look the next one is due. */
  private stepMs: number;
  private closed = false;

  /** @param pooledMs the delay of all timeouts. */
  constructor(
    private readonly clock: Clock,
    private readonly pooledMs: number,
    private readonly listener: TimeoutPoolListener,
  ) {
    this.longestStepMs = pooledMs / LOOKS;
    this.stepMs = this.longestStepMs;
  }

  /** Calls `onTimeout` when a request has had no reply for `pooledMs`, and its server was silent for as long. */
  readonly limitRequest: LimitRequest = (key, request, sentAt) =>
    this.closed ? this.clock.schedule(this.pooledMs, () => request.onTimeout(), true) : this.add(key, request, sentAt);

  /** Lets all timeouts expire now. Later ones have a timer each. */
  close(): void {
    this.closed = true;
    this.timer?.cancel();
    for (let next = this.timeouts.head; next !== undefined; next = this.timeouts.head) this.expire(next);
  }

  private add(key: string, request: LimitedRequest, now: number): PooledTimeout {
    if (this.timer === undefined) this.start(now);
    const timeout = new PooledTimeout(this.timeouts, this.attendedUntil(now) + this.pooledMs, request, key, now);
    this.timeouts.push(timeout);
    return timeout;
  }

  private attendedUntil(now: number): number {
    return this.attendedMs + Math.min(Math.max(0, now - this.lookedAt), this.stepMs);
  }

  private start(now: number): void {
    this.lookedAt = now;
    this.stepMs = this.longestStepMs;
    this.listener.onLook(this.attendedMs, 0);
    this.arm(this.stepMs);
  }

  private arm(delayMs: number): void {
    // A timer stays set if the oldest timeout is cancelled, because a spare wake-up costs less than a new timer.
    this.timer = runOutside(() => this.clock.schedule(delayMs, () => this.onStep(), true));
  }

  private onStep(): void {
    const now = this.clock.now();
    this.attendedMs = this.attendedUntil(now);
    this.lookedAt = now;
    this.stepMs = this.longestStepMs;
    // The event loop runs timers before it reads sockets.
    this.timer = this.clock.schedule(0, () => this.look(), true);
  }

  private look(): void {
    const { timeouts } = this;
    if (timeouts.head !== undefined) {
      const oldestMs = this.attendedMs + this.pooledMs - timeouts.head.at;
      this.listener.onLook(this.attendedMs, oldestMs);
    }
    for (const timeout of this.due()) {
      const { key, sentAt } = timeout;
      if (this.listener.hasFailed(key, sentAt, this.attendedMs)) this.expire(timeout);
    }
    this.timer = undefined;
    if (timeouts.head === undefined) return;
    const restMs = timeouts.head.at - this.attendedMs;
    if (restMs > EPSILON_MS) this.stepMs = Math.min(this.stepMs, restMs);
    this.arm(Math.max(0, this.lookedAt + this.stepMs - this.clock.now()));
  }

  /** Yields the timeouts that have run for their whole time, skipping any that are removed during the iteration. */
  private *due(): Generator<PooledTimeout> {
    const due: PooledTimeout[] = [];
    const until = this.attendedMs + EPSILON_MS;
    for (let next = this.timeouts.head; next !== undefined && next.at <= until; next = next.next) due.push(next);
    for (const timeout of due) if (this.timeouts.has(timeout)) yield timeout;
  }

  private expire(timeout: PooledTimeout): void {
    timeout.cancel();
    timeout.request.onTimeout();
  }
}

class PooledTimeout implements Linked<PooledTimeout>, Timer {
  previous: PooledTimeout | undefined = undefined;
  next: PooledTimeout | undefined = undefined;

  constructor(
    private readonly timeouts: LinkedList<PooledTimeout>,
    readonly at: number,
    readonly request: LimitedRequest,
    readonly key: string,
    readonly sentAt: number,
  ) {}

  cancel(): void {
    this.timeouts.remove(this);
  }
}
